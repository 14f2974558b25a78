"""What became of each case, and how a run is shown: lines for failures, a table, JSON.

The closing line is `N passed, N failed, N skipped`; disagreements that were decided on count as skipped and are
also shown by themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.cases import Case
from muster.api import UserError

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"

#: JSON values; what cases hold and what is compared with them.
Value = Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One expectation that does not hold."""

    key: str
    expected: Value
    got: Value


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one case."""

    case: Case
    outcome: str
    #: Skipped: what is missing in the product, or the tag that excuses a disagreement.
    feature: str = ""
    #: Skipped: why the disagreement stands.
    decided: str = ""
    mismatches: Sequence[Mismatch] = field(default=())

    def to_json(self) -> dict[str, Value]:
        shown: dict[str, Value] = {"id": self.case.id, "file": self.case.file, "outcome": self.outcome}
        if self.feature:
            shown["feature"] = self.feature
        if self.decided:
            shown["reason"] = self.decided
        if self.mismatches:
            shown["expected"] = {miss.key: miss.expected for miss in self.mismatches}
            shown["got"] = {miss.key: miss.got for miss in self.mismatches}
        return shown


def failure_line(result: Result) -> str:
    """One line: where, which case, and for each expectation what was expected and what came."""
    parts = []
    for miss in result.mismatches:
        expected, got = _differing(miss.expected, miss.got)
        parts.append(f"{miss.key}: expected {_compact(expected)}, got {_compact(got)}")
    return f"FAIL {result.case.file} {result.case.id}: {'; '.join(parts)}"


def _differing(expected: Value, got: Value) -> tuple[Value, Value]:
    """Leave out what two mappings agree on; long maps of binds differ in few entries."""
    if not (isinstance(expected, dict) and isinstance(got, dict)):
        return expected, got
    differ = [key for key in {**expected, **got} if expected.get(key) != got.get(key)]
    return (
        {key: expected[key] for key in differ if key in expected},
        {key: got[key] for key in differ if key in got},
    )


def _compact(value: Value) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def table(results: Iterable[Result]) -> list[str]:
    """Counts per file, one line each, aligned."""
    rows: dict[str, Counter[str]] = {}
    for result in results:
        counts = rows.setdefault(result.case.file, Counter())
        counts[result.outcome] += 1
        counts["decided"] += bool(result.decided)
    width = max((len(file) for file in rows), default=0)
    lines = [f"{'file':{width}}  passed  failed  skipped  decided"]
    for file, counts in rows.items():
        numbers = f"{counts[PASSED]:6}  {counts[FAILED]:6}  {counts[SKIPPED]:7}  {counts['decided']:7}"
        lines.append(f"{file:{width}}  {numbers}")
    return lines


def skipped_lines(results: Sequence[Result]) -> list[str]:
    """What was skipped: features with counts, most frequent first, then each decided disagreement."""
    features = Counter(result.feature for result in results if result.feature)
    lines = [f"skipped {count:5}  {name}" for name, count in sorted(features.items(), key=lambda f: (-f[1], f[0]))]
    decided = [result for result in results if result.decided]
    return [*lines, *(f"decided  {result.case.id}: {result.decided}" for result in decided)]


def agreement_lines(results: Sequence[Result]) -> list[str]:
    """How many random cases of each kind agree, of those that were run; a decided disagreement is one all the same."""
    areas: dict[str, Counter[str]] = {}
    for result in results:
        if result.case.is_random and not result.feature:
            kind = f"{result.case.system} {result.case.id.rpartition('/')[0]}"
            areas.setdefault(kind, Counter())[result.outcome] += 1
    sums = {kind: (counts[PASSED], counts.total()) for kind, counts in areas.items()}
    return [f"{kind}: {agree} of {count} agree ({agree / count:.0%})" for kind, (agree, count) in sums.items()]


def closing_line(results: Sequence[Result]) -> str:
    """Sum up the run."""
    counts = Counter(result.outcome for result in results)
    return f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped"


def write_json(results: Sequence[Result], path: Path) -> None:
    """Write all results as a JSON list."""
    text = json.dumps([result.to_json() for result in results], indent=1, ensure_ascii=False, default=str)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot write the results: {error.strerror}") from error
