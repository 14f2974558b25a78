"""Command line of the benchmarks: one process per case, one table, one JSON file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cases import ALLOCATE_CASES, Case
from benchmarks.evictions import EVICTION_CASES
from benchmarks.loading import LOADING_CASES, loading_result
from benchmarks.replays import REPLAY_CASES, replay_result
from benchmarks.report import write_page
from benchmarks.solver import SOLVER_CASES
from benchmarks.whatif import WHAT_IF_CASES, what_if_result
from muster.framework import PROFILES

#: Measures victims against an exact solver instead of time; see `benchmarks.optimal`.
QUALITY = Case("C7", "100 random clusters: victims beside an exact solver's", 0.0, lambda _mirror: None)
#: Times whole cycles beside each other; see `benchmarks.finished`.
FINISHED = Case("A9", "88 nodes, 200 running pods, 15,000 finished ones: a whole cycle", 0.005, lambda _mirror: None)
#: What evictions cost in a day; see `benchmarks.day`.
DAYS = tuple(
    Case(f"C8/{name}", f"a day of a busy cluster, profile {name}", 0.0, lambda _mirror: None) for name in PROFILES
)
CASES = (
    *ALLOCATE_CASES,
    FINISHED,
    *EVICTION_CASES,
    *SOLVER_CASES,
    QUALITY,
    *DAYS,
    *REPLAY_CASES,
    *WHAT_IF_CASES,
    *LOADING_CASES,
)
#: Narrower tables fold the description of the work into a column of single words.
WIDTH = 150
RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    """Run the chosen cases and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", help="cases or groups of cases, such as A1,A3 (default: all)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the results as JSON")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/performance.md from the results")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        json.dump(_measured(options.child), sys.stdout)
        return 0
    if options.docs:
        write_page(json.loads(options.out.read_text()))
        return 0
    chosen = _chosen(options.only)
    terminal = Console()
    console = terminal if terminal.width >= WIDTH else Console(width=WIDTH)
    results = []
    for case in chosen:
        with console.status(f"{case.name}: {case.work}"):
            results.append(_run(case))
    options.out.write_text(json.dumps(_merged(options.out, results), indent=1) + "\n")
    console.print(_table(results))
    return 0


def _measured(name: str) -> dict[str, Any]:
    # Only the child pays for importing the scheduler, and only C7 for the solver.
    if name == QUALITY.name:
        from benchmarks.optimal import result  # noqa: PLC0415

        return result()
    if name == FINISHED.name:
        from benchmarks.finished import result as finished  # noqa: PLC0415

        return finished(FINISHED)
    if name in [day.name for day in DAYS]:
        from benchmarks.day import result as day_result  # noqa: PLC0415

        return day_result(name.partition("/")[2])
    for case in REPLAY_CASES:
        if name == case.name:
            return replay_result(case)
    for case in WHAT_IF_CASES:
        if name == case.name:
            return what_if_result(case)
    for case in LOADING_CASES:
        if name == case.name:
            return loading_result(case)
    from benchmarks.measure import measure  # noqa: PLC0415

    return measure(next(case for case in CASES if case.name == name))


def _chosen(only: str) -> list[Case]:
    wanted = [part.strip() for part in only.split(",") if part.strip()]
    chosen = [case for case in CASES if not wanted or case.name in wanted or case.name.split("/")[0] in wanted]
    if not chosen:
        raise SystemExit(f"no case matches {only!r}; known: {', '.join(case.name for case in CASES)}")
    return chosen


def _run(case: Case) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks", "--child", case.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode:
        raise SystemExit(f"{case.name} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _merged(path: Path, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of this run, and of earlier runs for cases that were not run now, in the order of the cases."""
    old = json.loads(path.read_text()) if path.exists() else []
    known = {result["case"]: result for result in [*old, *results]}
    return [known[case.name] for case in CASES if case.name in known]


def _table(results: list[dict[str, Any]]) -> Table:
    table = Table(title="medians, milliseconds")
    table.add_column("case")
    table.add_column("work", overflow="fold")
    for column in ("total", "goal", "snapshot", "session", "actions", "peak MiB", "calibration"):
        table.add_column(column, justify="right")
    table.add_column("done")
    for result in results:
        parts = result["parts"]
        figures = (result["seconds"], result["goal_seconds"], parts["snapshot"], parts["session"], parts["actions"])
        table.add_row(
            result["case"],
            result["work"],
            *(f"{1000 * figure:.1f}" if figure else "-" for figure in figures),
            f"{result['peak_mib']:.0f}",
            f"{1000 * result['calibration_seconds']:.0f}",
            ", ".join(f"{count} {what}" for what, count in result["done"].items() if count),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
