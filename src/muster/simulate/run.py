"""The simulation: cycles of the real scheduler while virtual time jumps from event to event.

Cycles happen at whole multiples of the period, as those of a running scheduler do; moments at which nothing can
have changed are left out. It ends when nothing would change any more: the last cycle did nothing, no event is
waiting, and nothing is due later: in the cluster, or by the word of the scheduler (`CycleResult.due`). Policies that
look at the clock and do not say so (a waiting time that runs out) are not seen as "due"; give `until` to have something
to run towards, such as a later timeline entry.
Objects of a live cluster come with a `ClusterSnapshot`, which says when the run begins, and which pods and nodes
it is about; there, as on the live cluster, nobody allocates device claims.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from muster.api import ClusterSnapshot, KubeObject, Loaded, LoadedFiles, UserError
from muster.api.objects.batch import CronJob, Job, JobFlow, JobTemplate
from muster.cluster import MemoryCluster, Timeline
from muster.controllers.embedded import served
from muster.controllers.grouping.table import table_with
from muster.framework import Registry, SchedulerConfig, Sharding, default_config
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from muster.simulate.forking import fork
from muster.simulate.report import SimulationResult, report_jobs, report_nodes, report_workloads

T = TypeVar("T")
Progress = Callable[[int, float], None]
#: Told after each cycle, before time goes on; must not change anything.
Observer = Callable[[Scheduler, CycleResult], None]
#: A run that never settles (pods that come and go for ever) ends here unless told otherwise.
MAX_CYCLES = 100_000


@contextmanager
def quietly() -> Iterator[None]:
    """Let thousands of cycles pass without a word in the log on each."""
    log = logging.getLogger("muster")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


class Run:
    """A cluster in memory and the scheduler on it, as far as they have come; `fork` lets it go on in two ways.

    `scheduler_names`: whose pods are scheduled; none: those of a live cluster's scheduler, else all.
    `repeats`: whether CronJobs go on for ever, which only ends where somebody sets a limit.
    `reports`: whether statuses and reasons are written, which nobody decides by.
    Raises UserError for input that cannot be simulated.
    """

    def __init__(
        self,
        objects: Iterable[KubeObject | Loaded],
        config: SchedulerConfig | None = None,
        *,
        seed: int = 0,
        timeline: Timeline | None = None,
        period: float = 1.0,
        registry: Registry | None = None,
        scheduler_names: Sequence[str] = (),
        repeats: bool = False,
        reports: bool = True,
    ) -> None:
        if not period > 0:
            raise UserError(f"expected a period of more than 0 seconds, got {period}", field="period")
        config = config or default_config()
        self._unusable = objects.unusable if isinstance(objects, LoadedFiles) else []
        things = list(objects)
        places = {id(each.object): str(each.source) for each in things if isinstance(each, Loaded)}
        given = [_bare(thing) for thing in things]
        self._head = next((thing for thing in given if isinstance(thing, ClusterSnapshot)), None)
        timeline = timeline or Timeline()
        self.cluster = _cluster(given, self._head)
        if self._head is None:
            check_workloads([*given, *timeline.added()], places)
            table = table_with(config.grouping, "configuration")
            self.cluster.attach(served(self.cluster, repeats=repeats, table=table))
        timeline.schedule(self.cluster)
        names = scheduler_names or (self._head and self._head.spec.scheduler_names) or None
        self.scheduler = Scheduler(
            self.cluster,
            _sharded(config, self._head),
            registry or builtin_registry(),
            seed=seed,
            scheduler_names=names,
            allocates_claims=self._head is None,
            keeps_finished=True,  # the report is about them too
            reports=reports,
        )
        self._period = period
        self._tick = 0
        #: When the next cycle is due, in periods; None: nothing would change any more.
        self._next: int | None = 0
        self.cycles: list[CycleResult] = []

    @property
    def is_live(self) -> bool:
        """Whether the objects were taken from a cluster, where others make the pods of workloads."""
        return self._head is not None

    @property
    def is_settled(self) -> bool:
        """Whether it ended because nothing would change any more."""
        return self._next is None

    def fork(self) -> Run:
        """A run that goes on from here by itself; what this one does from now on is none of its business."""
        return self.fork_with(None)[0]

    def fork_with(self, other: T) -> tuple[Run, T]:
        """The same, with something else that knows this run, and whose copy is to know the copy."""
        return fork((self, other), [self.scheduler.registry, self.scheduler.last_session])

    def configure(self, config: SchedulerConfig) -> None:
        """Take another configuration from the next cycle on. Raises UserError."""
        self.scheduler.configure(_sharded(config, self._head))

    def look_again(self, not_before: float = 0.0) -> None:
        """Somebody has changed something: there is a cycle to run, `not_before` so many seconds from the beginning."""
        if self._next != 0:  # else the first cycle is still to come
            soon = max(self._tick + 1, math.ceil(not_before / self._period))
            self._next = soon if self._next is None else min(self._next, soon)

    def go_on(
        self,
        *,
        cycles: int | None = None,
        until: float | None = None,
        progress: Progress | None = None,
        observe: Observer | None = None,
        is_over: Callable[[CycleResult], bool] | None = None,
    ) -> None:
        """Run until nothing changes, `cycles` cycles more were run, `until` seconds have passed, or `is_over` says so.

        Raises InternalError when a plugin or action broke.
        """
        limit = len(self.cycles) + (MAX_CYCLES if cycles is None else cycles)
        last = math.inf if until is None else until
        while self._next is not None and len(self.cycles) < limit and self._next * self._period <= last:
            result = self._cycle(self._next)
            if progress is not None:
                progress(len(self.cycles), self._tick * self._period)
            if observe is not None:
                observe(self.scheduler, result)
            self._next = _next_tick(self.cluster, self._tick, self._period, result.due)
            if is_over is not None and is_over(result):
                return

    def _cycle(self, tick: int) -> CycleResult:
        self._tick = tick
        self.cluster.advance_to(self.cluster.start + tick * self._period)
        result = self.scheduler.run_once()
        broken = [result.error] if result.error is not None else [] if self.is_live else list(result.faults)
        if broken:
            raise broken[0]
        self.cycles.append(result)
        return result

    def refuse_unusable(self) -> None:
        """Raise UserError for the first object that could not be used: who gives files wants to correct them."""
        for aside in self.scheduler.mirror.quarantine if not self.is_live else ():
            if not aside.is_asked:
                raise UserError(aside.reason, subject=f"{aside.kind} {aside.object.key}")

    def result(self) -> SimulationResult:
        """What it led to so far. Raises UserError for objects of files that could not be used."""
        final = self.scheduler.observe()
        self.refuse_unusable()
        return SimulationResult(
            start=self.cluster.start,
            cycles=list(self.cycles),
            jobs=report_jobs(final, self.scheduler.last_session),
            nodes=report_nodes(final),
            settled=self.is_settled,
            quarantined=(*self.scheduler.mirror.quarantine, *self._unusable) if self.is_live else None,
            last_session=self.scheduler.last_session,
            workloads=report_workloads(self.cluster),
        )


def simulate(
    objects: Iterable[KubeObject | Loaded],
    config: SchedulerConfig | None = None,
    *,
    cycles: int | None = None,
    until: float | None = None,
    seed: int = 0,
    timeline: Timeline | None = None,
    period: float = 1.0,
    registry: Registry | None = None,
    scheduler_names: Sequence[str] = (),
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> SimulationResult:
    """Run until nothing changes, `cycles` cycles were run, or `until` seconds have passed.

    `scheduler_names`: whose pods are scheduled; none: those of a live cluster's scheduler, else all.
    `progress` is told after each cycle how many were run, and how many seconds have passed on the virtual clock;
    `observe` gets the cycle and the scheduler, whose session it may read.
    What cannot be used of a live cluster or a saved snapshot is put aside and listed; of other input it is an error.
    Raises UserError for input that cannot be simulated, InternalError when a plugin or action broke.
    """
    given = objects if isinstance(objects, list) else list(objects)
    run = Run(
        given,
        config,
        seed=seed,
        timeline=timeline,
        period=period,
        registry=registry,
        scheduler_names=scheduler_names,
        repeats=until is not None or cycles is not None,
    )
    with places_told(given):
        run.go_on(cycles=cycles, until=until, progress=progress, observe=observe)
    return run.result()


@contextmanager
def places_told(given: Iterable[KubeObject | Loaded]) -> Iterator[None]:
    """Let errors that name an object say where it was written, where that is known."""
    try:
        yield
    except UserError as error:
        loaded = (each for each in given if isinstance(each, Loaded))
        places = (str(each.source) for each in loaded if error.subject == f"{each.object.kind} {each.object.key}")
        raise error.located(place=next(places, "")) from None


def check_workloads(objects: Iterable[KubeObject], places: Mapping[int, str]) -> None:
    """Refuse Jobs and what makes them that nobody could run, with where they were written. Raises UserError."""
    workloads = [thing for thing in objects if isinstance(thing, Job | JobTemplate | JobFlow | CronJob)]
    if workloads:
        from muster.simulate.workloads import check_each  # noqa: PLC0415  # webhooks and job plugins load slowly

        check_each(workloads, places)


def _bare(thing: KubeObject | Loaded) -> KubeObject:
    return thing.object if isinstance(thing, Loaded) else thing


def _cluster(given: Sequence[KubeObject], head: ClusterSnapshot | None) -> MemoryCluster:
    """The embedded cluster; one that was taken from a live cluster goes on from that moment, and gets nothing added."""
    objects = [thing for thing in given if not isinstance(thing, ClusterSnapshot)]
    if head is None:
        return MemoryCluster(objects)
    taken = head.spec.taken_at
    return MemoryCluster(objects, start=None if taken is None else taken.timestamp(), as_is=True)


def _sharded(config: SchedulerConfig, head: ClusterSnapshot | None) -> SchedulerConfig:
    """The configuration with the nodes that a snapshot says its scheduler had."""
    shard = None if head is None else head.spec.shard
    return config if shard is None else replace(config, sharding=Sharding(shard.mode, frozenset(shard.nodes)))


def _next_tick(cluster: MemoryCluster, tick: int, period: float, due: float | None) -> int | None:
    """The first tick at which something can have changed; None when nothing ever will.

    `due` is when the scheduler itself expects something to change by the passing of time.
    """
    if cluster.store.has_events:
        return tick + 1
    moments = [moment for moment in (cluster.next_event_at(), due) if moment is not None]
    if not moments:
        return None
    return max(tick + 1, math.ceil((min(moments) - cluster.start) / period))
