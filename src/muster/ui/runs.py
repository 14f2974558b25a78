"""Replays for the dashboard: what `muster replay --out DIR` left in folders, read when somebody looks.

Only folders that were named at the start are read, and in them only `report.json`; a run is called by its folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import UserError
from muster.lab.figures import FIGURES
from muster.lab.report import KEYS
from muster.ui.history import Json

REPORT: Final = "report.json"
#: No report of a replay is larger.
_MAX_BYTES: Final = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs below some folders."""

    folders: Sequence[Path] = ()

    def found(self) -> dict[str, Path]:
        """Reports by the name of their run, sorted by it."""
        paths: dict[str, Path] = {}
        for folder in self.folders:
            direct = folder / REPORT
            inner = [] if direct.is_file() else sorted(folder.glob(f"*/{REPORT}"))
            for path in [direct] if direct.is_file() else inner:
                name = path.parent.resolve().name
                while name in paths:
                    name += "'"
                paths[name] = path
        return dict(sorted(paths.items()))

    def check(self) -> None:
        """Raise UserError for a folder that has no run."""
        for folder in self.folders:
            if not Runs((folder,)).found():
                raise UserError(f"{folder}: expected a folder with {REPORT}, as `muster replay --out DIR` writes it")

    def list_document(self) -> Json:
        """All runs with the figures that are compared."""
        return {
            "runs": [_summary(name, _read(path)) for name, path in self.found().items()],
            "rows": [figure.what for figure in FIGURES],
            "meaning": dict(KEYS),
        }

    def run_document(self, name: str) -> Json | None:
        """One run whole, as it was written; None: there is none of that name."""
        path = self.found().get(name)
        return None if path is None else {"name": name, "report": _read(path)}


def _summary(name: str, figures: Json) -> Json:
    numbers = {figure.what: figure.of(figures) for figure in FIGURES}
    cells = {figure.what: figure.text(numbers[figure.what]) for figure in FIGURES}
    return {
        "name": name,
        "called": str(figures.get("name", name)),
        "trace": str(figures.get("trace", "")),
        "figures": cells,
        "numbers": numbers,
    }


def _read(path: Path) -> Json:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UserError(f"{path}: larger than {_MAX_BYTES:,} bytes")
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise UserError(f"{path}: cannot be read as the report of a replay: {fault}") from None
    if not isinstance(read, dict):
        raise UserError(f"{path}: expected the report of a replay")
    return read
