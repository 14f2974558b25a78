"""Remedies that were tried, and when a job is expected to start: a copy of the run goes on with each, and is watched.

A remedy is told only if the job starts with it. What cannot be tried on a picture of the cluster, and what there is no
time for on a large one, is told apart. How many remedies are tried, and how far is looked ahead, follows from the size
of the cluster alone, so that the same input gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from muster.api import Pod, UserError
from muster.cluster.embedded_server import grace_seconds
from muster.explain import Explanation, Forecast, JobState, Whys
from muster.explain.advice import add_nodes_text
from muster.explain.remedies import (
    BoundRises,
    JobsEnd,
    MinimumFalls,
    NodesCome,
    ReasonGoes,
    Remedy,
    RequestChanges,
    Together,
    Trial,
)
from muster.explain.words import amounts_text, counted, duration_text, joined
from muster.framework.run_times import RunTimes
from muster.scheduler import CycleResult
from muster.simulate import Run
from muster.snapshot import TaskStatus
from muster.snapshot.messages import Bind
from muster.whatif.ask import picture_of
from muster.whatif.changes import AddNodes, Change, Scene, SetPriority
from muster.whatif.estimates import Basis, Estimates
from muster.whatif.fates import ended_by
from muster.whatif.remedy_changes import (
    OF_NODES,
    OF_PODS,
    ChangeNodes,
    ChangePods,
    ChangeRequests,
    DropTopology,
    DropWaiting,
    EndJobs,
    LowerMinimum,
    OpenQueue,
    RaiseBounds,
)

#: Nodes and pods of all trials together, and of all cycles of a forecast.
_WORK: Final = 200_000
_FORECAST_WORK: Final = 500_000
#: At least and at most so many remedies, and cycles of a trial.
_TRIALS: Final = (3, 12)
_CYCLES: Final = (5, 40)
_FORECAST_CYCLES: Final = (8, 1000)
#: A remedy works if the job starts soon: within so many seconds after the pods that have to leave have left.
_SOON_S: Final = 60.0
_MAX_GRACE_S: Final = 3600.0
_FORECAST_S: Final = 7 * 24 * 3600.0
#: Where so many nodes are not enough, twice and four times as many are tried, and then fewer that may do.
_MORE_NODES: Final = (1, 2, 4)
_MAX_NAMED: Final = 3
_TOP_PRIORITY: Final = "1000000000"
_NO_TIME: Final = "(there was no time for it on a cluster of this size)"


def with_remedies(run: Run, explanation: Explanation, now: float | None = None) -> Explanation:
    """The explanation of a job at the end of a run, with the remedies that work and with its expected start.

    `now`: the moment that the explanation is about, if that is after the last cycle.
    """
    if explanation.state not in (JobState.WAITING, JobState.GROWING):
        return explanation
    bench = _Bench(run, explanation, run.cluster.now() if now is None else now)
    forecast = bench.forecast() if explanation.state is JobState.WAITING else None
    if forecast is not None and forecast.seconds is not None and not forecast.rests_on:
        wait = Remedy(f"wait: it starts by itself in {duration_text(round(forecast.seconds))}", JobsEnd(()))
        return replace(explanation, advised=(wait,), untried=(), forecast=forecast)
    works: list[Remedy] = []
    untried: list[str] = []
    for remedy in explanation.remedies:
        found = bench.try_remedy(remedy)
        works += found.works
        untried += found.untried
    if (more := bench.more_nodes()) is not None:
        works += bench.try_remedy(more).works
    if not works:
        works += bench.try_together().works
    return replace(explanation, advised=tuple(works), untried=tuple(untried), forecast=forecast)


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of one remedy: what of it works, and in words what was not tried."""

    works: tuple[Remedy, ...] = ()
    untried: tuple[str, ...] = ()


class _Bench:
    """Tries changes on copies of one run, for one job."""

    def __init__(self, run: Run, explanation: Explanation, now: float) -> None:
        self._run = run
        #: Seconds since the epoch, and from the beginning of the run.
        self._now = now
        self._passed = now - run.cluster.start
        self._explanation = explanation
        session = run.scheduler.last_session
        assert session is not None
        self._snapshot = session.snapshot
        size = max(1, len(self._snapshot.nodes) + len(self._snapshot.tasks))
        self._left = _between(_TRIALS, _WORK // size)
        self._cycles = _between(_CYCLES, _WORK // size)
        self._forecast_cycles = _between(_FORECAST_CYCLES, _FORECAST_WORK // size)

    # -- when it starts by itself --------------------------------------------------------------------------------

    def forecast(self) -> Forecast:
        """Run the clock forward until the job starts, with pods that end when they are expected to."""
        picture = picture_of(self._run.fork())
        run = picture.run
        run.look_again(self._passed)
        has_started = self._watch(run)
        run.go_on(cycles=self._forecast_cycles, until=self._passed + _FORECAST_S, is_over=has_started)
        if not has_started.it:
            return Forecast(None, self._why_unknown(run, picture.estimates))
        seconds = run.cycles[-1].time - self._now
        basis = picture.estimates.basis(ended_by(run, picture.estimates, run.cycles[-1].time))
        return Forecast(seconds, basis.text if basis.total else "", _named(basis), basis.factor)

    def _why_unknown(self, run: Run, estimates: Estimates) -> str:
        passed = run.cluster.now() - self._now
        if not run.is_settled:
            return f"not within {duration_text(round(passed))}, and further was not looked"
        endless = [holder.job for holder in self._explanation.holders if holder.job not in estimates.expected]
        if not endless:
            return "it is not enough that others end"
        more = f" and {len(endless) - _MAX_NAMED} more" if len(endless) > _MAX_NAMED else ""
        names = joined(endless[:_MAX_NAMED]) if not more else ", ".join(endless[:_MAX_NAMED]) + more
        return f"nobody says when {names} {'ends' if len(endless) == 1 else 'end'}"

    # -- what would help -----------------------------------------------------------------------------------------

    def try_remedy(self, remedy: Remedy) -> _Found:
        """Try a remedy as it stands, or what is left of it that works."""
        trial = remedy.trial
        if isinstance(trial, JobsEnd) and trial.any_one:
            return self._try_each(trial)
        if isinstance(trial, NodesCome):
            return self._try_nodes(trial)
        if isinstance(trial, ReasonGoes) and trial.code in ("queue-overused", "queue-limit"):
            return self._try_in_turn(trial, self._less_in_queues())
        return self._try_in_turn(trial, [self._change(remedy.text, trial)], in_part=isinstance(trial, ReasonGoes))

    def _try_in_turn(
        self, trial: Trial, changes: Iterable[tuple[str, Change | None]], *, in_part: bool = True
    ) -> _Found:
        works: list[Remedy] = []
        untried: list[str] = []
        for text, change in changes:
            found = None if change is None else self._works(change, in_part=in_part)
            if found:
                works.append(Remedy(text, trial))
            elif found is None:
                untried.append(text if change is None else f"{text} {_NO_TIME}")
        return _Found(tuple(works), tuple(untried))

    def more_nodes(self) -> Remedy | None:
        """What helps where room is lacking and nobody has proposed it: nodes like one on which only that is lacking."""
        near = self._explanation.closest
        has_tried = any(isinstance(remedy.trial, NodesCome) for remedy in self._explanation.remedies)
        fits = [group.examples[0] for group in self._explanation.groups if group.code == "insufficient-resources"]
        if near is None or near.name not in self._snapshot.nodes.index or has_tried or not fits:
            return None
        return Remedy("", NodesCome(fits[0], 1))

    def try_together(self) -> _Found:
        """Where the queue may not hold so much and there is no room either: a higher bound and more nodes at once."""
        proposed = [remedy.trial for remedy in self._explanation.remedies]
        nodes = next((trial for trial in proposed if isinstance(trial, NodesCome)), None)
        if nodes is None and (more := self.more_nodes()) is not None and isinstance(more.trial, NodesCome):
            nodes = more.trial
        changes = (self._change(remedy.text, remedy.trial)[1] for remedy in self._explanation.remedies)
        raised = next((change for change in changes if isinstance(change, RaiseBounds)), None)
        if nodes is None or raised is None:
            return _Found()
        both = (
            Remedy(f"{_raise_text(raised.trial)}, and {remedy.text}", Together(raised.trial, remedy.trial))
            for remedy in self._try_nodes(nodes, raised).works
            if isinstance(remedy.trial, NodesCome)
        )
        return _Found(works=tuple(both))

    def _try_each(self, trial: JobsEnd) -> _Found:
        """Try the end of each job; where there is time for few trials, of the first ones, so that others get a turn."""
        if not self._left:
            return _out_of_time(f"wait for {joined(trial.jobs, 'or')} to finish")
        jobs = trial.jobs[: max(1, self._left // 2)]
        works = [job for job in jobs if self._works(EndJobs((job,)), in_part=False)]
        if not works:
            return _Found()
        text = f"wait for {joined(works, 'or')} to finish: then it fits"
        return _Found(works=(Remedy(text, JobsEnd(tuple(works), any_one=True)),))

    def _try_nodes(self, trial: NodesCome, *also: Change) -> _Found:
        """So many nodes, or fewer or more of them; `also`: what is changed besides."""
        too_few = trial.count - 1
        for times in _MORE_NODES:
            count = times * trial.count
            works = self._works(*also, AddNodes(count, trial.like), in_part=False)
            if works:
                fewest = self._fewest_nodes(trial.like, too_few, count, also)
                text = add_nodes_text(self._snapshot, trial.like, fewest)
                return _Found(works=(Remedy(text, replace(trial, count=fewest)),))
            if works is None:
                text = add_nodes_text(self._snapshot, trial.like, count)
                return _out_of_time(text) if times == 1 else _Found()
            too_few = count
        return _Found()

    def _fewest_nodes(self, like: str, too_few: int, enough: int, also: tuple[Change, ...]) -> int:
        """The fewest nodes that were tried and do, halving between two counts as long as there is time."""
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            works = self._works(*also, AddNodes(middle, like), in_part=False)
            if works is None:
                break
            too_few, enough = (too_few, middle) if works else (middle, enough)
        return enough

    def _works(self, *changes: Change, in_part: bool) -> bool | None:
        """Whether the job starts with changes; None: there is no time to try. `in_part`: growth by one pod will do."""
        if not self._left:
            return None
        self._left -= 1
        run = self._run.fork()
        scene = Scene(run, Estimates(run.cluster.store, RunTimes()))
        try:
            for change in changes:
                change.apply(scene)
        except UserError:
            return False
        run.look_again(self._passed)
        has_started = self._watch(run, in_part=in_part)
        run.go_on(cycles=self._cycles, until=self._passed + self._soon(), is_over=has_started)
        return has_started.it

    def _soon(self) -> float:
        graces = [grace_seconds(pod) for pod in self._run.cluster.store.all(Pod) if pod.spec.node_name]
        return _SOON_S + min(_MAX_GRACE_S, max(graces, default=0.0))

    def _watch(self, run: Run, *, in_part: bool = False) -> _HasStarted:
        is_growing = self._explanation.state is JobState.GROWING
        wanted = self._explanation.still_needed if is_growing and not in_part else 1
        return _HasStarted(run, self._explanation.job, wanted, is_growing=is_growing)

    # -- remedies as changes -------------------------------------------------------------------------------------

    def _change(self, text: str, trial: Trial) -> tuple[str, Change | None]:
        """What is to be changed, and the words that fit to it; None: it cannot be tried here."""
        job = self._explanation.job
        if isinstance(trial, JobsEnd):
            return text, EndJobs(trial.jobs)
        if isinstance(trial, MinimumFalls):
            return text, LowerMinimum(job, trial.to)
        if isinstance(trial, BoundRises):
            return text, RaiseBounds(trial)
        if isinstance(trial, RequestChanges):
            return text, ChangeRequests(job, trial)
        if isinstance(trial, ReasonGoes):
            return self._without_reason(text, trial.code)
        return text, None

    def _without_reason(self, text: str, code: str) -> tuple[str, Change | None]:
        if code in OF_PODS:
            return text, ChangePods(self._explanation.job, OF_PODS[code])
        if code in OF_NODES:
            return text, ChangeNodes(OF_NODES[code])
        told = self._told_otherwise()
        return told[code]() if code in told else (text, None)

    def _told_otherwise(self) -> dict[str, Callable[[], tuple[str, Change | None]]]:
        """By reason code: what is tried, and the words for that part of the remedy."""
        job, found = self._explanation.job, self._explanation
        n_pods, queue = sum(found.tasks.values()), found.queue
        few = (f"lower minMember to {n_pods}, or create the missing pods", LowerMinimum(job, n_pods))
        opened = ("create the queue, or name another one", OpenQueue(queue))
        return {
            "queue-missing": lambda: opened,
            "queue-closed": lambda: ("open the queue", OpenQueue(queue)),
            "too-few-pods": lambda: few,
            "too-few-pods-of-role": lambda: few,
            "over-quota": self._higher_quota,
            "topology": lambda: ("allow a higher tier", DropTopology(job)),
            "held-back": lambda: ("give it a higher priority", SetPriority(job, _TOP_PRIORITY)),
            "insufficient-resources": self._holders_end,
        }

    def _holders_end(self) -> tuple[str, Change | None]:
        jobs = tuple(holder.job for holder in self._explanation.holders)
        named = joined(jobs) if len(jobs) <= _MAX_NAMED else counted(len(jobs), "job")
        return (f"wait for {named} to finish", EndJobs(jobs)) if jobs else (self._explanation.remedy, None)

    def _less_in_queues(self) -> Iterator[tuple[str, Change | None]]:
        """What helps a job whose queue has its share: its own jobs end, or other queues ask for less."""
        jobs = self._others_in_queue()
        if jobs:
            yield f"wait until jobs of queue {self._explanation.queue} have finished", EndJobs(jobs)
        yield "wait until other queues ask for less", DropWaiting(self._explanation.queue)

    def _others_in_queue(self) -> tuple[str, ...]:
        snapshot = self._snapshot
        held = snapshot.jobs.counts[:, [TaskStatus.BOUND, TaskStatus.RUNNING]].sum(axis=1) > 0
        rows = np.flatnonzero(snapshot.jobs.live & held).tolist()
        ids = (snapshot.jobs.records[row] for row in rows)
        return tuple(
            sorted(
                each.id for each in ids if each.queue == self._explanation.queue and each.id != self._explanation.job
            )
        )

    def _higher_quota(self) -> tuple[str, Change | None]:
        for name, more in sorted(self._explanation.wanted.items(), key=lambda each: ("/" not in each[0], each[0])):
            queues = tuple(
                (queue.name, queue.allocated.get(name, 0) + more)
                for queue in self._explanation.queues
                if queue.allocated.get(name, 0) + more > queue.deserved.get(name, 0)
            )
            if queues:
                bound = BoundRises(name, queues, is_quota=True)
                return _raise_text(bound), RaiseBounds(bound)
        return self._explanation.remedy, None


class _HasStarted:
    """Asked after each cycle whether a job has what it waits for."""

    def __init__(self, run: Run, job: str, wanted: int, *, is_growing: bool) -> None:
        self._run = run
        self._job = job
        self._wanted = wanted
        self._is_growing = is_growing
        self._bound = 0
        self.it = False

    def __call__(self, made: CycleResult) -> bool:
        self._bound += sum(isinstance(each, Bind) and each.job == self._job for each in made.decisions)
        session = self._run.scheduler.last_session
        row = None if session is None else session.snapshot.jobs.index.get(self._job)
        if session is not None and row is not None and self._bound >= self._wanted:
            self.it = self._is_growing or Whys(session).state(row) is not JobState.WAITING
        return self.it


def _raise_text(bound: BoundRises) -> str:
    said = joined(f"{queue} to {amounts_text({bound.resource: amount})}" for queue, amount in bound.queues)
    return f"raise the {'quota' if bound.is_quota else 'limit'} of queue {said}"


def _between(bounds: tuple[int, int], wanted: int) -> int:
    return max(bounds[0], min(bounds[1], wanted))


def _out_of_time(text: str) -> _Found:
    return _Found(untried=(f"{text} {_NO_TIME}",))


def _named(basis: Basis) -> dict[str, int]:
    return {source: count for source, count in basis.jobs.items() if count}
