"""Replays and comparisons for the dashboard: what `muster replay` and `muster compare` left in folders.

Read when somebody looks. Only folders that were named at the start are read, and in them, or one below, only
`report.json`, `compare.json` and the runs that this one names; a run is called by its folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import UserError
from muster.lab.figures import FIGURES
from muster.ui.history import Json

REPORT: Final = "report.json"
COMPARISON: Final = "compare.json"
#: No report of a replay is larger.
_MAX_BYTES: Final = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs below some folders."""

    folders: Sequence[Path] = ()

    def found(self, file: str = REPORT) -> dict[str, Path]:
        """Files of a name by the folder that they are in, sorted by it."""
        paths: dict[str, Path] = {}
        for folder in self.folders:
            direct = folder / file
            for path in [direct] if direct.is_file() else sorted(folder.glob(f"*/{file}")):
                name = path.parent.resolve().name
                while name in paths:
                    name += "'"
                paths[name] = path
        return dict(sorted(paths.items()))

    def check(self) -> None:
        """Raise UserError for a folder that has no run."""
        for folder in self.folders:
            if not Runs((folder,)).found() and not Runs((folder,)).found(COMPARISON):
                raise UserError(
                    f"{folder}: expected a folder with {REPORT} or {COMPARISON}, "
                    "as `muster replay --out DIR` and `muster compare --out DIR` write them"
                )

    def list_document(self) -> Json:
        """All runs with the figures that are compared, and all comparisons."""
        return {
            "runs": [_summary(name, _read(path)) for name, path in self.found().items()],
            "figures": [{"path": known.path, "what": known.what, "better": known.better} for known in FIGURES],
            "comparisons": [{"name": name, **_read(path)} for name, path in self.found(COMPARISON).items()],
        }

    def run_document(self, name: str) -> Json | None:
        """One run whole, as it was written; None: there is none of that name."""
        path = self.found().get(name)
        return None if path is None else {"name": name, "report": _read(path)}

    def compared_document(self, name: str, key: str) -> Json | None:
        """One run of a comparison; None: the comparison, or what it names, is not there."""
        path = self.found(COMPARISON).get(name)
        if path is None:
            return None
        cases = _read(path).get("cases", {}).values()
        named = {str(known) for case in cases for keys in case.get("runs", {}).values() for known in keys}
        run = path.parent / "runs" / f"{key}.json"
        return {"name": name, "report": _read(run)} if key in named and key.isalnum() and run.is_file() else None


def _summary(name: str, report: Json) -> Json:
    numbers = {known.path: known.of(report) for known in FIGURES}
    return {
        "name": name,
        "called": str(report.get("name", name)),
        "trace": str(report.get("trace", "")),
        "texts": {known.path: known.text(numbers[known.path]) for known in FIGURES},
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
