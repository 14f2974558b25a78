"""Command line of the benchmarks on a real API server: one run, one table, one JSON file."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.kubernetes.cases import CASES
from benchmarks.kubernetes.field import Result, Run
from benchmarks.kubernetes.page import figures, table
from benchmarks.measure import calibrate
from benchmarks.report import write_section

RESULTS = Path(__file__).parent.parent / "results-kubernetes.json"
WIDTH = 150


def main() -> int:
    """Run the chosen cases and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kubernetes", description=__doc__)
    parser.add_argument("--only", default="", help="cases, such as K1,K2 (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full numbers of nodes and pods")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the results as JSON")
    parser.add_argument("--work", type=Path, default=None, help="keep logs and data in this directory")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/performance.md from the results")
    options = parser.parse_args()
    if options.docs:
        write_section("kubernetes", table(json.loads(options.out.read_text())))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the control plane too
    console = Console() if Console().width >= WIDTH else Console(width=WIDTH)
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as scratch:
        run = Run(options.work or Path(scratch), options.scale)
        results = [result for case in _chosen(options.only) for result in _run(console, run, case)]
    options.out.write_text(json.dumps(_merged(options.out, results), indent=1) + "\n")
    console.print(_table(results))
    return 0


def _chosen(only: str) -> list[tuple[str, ...]]:
    wanted = {part.strip() for part in only.split(",") if part.strip()}
    chosen = [names for names in CASES if not wanted or wanted & set(names)]
    if not chosen:
        raise SystemExit(f"no case matches {only!r}; known: {', '.join(name for names in CASES for name in names)}")
    return chosen


def _run(console: Console, run: Run, names: tuple[str, ...]) -> list[dict[str, Any]]:
    with console.status(", ".join(names)):
        busy = os.getloadavg()[0]
        made = asyncio.run(_measure(run, names))
    machine = {"cores": os.cpu_count(), "load_before": busy, "calibration_seconds": calibrate(), "scale": run.scale}
    return [{**asdict(result), **machine} for result in made]


async def _measure(run: Run, names: tuple[str, ...]) -> list[Result]:
    made = await CASES[names](run)
    return made if isinstance(made, list) else [made]


def _merged(path: Path, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of this run, and of earlier runs of the same scale for cases that were not run now, in order."""
    old = json.loads(path.read_text()) if path.exists() else []
    known = {result["case"]: result for result in [*old, *results] if result["scale"] == results[0]["scale"]}
    return [known[name] for names in CASES for name in names if name in known]


def _table(results: list[dict[str, Any]]) -> Table:
    shown = Table(title="real API server on loopback")
    for column in ("case", "work", "figures", "goal", "met"):
        shown.add_column(column, overflow="fold")
    for result in results:
        met = "yes" if result["is_met"] else "no"
        shown.add_row(result["case"], result["work"], figures(result, "\n"), result["goal"], met, end_section=True)
    return shown


if __name__ == "__main__":
    sys.exit(main())
