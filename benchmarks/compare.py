"""Compare the speed of two commits, case by case: `make bench-compare BASE=COMMIT [ONLY=A1,B2]`.

Both commits are checked out beside each other into a temporary directory, and every case is run by each of them in
turn, pair after pair, so that a machine that is busy for a while is busy for both. What counts is the ratio within a
pair: its median over the pairs, with the interval that holds the true median with a probability of at least 95 %,
whatever the distribution is. Each commit runs its own benchmarks; cases that only one of them has are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).with_name("compare.json")
#: Fewer pairs have no interval of 95 % that is worth the name.
MIN_PAIRS = 7
_CONFIDENCE = 0.95
#: From this ratio on a case stands out in the table.
_SLOWER = 1.15
_LIST = (
    "import json; from benchmarks.__main__ import CASES; print(json.dumps([case.name for case in CASES if case.goal]))"
)


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit that is checked out."""

    commit: str
    path: Path

    def run(self, *arguments: str) -> str:
        """Run Python in it, with its own sources."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.path / "src"), str(self.path)))}
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, *arguments], cwd=self.path, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{self.commit}: python {' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout

    def prepare(self) -> list[str]:
        """Compile the kernels, and return the timed cases."""
        used = self.run("-c", "import muster; print(muster.__file__)").strip()
        if not Path(used).is_relative_to(self.path):
            raise SystemExit(f"{self.commit}: python uses {used} and not the sources of the commit")
        self.run("-m", "muster.kernels")
        names: list[str] = json.loads(self.run("-c", _LIST))
        return names

    def seconds(self, case: str) -> float:
        measured: dict[str, Any] = json.loads(self.run("-m", "benchmarks", "--child", case))
        seconds: float = measured["seconds"]
        return seconds


def main() -> int:
    """Compare, print one table and write the figures down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--head", default="HEAD", help="the commit to compare (default: the one checked out)")
    parser.add_argument("--only", default="", help="cases or groups of cases, such as A1,A3 (default: all)")
    parser.add_argument("--pairs", type=int, default=MIN_PAIRS, help=f"how many pairs, {MIN_PAIRS} or more")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the figures as JSON")
    options = parser.parse_args()
    if options.pairs < MIN_PAIRS:
        parser.error(f"--pairs: expected {MIN_PAIRS} or more, got {options.pairs}")
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="muster-compare-") as folder, _trees(options, Path(folder)) as (base, head):
        with console.status("compiling both commits"):
            known = set(base.prepare())
            cases = [name for name in head.prepare() if name in known and _is_wanted(name, options.only)]
        if not cases:
            raise SystemExit(f"no case of both commits matches {options.only!r}")
        results = []
        for case in cases:
            with console.status(f"{case}: {options.pairs} pairs"):
                results.append(compare_case(case, base, head, options.pairs))
    document = {"base": base.commit, "head": head.commit, "pairs": options.pairs, "cases": results}
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    Console().print(_table(document))
    return 0


@contextmanager
def _trees(options: argparse.Namespace, folder: Path) -> Iterator[tuple[Tree, Tree]]:
    made = []
    try:
        for name, commit in (("base", options.base), ("head", options.head)):
            tree = Tree(_git("rev-parse", "--short", f"{commit}^{{commit}}"), folder / name)
            made.append(tree)
            _git("worktree", "add", "--detach", str(tree.path), tree.commit)
        yield made[0], made[1]
    finally:
        for tree in made:
            if tree.path.exists():
                _git("worktree", "remove", "--force", str(tree.path))


def _git(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own command
        ["git", *arguments],  # noqa: S607 - the developer's git
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _is_wanted(name: str, only: str) -> bool:
    wanted = [part.strip() for part in only.split(",") if part.strip()]
    return not wanted or name in wanted or name.partition("/")[0] in wanted or name[0] in wanted


def compare_case(case: str, base: Tree, head: Tree, pairs: int) -> dict[str, Any]:
    """Run the pairs of one case; the commit that goes first alternates."""
    times: dict[str, list[float]] = {"base": [], "head": []}
    for pair in range(pairs):
        order = [("base", base), ("head", head)]
        for name, tree in order if pair % 2 == 0 else reversed(order):
            times[name].append(tree.seconds(case))
    ratios = [after / before for before, after in zip(times["base"], times["head"], strict=True)]
    low, high = interval(ratios)
    return {
        "case": case,
        "base_seconds": statistics.median(times["base"]),
        "head_seconds": statistics.median(times["head"]),
        "ratio": round(statistics.median(ratios), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "ratios": [round(ratio, 4) for ratio in ratios],
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The narrowest pair of values, as far from both ends, with the median between them at 95 % or more."""
    ordered, count = sorted(values), len(values)
    best = 0
    for cut in range(count // 2):
        # The median lies outside if at most `cut` values fall on one side of it: coin tosses.
        outside = 2 * sum(math.comb(count, heads) for heads in range(cut + 1)) / 2**count
        if 1 - outside >= _CONFIDENCE:
            best = cut
    return ordered[best], ordered[count - 1 - best]


def _table(document: dict[str, Any]) -> Table:
    title = f"{document['head']} beside {document['base']}: {document['pairs']} pairs, medians, milliseconds"
    table = Table("case", title=title)
    for column in ("base", "head", "ratio", "95 % interval", ""):
        table.add_column(column, justify="right")
    for result in document["cases"]:
        table.add_row(
            result["case"],
            f"{1000 * result['base_seconds']:.1f}",
            f"{1000 * result['head_seconds']:.1f}",
            f"{result['ratio']:.3f}",
            f"{result['low']:.3f} to {result['high']:.3f}",
            "slower" if result["ratio"] > _SLOWER else "",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
