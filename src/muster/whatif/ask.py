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

#: How much all cycles of a run look at for which nobody set a limit, in nodes and pods.
_WORK = 500_000
_MAX_CYCLES = 2_000
_MIN_CYCLES = 3
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
    sides = [_look(scene, picture.snapshot, options) for scene in (without, within)]
    return Comparison(
        changes=tuple((each.change if isinstance(each, Flag) else each).text for each in changes),
        notes=tuple(within.notes),
        without=sides[0].totals,
        within=sides[1].totals,
        jobs=compare_jobs(sides[0].fates, sides[1].fates, (sides[0].present, sides[1].present)),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two runs, when it is over."""

    fates: dict[str, JobFate]
    totals: RunTotals
    #: Jobs that are there at the end.
    present: frozenset[str]


def _look(scene: Scene, before: Snapshot, options: Options) -> _Side:
    settled = look_ahead(scene.run, before, options)
    after = scene.picture()
    fates = job_fates(scene, before, after)
    return _Side(fates, _totals(scene.run, after, fates.values(), settled=settled), frozenset(after.jobs.index))


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
    effort = _Effort(run, size)
    run.go_on(cycles=_MAX_CYCLES, until=_MAX_SECONDS, progress=options.progress, is_over=effort)
    return run.is_settled or effort.is_over


class _Effort:
    """Asked after each cycle whether it is enough: nothing more would be decided, or it has been much work."""

    def __init__(self, run: Run, size: Snapshot) -> None:
        self._run = run
        self._cycle = len(size.nodes) + len(size.tasks)
        #: A dry run looks at nodes, not at all of them.
        self._dry_run = 100 + len(size.nodes) // 4
        self._done = 0
        self.is_over = False

    def __call__(self, made: CycleResult) -> bool:
        dry_runs = sum(tally.dry_runs for tally in made.tallies.values())
        self._done += self._cycle + dry_runs * self._dry_run
        self.is_over = _is_over(self._run, made)
        return self.is_over or (self._done >= _WORK and len(self._run.cycles) >= _MIN_CYCLES)


def _is_over(run: Run, made: CycleResult) -> bool:
    """Whether nobody waits and nobody leaves: all that is left is that pods end."""
    session = run.scheduler.last_session
    if made.decisions or session is None or run.cluster.store.has_events:
        return False
    status = session.snapshot.tasks.status
    left = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.RELEASING, TaskStatus.ALLOCATED, TaskStatus.BINDING)
    return not np.isin(status, left).any() and made.due is None


def _totals(run: Run, after: Snapshot, fates: Iterable[JobFate], *, settled: bool) -> RunTotals:
    known = list(fates)
    gpus_held, gpus = gpus_in(after)
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
