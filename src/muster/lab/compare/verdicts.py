"""What may be said of a difference between configurations: figures over seeds, with intervals, and a word on each.

Configurations see the same traces, seed by seed, so what is judged are the differences on each: what makes a day hard
is hard for all, and falls out. The interval holds the mean difference with a confidence of 95 % (Student's t). Where it
does not hold zero, the configuration is better or worse; else nothing is to be said. One seed alone has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from muster.lab.compare.runs import Inputs, Run
from muster.lab.figures import FIGURES, Figure

#: Of Student's distribution: beyond what one in twenty falls, by degrees of freedom from one on.
_T95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_T95_FOR_MANY: Final = 2.042

#: What the keys of the JSON mean; `*` stands for any name.
KEYS: Final[Mapping[str, str]] = {
    "seeds": "the seeds that were run",
    "vary": "how seeds differ",
    "baseline": "the configuration that the others are judged by",
    "cases.*": "one for each trace on each cluster, `TRACE on CLUSTER`",
    "cases.*.jobs": "jobs of the trace",
    "cases.*.runs.*": "by configuration: the keys of its runs, by seed; `DIR/runs/KEY.json` is the report of one",
    "cases.*.figures.*": "by the key of the figure in a report, such as `wait_s.mean`",
    "cases.*.figures.*.*": "by configuration: `mean`; `low` and `high`, the interval of 95 %; `values`, by seed",
    "cases.*.figures.*.*.ratio": "its mean over that of the baseline; null where that is 0",
    "cases.*.figures.*.*.verdict": "`better`, `worse`, `same`, `unclear`: the interval of the difference holds 0, "
    "`one-seed`: there is no interval, or null: neither would be better, or it is the baseline itself",
}


class Verdict(StrEnum):
    """What may be said of a configuration beside the baseline."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    ONE_SEED = "one-seed"


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the half width of the interval around it; None: there is none."""

    mean: float
    half: float | None

    @classmethod
    def over(cls, values: Sequence[float]) -> Interval:
        mean, n = float(np.mean(values)), len(values)
        if n < 2:
            return cls(mean, None)
        t = _T95[n - 2] if n - 2 < len(_T95) else _T95_FOR_MANY
        return cls(mean, t * float(np.std(values, ddof=1)) / math.sqrt(n))


@dataclass(frozen=True, slots=True)
class Judged:
    """A figure of one configuration in one case."""

    values: tuple[float, ...]
    interval: Interval
    ratio: float | None = None
    verdict: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        half = self.interval.half
        return {
            "mean": round(self.interval.mean, 6),
            "low": None if half is None else round(self.interval.mean - half, 6),
            "high": None if half is None else round(self.interval.mean + half, 6),
            "values": [round(value, 6) for value in self.values],
            "ratio": None if self.ratio is None else round(self.ratio, 6),
            "verdict": None if self.verdict is None else self.verdict.value,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """All runs of one trace on one cluster."""

    inputs: Inputs
    #: By configuration, the reports of its seeds, in their order.
    reports: Mapping[str, Sequence[Mapping[str, Any]]]
    #: By configuration, the keys under which these are kept.
    keys: Mapping[str, Sequence[str]]

    @property
    def baseline(self) -> str:
        """The configuration that was named first."""
        return next(iter(self.reports))

    def judged(self) -> Iterator[tuple[Figure, dict[str, Judged]]]:
        """Every figure that some configuration has, by configuration."""
        for figure in FIGURES:
            found = {name: _judged(figure, self.reports[name], self.reports[self.baseline]) for name in self.reports}
            known = {name: judged for name, judged in found.items() if judged is not None}
            if known:
                yield figure, known

    def to_json(self) -> dict[str, Any]:
        return {
            "jobs": len(self.inputs.trace),
            "runs": {name: list(keys) for name, keys in self.keys.items()},
            "figures": {
                figure.path: {name: known.to_json() for name, known in judged.items()}
                for figure, judged in self.judged()
            },
        }


def _judged(figure: Figure, own: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]) -> Judged | None:
    values = [value for report in own if (value := figure.of(report)) is not None]
    if len(values) < len(own) or not values:
        return None
    interval = Interval.over(values)
    others = [value for report in base if (value := figure.of(report)) is not None]
    if own is base or len(others) < len(values):
        return Judged(tuple(values), interval)
    middle = float(np.mean(others))
    ratio = interval.mean / middle if middle else None
    verdict = _verdict(values, others, figure.better) if figure.better else None
    return Judged(tuple(values), interval, ratio, verdict)


def _verdict(values: Sequence[float], others: Sequence[float], better: int) -> Verdict:
    apart = [value - other for value, other in zip(values, others, strict=True)]
    if not any(apart):
        return Verdict.SAME
    difference = Interval.over(apart)
    if difference.half is None:
        return Verdict.ONE_SEED
    if abs(difference.mean) <= difference.half:
        return Verdict.UNCLEAR
    return Verdict.BETTER if difference.mean * better > 0 else Verdict.WORSE


def cases_of(
    runs: Sequence[Run], keys: Sequence[str], figures: Sequence[Mapping[str, Any]], inputs: Sequence[Inputs]
) -> list[Case]:
    """Put the keys and figures of runs, which stand in the same order, together."""
    found: list[Case] = []
    for place, known in enumerate(inputs):
        reports: dict[str, list[Mapping[str, Any]]] = {}
        kept: dict[str, list[str]] = {}
        for run, key, report in zip(runs, keys, figures, strict=True):
            if run.place == place:
                reports.setdefault(run.candidate.name, []).append(report)
                kept.setdefault(run.candidate.name, []).append(key)
        found.append(Case(known, reports, kept))
    return found


def to_json(cases: Sequence[Case], seeds: Sequence[int], vary: str) -> dict[str, Any]:
    """The documented JSON form."""
    return {
        "seeds": list(seeds),
        "vary": vary,
        "baseline": cases[0].baseline,
        "cases": {case.inputs.name: case.to_json() for case in cases},
    }
