"""The comparison of docs/comparison.md: policies on the published traces, made by one command, kept run by run.

    python -m benchmarks.comparison                # all of it: hours of CPU
    python -m benchmarks.comparison --only venus   # one trace
    python -m benchmarks.comparison --docs         # only what was run before, into the page

Traces are read from `../shared/traces`. What has been run is kept in `build/comparison` and not run again; rows of the
page that were made elsewhere stay.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from muster.cli.lab.comparisons import CompareCommand, run_compare
from muster.lab.sources.inputs import Part

ROOT: Final = Path(__file__).parents[1]
TRACES: Final = ROOT.parent / "shared" / "traces"
OUT: Final = ROOT / "build" / "comparison"
PAGE: Final = ROOT / "docs" / "comparison.md"
POLICIES: Final = ("skip", "fifo", "sjf", "easy", "easy-fcfs", "easy-shortest", "muster")
_SKIP: Final = "skip"


@dataclass(frozen=True, slots=True)
class Trial:
    """A trace on a cluster."""

    title: str
    file: str
    nodes: str
    part: Part
    #: How the same is asked for by hand.
    options: str


TRIALS: Final[Mapping[str, Trial]] = {
    "venus": Trial(
        "Helios Venus on 88 nodes",
        "helios_venus_jobs.csv.gz",
        "88x8x48",
        Part(one_queue="default", gpu_only=True),
        "--nodes 88x8x48 --gpu-only --one-queue default",
    ),
    "philly": Trial(
        "Philly, October and November, on 72 nodes",
        "philly_jobs.csv.gz",
        "72x8",
        Part(since="2294959", until="7565359", one_queue="default"),
        "--nodes 72x8 --since 2294959 --until 7565359 --one-queue default",
    ),
    "itp": Trial(
        "ITP pooled on 160 nodes",
        "msitp_jobs.csv.gz",
        "160x8",
        Part(one_queue="default"),
        "--nodes 160x8 --one-queue default",
    ),
    # The beginnings of both, for those who have minutes and not hours.
    "philly-begin": Trial(
        "Philly, the first 12,000 jobs of October, on 72 nodes",
        "philly_jobs.csv.gz",
        "72x8",
        Part(since="2294959", until="7565359", one_queue="default", limit=12_000),
        "--nodes 72x8 --since 2294959 --until 7565359 --one-queue default --limit 12000",
    ),
    "itp-begin": Trial(
        "ITP pooled, the first 12,000 jobs, on 160 nodes",
        "msitp_jobs.csv.gz",
        "160x8",
        Part(one_queue="default", limit=12_000),
        "--nodes 160x8 --one-queue default --limit 12000",
    ),
}
#: Figures of the page: heading and key.
_COLUMNS: Final = (
    ("wait: mean", "wait_s.mean"),
    ("p99", "wait_s.p99"),
    ("largest 1 %: mean", "largest.wait_s.mean"),
    ("p99", "largest.wait_s.p99"),
    ("GPU-hours lost", "lost_gpu_s"),
)


def main() -> None:
    """Run what was asked for, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=__doc__)
    parser.add_argument("--only", default="venus,philly,itp", help=f"of {', '.join(TRIALS)}; commas between them")
    parser.add_argument("--policies", default=",".join(POLICIES), help="policies, with commas between them")
    parser.add_argument("--estimates", default="exact", help="what is told about run times, with commas between them")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--docs", action="store_true", help="run nothing, and write the page of what was run")
    asked = parser.parse_args()
    for name in () if asked.docs else asked.only.split(","):
        for told in asked.estimates.split(","):
            _run(name, asked.policies.split(","), told, asked.seeds, asked.workers)
    PAGE.write_text(_with_tables(PAGE.read_text()))


def _run(name: str, policies: list[str], told: str, seeds: int, workers: int | None) -> None:
    trial = TRIALS[name]
    configs = tuple(policy if policy == "muster" else f"policy:{policy}" for policy in policies)
    folder = OUT / f"{name}-{told.replace(':', '-')}"
    command = CompareCommand(
        jobs=(TRACES / trial.file,),
        nodes=(trial.nodes,),
        configs=configs,
        n_seeds=seeds,
        estimates=(told,),
        part=trial.part,
        workers=workers,
        out=folder,
        resume=True,
    )
    for config in configs:  # one by one, so that what is done is on the page if the rest is not
        run_compare(replace(command, configs=(config,)), "table")
        _add(folder)
    run_compare(command, "table")  # all of them side by side, from what is kept


def _add(folder: Path) -> None:
    """Add the figures of a comparison to those that were made before."""
    found = json.loads((folder / "compare.json").read_text())
    kept = folder / "figures.json"
    known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    for case in found["cases"].values():
        known["jobs"] = case["jobs"]
        for key, by_name in case["figures"].items():
            known.setdefault(key, {}).update(by_name)
    kept.write_text(json.dumps(known, indent=1) + "\n")


# -- the page ----------------------------------------------------------------------------------------------------------


def _with_tables(text: str) -> str:
    """The page with the tables between its marks made anew; rows of runs that are not kept here stay as they are."""
    for name, trial in TRIALS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, _, rest = text.partition(begin)
        there, _, after = rest.partition(end)
        made = "\n".join(_table(name, trial, there)) + "\n" if any(_kept(name)) else there
        text = before + begin + made + end + after
    return text


def _table(name: str, trial: Trial, there: str) -> Iterator[str]:
    """The lines of a trial; `there`: what the page says of it now."""
    rows = dict(_rows(name))
    lines = _rows_of(there)
    base = rows[_SKIP] if _SKIP in rows else _mean_of(lines.get(_SKIP, ""))
    for label, figures in rows.items():
        cells = [_cell(key, figures, base if key == "wait_s.mean" else {}) for _, key in _COLUMNS]
        lines[label] = f"| {label} | " + " | ".join(cells) + " |"
    yield f"`muster compare {trial.file} {trial.options}`, {_jobs(name):,} jobs:"
    yield ""
    yield "| policy | " + " | ".join(heading for heading, _ in _COLUMNS) + " |"
    yield "|---|" + "---:|" * len(_COLUMNS)
    yield from (lines[label] for label in sorted(lines, key=_place))


def _rows_of(table: str) -> dict[str, str]:
    """The rows of a table on the page, by policy."""
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| policy |")]
    return {line.split("|")[1].strip(): line for line in rows}


def _mean_of(row: str) -> dict[str, float]:
    """What a row of the page says about the mean wait."""
    found = re.match(r"\|[^|]*\| ([\d,]+)", row)
    return {"wait_s.mean": float(found[1].replace(",", ""))} if found else {}


def _place(label: str) -> tuple[int, int, str]:
    """Where a row stands: exact times first, and policies as they are listed."""
    policy, _, told = label.partition(", estimates ")
    return ("", "factor:5", "none").index(told), [*POLICIES, policy].index(policy), label


def _kept(name: str) -> Iterator[tuple[str, Any]]:
    """What was run of a trial: what was told about run times, and the figures."""
    for told in ("exact", "factor-5", "none"):
        path = OUT / f"{name}-{told}" / "figures.json"
        if path.exists():
            yield told, json.loads(path.read_text())


def _jobs(name: str) -> int:
    return next(int(known["jobs"]) for _, known in _kept(name))


def _rows(name: str) -> Iterator[tuple[str, dict[str, float]]]:
    for told, known in _kept(name):
        for policy in known["wait_s.mean"]:
            label = policy if told == "exact" else f"{policy}, estimates {told.replace('-', ':')}"
            yield label, {key: known[key][policy]["mean"] for _, key in _COLUMNS if key in known}


def _cell(key: str, figures: Mapping[str, float], base: Mapping[str, float]) -> str:
    value = figures.get(key)
    if value is None:
        return "–"
    text = f"{value:,.0f}"
    return f"{text} (×{value / base[key]:.3f})" if base.get(key) else text


if __name__ == "__main__":
    main()
