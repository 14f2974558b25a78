"""Why a victim was chosen: for whom, where, as part of what, at what cost, and who came next and why they did not go.

One `Reasons` is attached to the operation that evicts; reports ask it for the record of a task. Records hold names
and plain numbers, so the same input gives the same record, byte for byte, in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from muster.api import format_amount
from muster.engine.evictions.gang.bundles import BundleKind, Bundles
from muster.snapshot import Rows, Snapshot


class VictimRecord(Protocol):
    """Why one pod was evicted, for people and for programs."""

    @property
    def reason(self) -> str:
        """In a word, of few: what metrics count."""
        ...

    def as_text(self) -> str: ...

    def to_json(self) -> dict[str, object]: ...


@runtime_checkable
class VictimRecords(Protocol):
    """What an operation that evicts may carry: a record of each of its tasks."""

    def of_task(self, task: int, /) -> VictimRecord: ...


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """Who would have been next, and why it lost."""

    #: Job of a bundle, or name of a domain.
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class BundleRecord:
    """One bundle of victims."""

    #: "safe": the gang can spare them; "whole": they end it; "rest": it could have spared them, but it ends.
    kind: str
    job: str
    tasks: tuple[str, ...]
    #: Amounts in base units, by resource: freed in the domain, and lost by the gang everywhere.
    frees: Mapping[str, int]
    costs: Mapping[str, int]
    #: Return on investment; None for a safe bundle, which costs nothing.
    roi: float | None


@dataclass(frozen=True, slots=True)
class EvictionRecord:
    """Why one pod was evicted."""

    beneficiary: str
    domain: str
    bundle: BundleRecord
    next_bundle: RunnerUp | None = None
    next_domain: RunnerUp | None = None
    #: Evicted ÷ requested, of all victims together.
    ratio: float = 0.0

    @property
    def reason(self) -> str:
        return self.bundle.kind

    def to_json(self) -> dict[str, object]:
        """The record for programs; amounts as people write them."""
        bundle = self.bundle
        return {
            "beneficiary": self.beneficiary,
            "domain": self.domain,
            "bundle": {
                "kind": bundle.kind,
                "job": bundle.job,
                "tasks": list(bundle.tasks),
                "frees": _amounts(bundle.frees),
                "costs": _amounts(bundle.costs),
                "roi": bundle.roi,
            },
            "nextBundle": _runner_up(self.next_bundle),
            "nextDomain": _runner_up(self.next_domain),
            "ratio": self.ratio,
        }

    def as_text(self) -> str:
        """One line for people."""
        bundle = self.bundle
        where = f" in {self.domain}" if self.domain else ""
        if bundle.kind == "safe":
            what = f"{bundle.job} can spare {_pods(len(bundle.tasks))}"
        elif bundle.kind == "rest":
            what = f"{bundle.job} ends, so {_pods(len(bundle.tasks))} beyond its minimum go too"
        else:
            worth = "" if bundle.roi is None else f", worth {bundle.roi:.2f} of what it costs"
            what = f"{bundle.job} goes whole, {_pods(len(bundle.tasks))}{where}{worth}"
        text = f"makes room for {self.beneficiary}{where}: {what}"
        if self.next_bundle is not None:
            text += f"; next would have been {self.next_bundle.name}: {self.next_bundle.reason}"
        if self.next_domain is not None:
            text += f"; next domain {self.next_domain.name}: {self.next_domain.reason}"
        return text


def _amounts(given: Mapping[str, int]) -> dict[str, str]:
    return {name: format_amount(name, amount) for name, amount in sorted(given.items())}


def _runner_up(given: RunnerUp | None) -> dict[str, str] | None:
    return None if given is None else {"name": given.name, "reason": given.reason}


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


@dataclass(frozen=True, slots=True)
class SparedBundle:
    """A bundle that was left alone, with what it was ordered by."""

    kind: int
    job: int
    level: int
    roi: float
    #: Position in the order of all bundles; those taken have theirs in `places`, and their levels in `levels`.
    place: int
    places: NDArray[np.int64]
    levels: NDArray[np.int64]

    def beside(self, snapshot: Snapshot, bundles: Bundles, taken: int, roi: NDArray[np.float64]) -> RunnerUp:
        """Say why this one lost against one that was taken."""
        return RunnerUp(snapshot.jobs.records[self.job].id, self._reason(snapshot, bundles, taken, roi))

    def _reason(self, snapshot: Snapshot, bundles: Bundles, taken: int, roi: NDArray[np.float64]) -> str:
        """The first row of the order of preference in which the two differ."""
        jobs, other = snapshot.jobs, int(bundles.job[taken])
        if self.level < self.levels[taken] or (self.level == self.levels[taken] and self.place < self.places[taken]):
            return "it comes first in order, but what it frees makes no place that is still needed"
        if self.level > self.levels[taken]:
            if self.kind != bundles.kind[taken]:
                return "it would be broken, while this gang can spare the pods"
            if jobs.queue[self.job] != jobs.queue[other]:
                names = [snapshot.queues.records[int(jobs.queue[job])].name for job in (self.job, other)]
                return f"its queue {names[0]} gives after {names[1]}"
            if jobs.priority[self.job] > jobs.priority[other]:
                return f"its priority {int(jobs.priority[self.job])} is above {int(jobs.priority[other])}"
            return "its gang is whole, while this one is broken already"
        if np.isfinite(self.roi) and abs(self.roi - float(roi[taken])) > 1e-9:
            return f"it is worth {self.roi:.2f} of what it costs, not {float(roi[taken]):.2f}"
        return "it is worth the same; the plan for the domain, then age and name decide"


@dataclass(slots=True)
class Reasons:
    """Records of all victims of one commit, made when somebody asks."""

    snapshot: Snapshot
    beneficiary: int
    domain: int
    bundles: Bundles
    roi: NDArray[np.float64]
    #: The first bundle in order that was left alone.
    spared: SparedBundle | None
    next_domain: RunnerUp | None
    ratio: float
    _made: dict[int, EvictionRecord] = field(default_factory=dict)
    _where: dict[int, int] = field(default_factory=dict)

    def of_task(self, task: int) -> EvictionRecord:
        """The record of one of the victims, by its row."""
        if not self._where:
            tasks: Rows = self.bundles.tasks
            self._where = dict(zip(tasks.tolist(), self.bundles.owners().tolist(), strict=True))
        return self.of_bundle(self._where[task])

    def of_bundle(self, bundle: int) -> EvictionRecord:
        if bundle not in self._made:
            self._made[bundle] = self._make(bundle)
        return self._made[bundle]

    def records(self) -> list[EvictionRecord]:
        """One record per bundle, in the order in which they were taken."""
        return [self.of_bundle(bundle) for bundle in range(len(self.bundles))]

    def _ends(self, job: int) -> bool:
        bundles = self.bundles
        return bool(((bundles.job == job) & (bundles.kind == BundleKind.WHOLE)).any())

    def _make(self, bundle: int) -> EvictionRecord:
        snapshot, bundles = self.snapshot, self.bundles
        is_safe = bundles.kind[bundle] == BundleKind.SAFE
        record = BundleRecord(
            kind="whole" if not is_safe else "rest" if self._ends(int(bundles.job[bundle])) else "safe",
            job=snapshot.jobs.records[int(bundles.job[bundle])].id,
            tasks=tuple(snapshot.tasks.ids[task] for task in bundles.tasks_of(bundle).tolist()),
            frees=snapshot.axis.amounts(bundles.local[bundle]),
            costs=snapshot.axis.amounts(bundles.cost[bundle]),
            roi=None if is_safe else round(float(self.roi[bundle]), 6),
        )
        topology = snapshot.topology
        return EvictionRecord(
            beneficiary=snapshot.jobs.records[self.beneficiary].id,
            domain=topology.names[self.domain] if self.domain else "",
            bundle=record,
            next_bundle=None if self.spared is None else self.spared.beside(snapshot, bundles, bundle, self.roi),
            next_domain=self.next_domain,
            ratio=round(self.ratio, 6),
        )
