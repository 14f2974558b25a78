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

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from muster.api import ClusterSnapshot, KubeObject, Loaded, LoadedFiles, UserError
from muster.api.objects.batch import CronJob, Job, JobFlow, JobTemplate
from muster.cluster import MemoryCluster, Timeline
from muster.controllers.embedded import served
from muster.controllers.grouping.table import table_with
from muster.framework import Registry, SchedulerConfig, Sharding, default_config
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from muster.simulate.report import SimulationResult, report_jobs, report_nodes, report_workloads
from muster.snapshot import Aside

Progress = Callable[[int, float], None]
#: A run that never settles (pods that come and go for ever) ends here unless told otherwise.
MAX_CYCLES = 100_000


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
) -> SimulationResult:
    """Run until nothing changes, `cycles` cycles were run, or `until` seconds have passed.

    `scheduler_names`: whose pods are scheduled; none: those of a live cluster's scheduler, else all.
    `progress` is told after each cycle how many were run, and how many seconds have passed on the virtual clock.
    What cannot be used of a live cluster or a saved snapshot is put aside and listed; of other input it is an error.
    Raises UserError for input that cannot be simulated, InternalError when a plugin or action broke.
    """
    if not period > 0:
        raise UserError(f"expected a period of more than 0 seconds, got {period}", field="period")
    config = config or default_config()
    unusable = objects.unusable if isinstance(objects, LoadedFiles) else []
    things = list(objects)
    places = {id(each.object): str(each.source) for each in things if isinstance(each, Loaded)}
    given = [_bare(thing) for thing in things]
    head = next((thing for thing in given if isinstance(thing, ClusterSnapshot)), None)
    timeline = timeline or Timeline()
    cluster = _cluster(given, head)
    if head is None:
        _check_workloads([*given, *timeline.added()], places)
        table = table_with(config.grouping, "configuration")
        cluster.attach(served(cluster, repeats=until is not None or cycles is not None, table=table))
    timeline.schedule(cluster)
    scheduler = Scheduler(
        cluster,
        _sharded(config, head),
        registry or builtin_registry(),
        seed=seed,
        scheduler_names=scheduler_names or (head and head.spec.scheduler_names) or None,
        allocates_claims=head is None,
        keeps_finished=True,  # the report is about them too
    )
    limit = MAX_CYCLES if cycles is None else cycles
    try:
        done, settled = _run(cluster, scheduler, limit, until, period, progress, tolerant=head is not None)
    except UserError as error:
        named = (places.get(id(thing), "") for thing in given if error.subject == f"{thing.kind} {thing.key}")
        raise error.located(place=next(named, "")) from None
    final = scheduler.observe()
    if head is None:
        _refuse(scheduler.mirror.quarantine)
    return SimulationResult(
        start=cluster.start,
        cycles=done,
        jobs=report_jobs(final, scheduler.last_session),
        nodes=report_nodes(final),
        settled=settled,
        quarantined=None if head is None else (*scheduler.mirror.quarantine, *unusable),
        last_session=scheduler.last_session,
        workloads=report_workloads(cluster),
    )


def _check_workloads(objects: Iterable[KubeObject], places: Mapping[int, str]) -> None:
    workloads = [thing for thing in objects if isinstance(thing, Job | JobTemplate | JobFlow | CronJob)]
    if workloads:
        from muster.simulate.workloads import check_workloads  # noqa: PLC0415  # webhooks and job plugins load slowly

        check_workloads(workloads, places)


def _refuse(quarantined: Iterable[Aside]) -> None:
    """Raise UserError for the first object that could not be used: who gives files wants to correct them."""
    for aside in quarantined:
        if not aside.is_asked:
            raise UserError(aside.reason, subject=f"{aside.kind} {aside.object.key}")


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


def _run(
    cluster: MemoryCluster,
    scheduler: Scheduler,
    limit: int,
    until: float | None,
    period: float,
    progress: Progress | None,
    *,
    tolerant: bool,
) -> tuple[list[CycleResult], bool]:
    """Run cycles; return them, and whether the cluster came to rest. `tolerant`: jobs may be put aside."""
    done: list[CycleResult] = []
    tick = 0
    last = math.inf if until is None else until
    while len(done) < limit and tick * period <= last:
        cluster.advance_to(cluster.start + tick * period)
        result = scheduler.run_once()
        broken = [result.error] if result.error is not None else [] if tolerant else list(result.faults)
        if broken:
            raise broken[0]
        done.append(result)
        if progress is not None:
            progress(len(done), tick * period)
        following = _next_tick(cluster, tick, period, result.due)
        if following is None:
            return done, True
        tick = following
    return done, False


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
