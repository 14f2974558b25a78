"""Guaranteed runtimes: a gang that has just started is not broken for others before it could do something useful.

A gang is protected while now < start + minimum runtime; one without a start stamp is not. Protected gangs keep their
minimum and give what is beyond it. Gangs that have nothing beyond it are no victims at all; for elastic ones every
scenario is looked at, before its dry run and after it. Consolidation moves pods, which restarts them: it spares
protected gangs too, unless `protectFromConsolidation` is off.

How long depends on who wants its place. Inside a queue (preempt) the first value on the way from the victim's queue to
the top counts. Between queues (reclaim) the walk begins where the way to the victim leaves the way to the evictor, one
step below their lowest common ancestor: what is set further down is a matter of siblings there. Queues without a common
ancestor part at the top. Where the victim's queue is itself an ancestor of the evictor's, the walk begins at the
victim's. A value that is not set differs from zero: a queue that says 0 overrides its parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.api import UserError, parse_seconds
from muster.api.names import ROOT_QUEUE
from muster.engine.evictions.surplus import broken_by, roles_hold
from muster.framework.plugin import Arguments, Eviction, Evictor, Plugin, Protection, Scenario, ScenarioFilter
from muster.snapshot import NO_ROW, READY_STATUSES, Mask, QueueTable, Rows, TaskStatus

if TYPE_CHECKING:
    from muster.framework.session import Session


#: Pods that run or may come to run.
_EXISTING = [*READY_STATUSES, TaskStatus.PIPELINED, TaskStatus.PENDING]
#: Seconds per victim queue; one more entry at the end for jobs whose queue does not exist (`NO_ROW`).
Seconds = NDArray[np.float64]


class Method(StrEnum):
    """Where the walk for reclaim begins."""

    #: One step below the lowest common ancestor.
    LCA = "lca"
    #: At the victim's own queue, whoever the evictor is.
    QUEUE = "queue"


class MinRuntimeArgs(Arguments, frozen=True, kw_only=True):
    """Arguments of the minruntime plugin."""

    reclaim: Annotated[
        str | float,
        msgspec.Meta(description="How long a gang is safe from other queues where no queue says: 10m, or seconds."),
    ] = msgspec.field(default=0.0, name="defaultReclaimMinRuntime")
    preempt: Annotated[
        str | float,
        msgspec.Meta(description="How long a gang is safe from jobs of its own queue where no queue says."),
    ] = msgspec.field(default=0.0, name="defaultPreemptMinRuntime")
    method: Annotated[
        Method,
        msgspec.Meta(
            description="Whose value counts between queues: lca, of the branch below the lowest common ancestor, or "
            "queue, of the victim's own queue."
        ),
    ] = msgspec.field(default=Method.LCA, name="reclaimResolveMethod")
    protect_from_consolidation: Annotated[
        bool, msgspec.Meta(description="Whether protected gangs are not moved either, to make room for others.")
    ] = msgspec.field(default=True, name="protectFromConsolidation")


class MinRuntime(Plugin):
    """Leave gangs alone until they have run for a while."""

    name = "minruntime"
    summary = "Let gangs keep their minimum for a guaranteed time after they started."
    Args: ClassVar[type[Arguments]] = MinRuntimeArgs
    protects = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, MinRuntimeArgs)
        #: Seconds, where no queue says anything.
        self.default_preempt = _default("defaultPreemptMinRuntime", arguments.preempt)
        self.default_reclaim = _default("defaultReclaimMinRuntime", arguments.reclaim)
        self._method = arguments.method
        self._protects_from_moves = arguments.protect_from_consolidation

    def open(self, session: Session) -> None:
        super().open(session)
        self._jobs = session.snapshot.jobs
        #: Seconds per victim queue, by kind and the evictor's queue: pairs of queues are few, pairs of jobs are not.
        self._known: dict[tuple[Eviction, int], Seconds] = {}
        #: Of the same, whether any of them is more than nothing; asked with every dry run.
        self._any: dict[tuple[Eviction, int], bool] = {}

    @cached_property
    def _runtimes(self) -> MinRuntimes:
        queues = self.session.snapshot.queues
        return MinRuntimes(queues, self.default_preempt, self.default_reclaim, self._method)

    # -- who is protected ------------------------------------------------------------------------------------

    def protected(self, kind: Eviction, evictor: int, victims: Rows) -> Mask:
        minimum = self._minimum(kind, int(self._jobs.queue[evictor]))
        if not minimum.any():
            return np.zeros(len(victims), np.bool_)
        until = self._started[victims] + minimum[self._jobs.queue[victims]]
        mask: Mask = self.session.now < until
        if mask.any():
            self.session.look_again(float(until[mask].min()))
        return mask

    def _protects(self, kind: Eviction, evictor: int) -> bool:
        """Whether any queue has a minimum runtime against the job `evictor`."""
        queue = int(self._jobs.queue[evictor])
        known = self._any.get((kind, queue))
        if known is None:
            known = self._any[kind, queue] = bool(self._minimum(kind, queue).any())
        return known

    def _minimum(self, kind: Eviction, evictor: int) -> Seconds:
        """Minimum runtimes per victim queue against jobs of the queue `evictor`."""
        known = self._known.get((kind, evictor))
        if known is None:
            known = self._known[kind, evictor] = self._resolve(kind, evictor)
        return known

    def _resolve(self, kind: Eviction, evictor: int) -> Seconds:
        if kind is Eviction.PREEMPT:
            return self._runtimes.for_preempt()
        between = self._runtimes.for_reclaim(evictor)
        if kind is Eviction.RECLAIM:
            return between
        if not self._protects_from_moves:
            return np.zeros_like(between)
        # Consolidation looks at all queues: its own as preempt does, the others as reclaim does.
        both = between.copy()
        both[evictor] = self._runtimes.for_preempt()[evictor]
        return both

    @cached_property
    def _started(self) -> NDArray[np.float64]:
        """When each job became complete; not a number: nobody knows, which protects from nothing."""
        stamps = [record.started for record in self._jobs.records]
        return np.array([np.nan if stamp is None else stamp for stamp in stamps], np.float64)

    @cached_property
    def _is_elastic(self) -> Mask:
        """Jobs that have more pods than they need: as a whole, or of one role."""
        jobs, roles = self._jobs, self.session.snapshot.roles
        elastic: Mask = jobs.counts[:, _EXISTING].sum(axis=1) > jobs.min_member
        ample = np.flatnonzero((roles.counts[:, _EXISTING].sum(axis=1) > roles.minimum) & (roles.job != NO_ROW))
        owners = roles.job[ample]
        elastic[owners[roles_hold(self.session.snapshot, owners)]] = True
        return elastic

    # -- evictions ------------------------------------------------------------------------------------------

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Nobody of a protected gang that has exactly what it needs."""
        owners = self.session.snapshot.tasks.job[candidates]
        jobs = np.unique(owners)
        barred = jobs[self.protected(kind, evictor.job, jobs) & ~self._is_elastic[jobs]]
        victims: Rows = candidates[~np.isin(owners, barred)] if len(barred) else candidates
        return victims

    def scenario_filters(self, kind: Eviction, job: int) -> Sequence[ScenarioFilter]:
        return (self._keeps_all,) if self._protects(kind, job) else ()

    def _keeps_all(self, scenario: Scenario) -> bool:
        """Before the dry run: whoever is taken may find no other place."""
        return self._is_kept(scenario, np.concatenate((scenario.evicted, scenario.moved)), scenario.moved[:0])

    def scenario_validator(self, kind: Eviction, scenario: Scenario) -> bool:
        """After it: who found another place does not make the gang smaller; but consolidation is to leave it alone."""
        if kind is Eviction.CONSOLIDATE:
            return self._keeps_all(scenario)
        return self._is_kept(scenario, scenario.evicted, scenario.moved)

    def _is_kept(self, scenario: Scenario, taken: Rows, moved: Rows) -> bool:
        snapshot = self.session.snapshot
        if not self._protects(scenario.kind, scenario.evictor):
            return True
        victims = np.unique(snapshot.tasks.job[taken])
        concerned = set(victims[self.protected(scenario.kind, scenario.evictor, victims)].tolist())
        return not concerned or concerned.isdisjoint(broken_by(snapshot, taken, moved))

    # -- explanations ------------------------------------------------------------------------------------------

    def protections(self, job: int, now: float) -> list[Protection]:
        queue = int(self._jobs.queue[job])
        return [] if queue == NO_ROW else list(self._protections(job, queue, now))

    def _protections(self, job: int, queue: int, now: float) -> Iterator[Protection]:
        passed = now - float(self._started[job])
        own = float(self._minimum(Eviction.PREEMPT, queue)[queue]) - passed
        if own > 0:
            yield Protection(Eviction.PREEMPT, (), own)
        others: dict[float, list[str]] = {}
        for branch in self._branches(queue):
            left = float(self._minimum(Eviction.RECLAIM, branch)[queue]) - passed
            if left > 0:
                others.setdefault(left, []).append(self.session.snapshot.queues.records[branch].name)
        for left in sorted(others):
            yield Protection(Eviction.RECLAIM, tuple(sorted(others[left])), left)

    def _branches(self, queue: int) -> Iterator[int]:
        """The queues that hang off the way from a queue to the top: all below one of them have the same say."""
        queues = self.session.snapshot.queues
        above = {*queues.paths[queue].tolist(), NO_ROW}
        for other, record in enumerate(queues.records):
            hangs_here = other not in above and other not in queues.broken and int(queues.parent[other]) in above
            # Volcano's root is always there; nobody's jobs are in it.
            if hangs_here and (record.name != ROOT_QUEUE or other in queues.parent):
                yield other


def _default(name: str, given: str | float) -> float:
    try:
        seconds = parse_seconds(given)
    except ValueError as error:
        raise UserError(f"plugin minruntime: arguments: {name}: {error}") from error
    if seconds < 0:
        raise UserError(f"plugin minruntime: arguments: {name}: expected a duration of zero or more, got {given}")
    return seconds


class MinRuntimes:
    """Minimum runtimes of one queue tree."""

    def __init__(self, queues: QueueTable, preempt: float, reclaim: float, method: Method = Method.LCA) -> None:
        own = [(record.preempt_min_runtime, record.reclaim_min_runtime) for record in queues.records]
        self._preempt = _inherited(queues, [first for first, _ in own], preempt)
        self._reclaim = _inherited(queues, [second for _, second in own], reclaim)
        self._reclaim_default = reclaim
        self._method = method
        self._lineage, self._depth = _lineages(queues)

    def for_preempt(self) -> Seconds:
        """Against jobs of the same queue."""
        return self._preempt

    def for_reclaim(self, evictor: int) -> Seconds:
        """Against jobs of the queue `evictor`; one that does not exist has to respect the default."""
        if evictor == NO_ROW:
            return np.full_like(self._reclaim, self._reclaim_default)
        if self._method is Method.QUEUE:
            return self._reclaim
        shared = (self._lineage == self._lineage[evictor]) & (self._lineage != NO_ROW)
        n_shared = np.cumprod(shared, axis=1).sum(axis=1)
        begin = self._lineage[np.arange(len(self._depth)), np.minimum(n_shared, self._depth - 1)]
        return np.append(self._reclaim[begin], self._reclaim[-1])


def _inherited(queues: QueueTable, own: Sequence[float | None], default: float) -> Seconds:
    """The first value on the way up from each queue; a negative one counts as zero."""
    found = [next((own[step] for step in path.tolist() if own[step] is not None), default) for path in queues.paths]
    return np.maximum(np.array([*found, default], np.float64), 0.0)


def _lineages(queues: QueueTable) -> tuple[Rows, Rows]:
    """Each queue's ancestors from the top down to itself, filled up with NO_ROW, and how many they are."""
    depth = np.array([len(path) for path in queues.paths], np.intp)
    lineage = np.full((len(depth), int(depth.max(initial=1))), NO_ROW, np.intp)
    for row, path in enumerate(queues.paths):
        lineage[row, : len(path)] = path[::-1]
    return lineage, depth
