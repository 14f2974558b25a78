"""One cycle's view: a snapshot, the plugins that advise on it, and the rules that combine their answers.

Actions ask the session, the session asks the plugins that implement the point and have it enabled (`questions`,
`victim_questions`). Who answers at an extension point is looked up when it is first asked at.
What actions commit is collected as `committed`; verdicts on jobs that stay behind are collected as `verdicts`. Nothing
here talks to a cluster.
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from muster.framework import points
from muster.framework.config import SchedulerConfig
from muster.framework.faults import OUT_SECONDS, STRIKES, Fault, Strikes, Turn, answering
from muster.framework.plugin import Eviction, NodeScores, Plugin, Rejection
from muster.framework.questions import Ask, OrderQuestions, PlacingQuestions
from muster.framework.reasons import (
    QUARANTINED,
    QUEUE_BROKEN,
    QUEUE_CLOSED,
    QUEUE_MISSING,
    QUEUE_NOT_A_LEAF,
    JobVerdict,
    Verdicts,
)
from muster.framework.registry import Registry, Seating
from muster.framework.run_times import RunTimes
from muster.framework.victim_questions import VictimQuestions, protects
from muster.snapshot import NO_ROW, Amounts, ClassTable, JobPhase, Operation, Rows, Snapshot, Statement
from muster.snapshot.classes import ClassPods, Division, divide_by_marks, divide_classes

log = logging.getLogger("muster.framework")

#: Actions that start waiting jobs.
_STARTING: Final = ("allocate", "backfill")
#: Arrays are slow to compare with members of an enum.
_PENDING: Final = int(JobPhase.PENDING)
#: The outcome of an attempt that made room.
MADE_ROOM: Final = "made-room"


@dataclass(slots=True)
class Committed:
    """Operations that an action has committed."""

    action: str
    operations: list[Operation]
    #: Whether places that it set aside are kept in the next cycles, or were a plan of this one.
    promises: bool = False


@dataclass(slots=True)
class ActionTally:
    """What one action of a cycle did; an action that evicts nobody has its time only."""

    #: By the wall clock.
    seconds: float = 0.0
    #: Turns in which a job looked for victims, by outcome: `MADE_ROOM`, or the code of the reason why not.
    attempts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    #: Scenarios that were tried: victims gone, the beneficiary placed.
    dry_runs: int = 0
    #: Searches that a bound on dry runs or domains ended before all had been tried.
    cut_short: int = 0


class Session(OrderQuestions, PlacingQuestions, VictimQuestions):
    """What actions and plugins of one cycle work with."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfig,
        registry: Registry,
        *,
        now: float = 0.0,
        seed: int = 0,
        known_verdicts: dict[bytes, Verdicts] | None = None,
        known_scores: dict[tuple[str, bytes], NodeScores] | None = None,
        usage: Mapping[str, Mapping[str, float]] | None = None,
        memory: dict[str, float] | None = None,
        strikes: Strikes | None = None,
        explains: bool = True,
        run_times: RunTimes | None = None,
    ) -> None:
        """`explains`: whether somebody wants to know why jobs wait; if not, work that only finds that out is spared."""
        super().__init__()
        self.explains = explains
        #: How long jobs are expected to run, and what is known of their owners' jobs if a plugin asks for it.
        self.run_times = run_times or RunTimes()
        self.snapshot = snapshot
        self.config = config
        #: Seconds since the epoch, from the injected clock.
        self.now = now
        self._seed = seed
        self.committed: list[Committed] = []
        self.verdicts: dict[int, JobVerdict] = {}
        #: By job and action: why evictions made no room for a job that may look for victims.
        self.no_evictions: dict[int, dict[str, Rejection]] = {}
        #: What actions did to make room, by their names, and the one that is under way.
        self.tallies: dict[str, ActionTally] = {}
        self.tally = ActionTally()
        #: Tasks whose queue has room for them, so that the gate which waits for that may go.
        self.ungated: list[int] = []
        #: Capacity of the ready nodes, and the part of it that queues share: not what others hold, nor what lies behind
        #: taints that no pod tolerates.
        self.total = snapshot.total()
        self.behind_taints = snapshot.behind_taints()
        self.shared_total: Amounts = np.maximum(self.total - snapshot.held_by_others() - self.behind_taints, 0)
        #: What queues have had in the past, by queue and resource, as a fraction of the cluster; empty: nobody counts.
        self.usage: Mapping[str, Mapping[str, float]] = {} if usage is None else usage
        #: Moments that plugins remember from one cycle to the next, under their own names; lost with the process.
        self.memory: dict[str, float] = {} if memory is None else memory
        #: When something may change although nothing happens; None: never.
        self.due: float | None = None
        #: Collects moments while somebody wants to know until when something holds.
        self._heard: list[float] | None = None
        #: What the engine shares between the actions of this session.
        self.workspace: dict[str, object] = {}
        #: Node verdicts by class key; the scheduler keeps them as long as no node changes.
        self._known_verdicts = {} if known_verdicts is None else known_verdicts
        self._known_scores = {} if known_scores is None else known_scores
        #: Questions about jobs that went wrong in this cycle.
        self.faults: list[Fault] = []
        self.strikes = Strikes() if strikes is None else strikes
        #: Statements that were made since a turn or an action began.
        self._made: list[Statement] = []
        self._turn = Turn(self)
        #: What the cycle is doing, in words.
        self.step = ""
        self._hierarchical: dict[str, bool] = {option.name: option.hierarchy for option in config.plugin_options()}
        self.plugins: dict[str, Plugin] = {}
        self._opinions: dict[Eviction, list[list[Ask]]] = {}
        self._open(registry)
        if self.has_action("allocate"):
            # Where queues are a tree it serves everybody: nobody is left to backfill and counted beforehand.
            snapshot.serve_best_effort(of_all=bool(self.asked(points.QUEUE_TURN)))
        self._let_in_where_nobody_decides()

    @cached_property
    def rng(self) -> random.Random:
        """Chance, the same for the same seed."""
        return random.Random(self._seed)  # noqa: S311 - reproducible choices, not secrets

    # -- opening and closing -------------------------------------------------------------------------------

    def _open(self, registry: Registry) -> None:
        out = self.strikes.out(self.now)
        seating = registry.seating(self.config.tiers, out)
        seated = [[seat.plugin(seat.arguments) for seat in tier] for tier in seating.seats]
        self.protects_all = any(protects(registry.plugins[name]) for name in out)
        #: The part of every class, by plugin; see `Plugin.divide_classes`.
        self.class_parts = self._divide(seating, seated)
        for tier, plugins in zip(seating.seats, seated, strict=True):
            for seat, plugin in zip(tier, plugins, strict=True):
                self.plugins[seat.option.name] = plugin
                plugin.open(self)
        self._answering = seating.answering
        self._seated = seated

    def opinions_on(self, kind: Eviction) -> list[list[Ask]]:
        """Who says which single tasks may be victims, tier by tier."""
        known = self._opinions.get(kind)
        if known is None:
            having = {option.name for option in self.config.plugin_options() if option.has_opinion(kind)}
            tiers = [
                [ask for ask in tier if kind in ask.__self__.victim_kinds and ask.__self__.name in having]
                for tier in self.tiers(points.EVICTABLE)
            ]
            known = self._opinions[kind] = [tier for tier in tiers if tier]
        return known

    def _divide(self, seating: Seating, seated: list[list[Plugin]]) -> dict[str, Rows]:
        divisions: dict[str, Division] = {}
        for number, place in seating.dividing:
            plugin = seated[number][place]
            division = None
            if points.DIVIDE_CLASSES in seating.seats[number][place].points:
                division = answering(plugin, points.DIVIDE_CLASSES, self.snapshot)(self)
            if division is None and (plugin.pod_labels or plugin.pod_annotations):
                division = divide_by_marks(self.snapshot, plugin.pod_labels, plugin.pod_annotations)
            if division is not None:
                divisions[plugin.name] = division
        parts = divide_classes(self.snapshot, divisions)
        classes, pods = self.snapshot.classes, ClassPods(self.snapshot, seating.labels, seating.annotations)
        self.snapshot.classes = ClassTable(classes.requests, pods, classes.keys)
        return parts

    def turn(self, job: int) -> Turn:
        """What is done for one job, as a block: if something goes wrong in it, the others go on without the job."""
        self._turn.job = job
        return self._turn

    def begin(self, step: str = "") -> None:
        """Something begins that may have to be taken back."""
        self._made.clear()
        self.step = step or self.step

    def take_back(self) -> None:
        """Undo what has been begun and not ended: it broke off."""
        for statement in reversed(self._made):
            if statement.is_open:
                statement.rollback()
        self._made.clear()

    def blame(self, plugin: str, subject: object) -> None:
        if plugin and self.strikes.note(plugin, subject, self.now):
            self._drop(plugin)

    def _drop(self, name: str) -> None:
        """Go on without a plugin."""
        plugin = self.plugins.pop(name, None)
        if plugin is None:
            return
        log.error("event=plugin-dropped plugin=%s after=%d seconds=%d", name, STRIKES, OUT_SECONDS)
        self._ask_no_more(plugin)
        self._paired = self._live = None
        self.protects_all |= protects(type(plugin))

    def close(self) -> None:
        for plugin in self.plugins.values():
            plugin.close()

    def is_hierarchical(self, plugin: str) -> bool:
        """Is `enableHierarchy` set for the plugin?"""
        return self._hierarchical.get(plugin, False)

    def has_action(self, name: str) -> bool:
        return name in self.config.actions

    # -- admission -------------------------------------------------------------------------------------------

    def why_queue_refuses(self, job: int) -> JobVerdict | None:
        """Why the queue of a job takes no jobs, or not this one; None: it does."""
        queues = self.snapshot.queues
        queue, name = int(self.snapshot.jobs.queue[job]), self.snapshot.jobs.records[job].queue
        if queue == NO_ROW:
            return JobVerdict(QUEUE_MISSING, name)
        if queue in queues.aside:
            return JobVerdict(QUARANTINED, queues.aside[queue])
        if queue in queues.broken:
            return JobVerdict(QUEUE_BROKEN, queues.broken[queue])
        if self.asked(points.QUEUE_TURN):
            if not queues.records[queue].open:
                return JobVerdict(QUEUE_CLOSED, name)
            if queue in queues.parents:
                return JobVerdict(QUEUE_NOT_A_LEAF, name)
        return None

    def _let_in_where_nobody_decides(self) -> None:
        """Admit waiting jobs if no action decides on it; plugins are not asked.

        A PodGroup is admitted before it has pods: controllers make them only when its phase says so. Where `enqueue`
        is configured it admits jobs one by one; without it all are let in at once, unless their queue cannot have them.
        Where queues take turns in a tree all actions start jobs; else evicting alone helps only who was let in before.
        """
        starts_jobs = bool(self.asked(points.QUEUE_TURN)) or any(map(self.has_action, _STARTING))
        if self.has_action("enqueue") or not starts_jobs:
            return
        jobs = self.snapshot.jobs
        waiting = (jobs.live & jobs.has_group & (jobs.phase == _PENDING)).nonzero()[0]
        queues = jobs.queue[waiting]
        for queue in sorted(set(queues.tolist())):  # numpy's way loads masked arrays: long
            same = waiting[queues == queue]
            if queue != NO_ROW and self.why_queue_refuses(int(same[0])) is None:
                jobs.phase[same] = JobPhase.INQUEUE
                continue
            for job in same.tolist():
                verdict = self.why_queue_refuses(job)
                if verdict is not None:
                    self.record(job, verdict)

    def admit(self, job: int) -> None:
        """Let a waiting job in: it may be allocated from now on."""
        self.ask(points.JOB_ENQUEUED, job)
        self.snapshot.jobs.phase[job] = JobPhase.INQUEUE

    # -- changes -------------------------------------------------------------------------------------------

    def look_again(self, at: float, patience: float = 0.0) -> None:
        """Note that the passing of time alone changes something at a moment to come.

        For its sake no cycle begins sooner than after so many seconds of patience.
        """
        if at > self.now:
            if self._heard is not None:
                self._heard.append(at)
            at = max(at, self.now + patience)
            self.due = at if self.due is None else min(self.due, at)

    @contextmanager
    def hearing_until(self) -> Iterator[list[float]]:
        """Collect the moments at which plugins will answer otherwise than they do meanwhile."""
        heard: list[float] = []
        self._heard = heard
        try:
            yield heard
        finally:
            self._heard = None

    def statement(self, action: str = "", *, promises: bool = False) -> Statement:
        """A new statement; what it commits is kept under the name of the action.

        `promises`: places that it sets aside are kept in the next cycles, too.
        """

        def keep(operations: list[Operation]) -> None:
            self.committed.append(Committed(action, operations, promises))

        made = Statement(self.snapshot, keep if action else None)
        if self.asked(points.TASKS_ADDED) or self.asked(points.TASKS_REMOVED):
            made.tell = self.tell_tasks
        self._made.append(made)
        return made

    def count_for(self, action: str) -> ActionTally:
        """What is counted from now on is the action's."""
        known = self.tallies.get(action)
        if known is None:
            known = self.tallies[action] = ActionTally()
        self.tally = known
        return known

    def note_no_eviction(self, job: int, action: str, why: Rejection, *, tried: bool = True) -> None:
        """Remember why nobody was evicted for a job; an action that tries another way afterwards adds nothing.

        `tried`: it had a turn, which counts as an attempt; if not, the reason was known before.
        """
        self.no_evictions.setdefault(job, {}).setdefault(action, why)
        if tried:
            self.tally.attempts[why.reason.code] += 1

    def record(self, job: int, verdict: JobVerdict) -> None:
        """Remember why a job did not (fully) start; a later word on the same job replaces it."""
        self.verdicts[job] = verdict
