"""What a replay leaves in its folder: report.json, one row per job as CSV or Parquet, and itself if it was interrupted.

An interrupted replay is kept as Python's own image of it (`state.pickle`). It is read again only by `--resume`, from
the folder that the user names, and only if it was written by the same version for the same command.
"""

from __future__ import annotations

import csv
import json
import pickle
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from muster import __version__
from muster.api import BackendError, UserError
from muster.lab.replay import Replay

if TYPE_CHECKING:
    from muster.lab.report import Report

_STATE: Final = "state.pickle"


def write_report(report: Report, folder: Path) -> None:
    """Write report.json and jobs.csv, and jobs.parquet where a library for it is installed. Raises BackendError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
        with (folder / "jobs.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(report.jobs)
            rows.writerows(zip(*report.jobs.values(), strict=True))
        (folder / _STATE).unlink(missing_ok=True)
    except OSError as error:
        raise BackendError(f"cannot write to {folder}: {error.strerror}", retryable=False) from None
    if find_spec("pyarrow") is not None:
        write_parquet(report, folder / "jobs.parquet")


def write_parquet(report: Report, path: Path) -> None:
    """Write the jobs as Parquet. Raises UserError where no library for it is installed."""
    if find_spec("pyarrow") is None:
        raise UserError("Parquet needs the package pyarrow: pip install 'muster[lab]'; jobs.csv has the same rows")
    arrow: Any = import_module("pyarrow")  # Any: it has no types
    import_module("pyarrow.parquet").write_table(arrow.table(report.jobs), path)


def save_state(replay: Replay, folder: Path, command: str) -> None:
    """Keep a replay that was interrupted between two cycles. Raises BackendError."""
    part = folder / f"{_STATE}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_bytes(pickle.dumps((__version__, command, replay)))
        part.replace(folder / _STATE)
    except OSError as error:
        raise BackendError(f"cannot write to {folder}: {error.strerror}", retryable=False) from None


def read_state(folder: Path, command: str) -> Replay | None:
    """The replay that was interrupted; None: there is none. Raises UserError for one of another command."""
    path = folder / _STATE
    if not path.exists():
        return None
    version, before, replay = pickle.loads(path.read_bytes())  # noqa: S301  # the user's own, see above
    if (version, before) != (__version__, command):
        raise UserError(f"{path}: was written by another version or for other options; remove it to begin anew")
    assert isinstance(replay, Replay)
    return replay
