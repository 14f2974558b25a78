"""The question: the same picture runs on twice, without the changes and with them, and both are told beside each other.

The real scheduler decides on the embedded cluster. The picture is loaded once; the second run is a copy of it, so that
neither the objects nor the first run see a change. Pods end when they are expected to, as far as somebody knows.
Only cycles are run that can change something, and no more of them than a large cluster is worth: how far was looked is
part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muster.api import KubeObject, Loaded, UserError
from muster.framework import Registry, SchedulerConfig
from muster.scheduler import CycleResult
from muster.simulate import Run
from muster.simulate.run import Progress
from muster.snapshot import Snapshot, TaskStatus
from muster.whatif.changes import Change, Scene
from muster.whatif.comparison import Comparison, RunTotals, compare_jobs, started
from muster.whatif.estimates import Estimates
from muster.whatif.fates import JobFate, Outcome, job_fates
from muster.whatif.flags import Flag, flagged

#: How much a cycle looks at, nodes and pods counted, over all cycles of a run for which nobody set a limit.
_WORK = 700_000
_MAX_CYCLES = 2_000
_MIN_CYCLES = 12
#: Further nobody looks ahead unless told to.
_MAX_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Options:
    """How to look ahead."""

    #: The configuration without the changes; None: the default.
    config: SchedulerConfig | None = None
    #: Where to stop; None: where nothing would change any more, or at a limit that the size of the cluster sets.
    cycles: int | None = None
    seconds: float | None = None
    seed: int = 0
    scheduler_names: tuple[str, ...] = ()
    registry: Registry | None = None
    progress: Progress | None = None

    def with_progress(self, progress: Progress) -> Options:
        """The same, with somebody who is told how far it is."""
        return replace(self, progress=progress)


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster that is loaded and can be asked about many times; nothing that is asked changes it."""

    run: Run
    snapshot: Snapshot
    estimates: Estimates


def load(objects: Iterable[KubeObject | Loaded], options: Options | None = None) -> Picture:
    """Take in objects of files, of a saved snapshot or of a live cluster. Raises UserError."""
    options = options or Options()
    run = Run(
        objects,
        options.config,
        seed=options.seed,
        registry=options.registry,
        scheduler_names=options.scheduler_names,
        reports=False,
    )
    return picture_of(run)


def picture_of(run: Run) -> Picture:
    """The picture of a run as far as it has come, with what is expected of its pods."""
    snapshot = run.scheduler.observe()
    run.refuse_unusable()
    estimates = Estimates.of(run.cluster)
    run.cluster.expect(estimates.end)
    return Picture(run, snapshot, estimates)


def what_if(
    objects: Picture | Iterable[KubeObject | Loaded],
    changes: Sequence[Change | Flag],
    options: Options | None = None,
) -> Comparison:
    """Tell what changes would do, beside what happens without them.

    Objects that were loaded before stay as they are, and so does a `Picture`. Raises UserError for a change that cannot
    be made, with the flag if one asked for it.
    """
    options = options or Options()
    picture = objects if isinstance(objects, Picture) else load(objects, options)
    without, within = (Scene(*picture.run.fork_with(picture.estimates)) for _ in range(2))
    for change in changes:
        _make(change, within)
    told, settled = [], []
    for scene in (without, within):
        settled.append(look_ahead(scene.run, picture.snapshot, options))
        told.append(job_fates(scene, picture.snapshot))
    present = [frozenset(scene.picture().jobs.index) for scene in (without, within)]
    return Comparison(
        changes=tuple((each.change if isinstance(each, Flag) else each).text for each in changes),
        notes=tuple(within.notes),
        without=_totals(without.run, told[0].values(), settled=settled[0]),
        within=_totals(within.run, told[1].values(), settled=settled[1]),
        jobs=compare_jobs(told[0], told[1], (present[0], present[1])),
    )


def _make(change: Change | Flag, scene: Scene) -> None:
    try:
        (change.change if isinstance(change, Flag) else change).apply(scene)
    except UserError as error:
        raise flagged(change.flag, error) if isinstance(change, Flag) else error from None
    scene.run.look_again()


def look_ahead(run: Run, size: Snapshot, options: Options) -> bool:
    """Run on as far as the options say, or as far as something can come of it; returns whether nothing more would."""
    if options.cycles is not None or options.seconds is not None:
        run.go_on(cycles=options.cycles, until=options.seconds, progress=options.progress)
        return run.is_settled
    work = max(1, len(size.nodes) + len(size.tasks))
    cycles = min(_MAX_CYCLES, max(_MIN_CYCLES, _WORK // work))
    run.go_on(cycles=cycles, until=_MAX_SECONDS, progress=options.progress, is_over=lambda made: _is_over(run, made))
    return run.is_settled or (bool(run.cycles) and _is_over(run, run.cycles[-1]))


def _is_over(run: Run, made: CycleResult) -> bool:
    """Whether nobody waits and nobody leaves: all that is left is that pods end."""
    session = run.scheduler.last_session
    if made.decisions or session is None or run.cluster.store.has_events:
        return False
    status = session.snapshot.tasks.status
    left = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.RELEASING, TaskStatus.ALLOCATED, TaskStatus.BINDING)
    return not np.isin(status, left).any() and made.due is None


def _totals(run: Run, fates: Iterable[JobFate], *, settled: bool) -> RunTotals:
    known = list(fates)
    gpus_held, gpus = gpus_in(run.scheduler.observe())
    return RunTotals(
        cycles=len(run.cycles),
        seconds=run.cluster.now() - run.cluster.start,
        settled=settled,
        started=started(known),
        waiting=sum(fate.outcome is Outcome.WAITS for fate in known),
        evicted=sum(fate.outcome is Outcome.EVICTED for fate in known),
        evicted_pods=sum(fate.n_evicted for fate in known),
        moved_pods=sum(fate.n_moved for fate in known),
        lost_gpu_s=sum(fate.lost_gpu_s for fate in known),
        gpus_held=gpus_held,
        gpus=gpus,
    )


def gpus_in(snapshot: Snapshot) -> tuple[float, float]:
    """GPUs that pods hold, and those of the ready nodes."""
    columns = [column for name, column in snapshot.axis.index.items() if name.endswith("/gpu")]
    ready = snapshot.nodes.ready
    held = snapshot.nodes.used()[ready][:, columns].sum()
    return float(held) / 1000, float(snapshot.nodes.allocatable()[ready][:, columns].sum()) / 1000
