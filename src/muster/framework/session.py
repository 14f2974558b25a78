"""One cycle's view: a snapshot, the plugins that advise on it, and the rules that combine their answers.

Actions ask the session, the session asks the plugins that implement the point and have it enabled; orders and victims
are asked about in `orders` and `victim_questions`. The lists per extension point are made once, at opening.
What actions commit is collected as `committed`; verdicts on jobs that stay behind are collected as `verdicts`. Nothing
here talks to a cluster.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.framework.config import PluginOption, SchedulerConfig
from muster.framework.entrance import let_in_where_nobody_decides
from muster.framework.faults import OUT_SECONDS, STRIKES, Fault, Strikes, Turn
from muster.framework.orders import OrderQuestions
from muster.framework.plugin import (
    Eviction,
    NodeScores,
    Plugin,
    Purpose,
    Rejection,
    Vote,
    implemented,
    overrides,
)
from muster.framework.questions import Points
from muster.framework.reasons import FITS, NODE_NOT_READY, NODE_QUARANTINED, NOT_ADMITTED, Verdicts
from muster.framework.registry import Registry
from muster.framework.tallies import ActionTally
from muster.framework.verdicts import JobVerdict
from muster.framework.victim_questions import VictimQuestions, protects
from muster.snapshot import Amounts, JobPhase, Operation, Rows, Snapshot, Statement
from muster.snapshot.classes import Division, divide_classes

log = logging.getLogger("muster.framework")

_NO_LIMIT = 2**31 - 1


@dataclass(slots=True)
class Committed:
    """Operations that an action has committed."""

    action: str
    operations: list[Operation]


class Session(OrderQuestions, VictimQuestions):
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
        usage: Mapping[str, Mapping[str, float]] | None = None,
        memory: dict[str, float] | None = None,
        strikes: Strikes | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.config = config
        #: Seconds since the epoch, from the injected clock.
        self.now = now
        self.rng = random.Random(seed)  # noqa: S311 - reproducible choices, not secrets
        self.committed: list[Committed] = []
        self.verdicts: dict[int, JobVerdict] = {}
        #: By job and action: why evictions made no room for a job that may look for victims.
        self.no_evictions: dict[int, dict[str, Rejection]] = {}
        #: What actions did to make room, by their names, and the one that is under way.
        self.tallies: dict[str, ActionTally] = {}
        self.tally = ActionTally()
        #: Tasks whose queue has room for them, so that the gate which waits for that may go.
        self.ungated: list[int] = []
        #: Capacity of the ready nodes, and the part of it that queues share: what others hold is not theirs.
        self.total = snapshot.total()
        self.shared_total: Amounts = np.maximum(self.total - snapshot.held_by_others(), 0)
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
        self._points = Points()
        self._open(registry)
        let_in_where_nobody_decides(self)

    # -- opening and closing -------------------------------------------------------------------------------

    def _open(self, registry: Registry) -> None:
        out = self.strikes.out(self.now)
        tiers = [
            [(option, registry.make_plugin(option)) for option in tier if option.name not in out]
            for tier in self.config.tiers
        ]
        self.protects_all = any(protects(registry.plugins[name]) for name in out)
        #: The part of every class, by plugin; see `Plugin.divide_classes`.
        self.class_parts = self._divide(plugin for entries in tiers for _, plugin in entries)
        for entries in tiers:
            for option, plugin in entries:
                self.plugins[option.name] = plugin
                plugin.open(self)
        for entries in tiers:
            bound: dict[str, list[Any]] = {}
            for option, plugin in entries:
                for point in implemented(type(plugin)):
                    if option.is_on(point):
                        bound.setdefault(point, []).append(getattr(plugin, point))
            for point, methods in bound.items():
                self._points.tiers[point].append(methods)
                self._points.flat[point].extend(methods)
        self._opinions = {kind: self._opinions_on(kind, tiers) for kind in Eviction}
        self._victim_order = [
            (ask, ask.__self__.victim_order if overrides(ask.__self__, "victim_order") else None)
            for ask in self._points.flat["job_order"]
        ]

    def _opinions_on(self, kind: Eviction, tiers: Sequence[Sequence[tuple[PluginOption, Plugin]]]) -> list[list[Any]]:
        """Who says which single tasks may be victims, tier by tier."""
        asked = [
            [
                plugin.evictable
                for option, plugin in tier
                if overrides(plugin, "evictable") and kind in plugin.victim_kinds and option.has_opinion(kind)
            ]
            for tier in tiers
        ]
        return [tier for tier in asked if tier]

    def _divide(self, plugins: Iterable[Plugin]) -> dict[str, Rows]:
        divisions: dict[str, Division] = {}
        for plugin in plugins:
            division = plugin.divide_classes(self)
            if division is not None:
                divisions[plugin.name] = division
        return divide_classes(self.snapshot, divisions)

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
        self._points.drop(plugin)
        self._victim_order = [pair for pair in self._victim_order if getattr(pair[0], "__self__", None) is not plugin]
        self.protects_all |= protects(type(plugin))

    def close(self) -> None:
        for plugin in self.plugins.values():
            plugin.close()

    def is_hierarchical(self, plugin: str) -> bool:
        """Is `enableHierarchy` set for the plugin?"""
        return self._hierarchical.get(plugin, False)

    def has_action(self, name: str) -> bool:
        return name in self.config.actions

    # -- gangs ---------------------------------------------------------------------------------------------

    def job_valid(self, job: int) -> Rejection | None:
        for ask in self._points.flat["job_valid"]:
            rejection: Rejection | None = ask(job)
            if rejection is not None:
                return rejection
        return None

    def job_deficit(self, job: int) -> int:
        """How many more tasks at least the job needs to be ready; 0 = ready."""
        asked = self._points.flat["job_ready"]
        if len(asked) == 1:  # gang alone, nearly always, and several times per turn
            deficit: int = asked[0](job)
            return deficit
        return max((ask(job) for ask in asked), default=0)

    def job_pipelined_deficit(self, job: int) -> int:
        return max((ask(job) for ask in self._points.flat["job_pipelined"]), default=0)

    def subgroup_deficit(self, subgroup: int) -> int:
        """As `job_deficit`; a job without sub-groups of its own is one sub-group."""
        job = int(self.snapshot.subgroups.job[subgroup])
        if not self.snapshot.jobs.records[job].sub_groups:
            return self.job_deficit(job)
        return max((ask(subgroup) for ask in self._points.flat["subgroup_ready"]), default=0)

    def subgroup_pipelined_deficit(self, subgroup: int) -> int:
        job = int(self.snapshot.subgroups.job[subgroup])
        if not self.snapshot.jobs.records[job].sub_groups:
            return self.job_pipelined_deficit(job)
        return max((ask(subgroup) for ask in self._points.flat["subgroup_pipelined"]), default=0)

    def job_starving(self, job: int) -> bool:
        asked = self._points.flat["job_starving"]
        return bool(asked) and all(ask(job) for ask in asked)

    def job_enqueueable(self, job: int) -> bool:
        return self.why_not_admitted(job) is None

    def why_not_admitted(self, job: int) -> Rejection | None:
        """Why the job may not be admitted; None: it may.

        A reject wins at once, the first tier with a permit ends the question.
        """
        for tier in self._points.tiers["job_enqueueable"]:
            permitted = False
            for ask in tier:
                vote: Vote | Rejection = ask(job)
                if isinstance(vote, Rejection):
                    return vote
                if vote == Vote.REJECT:
                    return Rejection(NOT_ADMITTED)
                permitted = permitted or vote == Vote.PERMIT
            if permitted:
                return None
        return None

    def admit(self, job: int) -> None:
        """Let a waiting job in: it may be allocated from now on."""
        for tell in self._points.flat["job_enqueued"]:
            tell(job)
        self.snapshot.jobs.phase[job] = JobPhase.INQUEUE

    # -- nodes ---------------------------------------------------------------------------------------------

    def node_verdicts(self, cls: int) -> Verdicts:
        """First reason against each node for a class, free resources and other pods aside."""
        key = self.snapshot.classes.keys[cls]
        verdicts = self._known_verdicts.get(key)
        if verdicts is None:
            verdicts = np.where(self.snapshot.nodes.ready, FITS, NODE_NOT_READY.number).astype(np.int16)
            verdicts[self.snapshot.nodes.aside] = NODE_QUARANTINED.number
            for ask in self._points.flat["node_mask"]:
                verdicts = np.where(verdicts == FITS, ask(cls), verdicts)
            self._known_verdicts[key] = verdicts
        return verdicts

    def task_verdicts(self, task: int) -> Verdicts | None:
        """First reason against each node that other pods give; None: there is none."""
        combined: Verdicts | None = None
        for ask in self._points.flat["task_mask"]:
            answer: Verdicts | None = ask(task)
            if answer is not None:
                combined = answer if combined is None else np.where(combined == FITS, answer, combined)
        return combined

    def node_scores(self, cls: int) -> list[NodeScores]:
        return [ask(cls) for ask in self._points.flat["node_score"]]

    def task_scores(self, task: int) -> NDArray[np.float64] | None:
        total: NDArray[np.float64] | None = None
        for ask in self._points.flat["task_score"]:
            answer: NDArray[np.float64] | None = ask(task)
            if answer is not None:
                total = answer if total is None else total + answer
        return total

    def live_tasks(self) -> frozenset[int]:
        """Pending tasks for which other pods matter."""
        points = self._points.flat
        owners = {id(method.__self__) for point in ("task_mask", "task_score") for method in points[point]}
        return frozenset(
            int(task) for ask in points["live_tasks"] if id(getattr(ask, "__self__", None)) in owners for task in ask()
        )

    # -- domains of the network ------------------------------------------------------------------------------

    def domain_gradients(self, job: int, subgroup: int, scope: int) -> Sequence[Rows] | None:
        """The first plugin's word on which domains to try; None: nobody has an opinion."""
        for ask in self._points.flat["domain_gradients"]:
            gradients: Sequence[Rows] | None = ask(job, subgroup, scope)
            if gradients:
                return gradients
        return None

    def domain_scores(self, job: int, subgroup: int, domains: Rows) -> NDArray[np.float64]:
        total = np.zeros(len(domains))
        for ask in self._points.flat["domain_score"]:
            total = total + ask(job, subgroup, domains)
        return total

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        for ask in self._points.flat["search_space"]:
            domains: Rows | None = ask(job, purpose)
            if domains is not None and len(domains):
                return domains
        return None

    # -- queues --------------------------------------------------------------------------------------------

    def overused(self, queue: int) -> bool:
        return any(ask(queue) for ask in self._points.flat["overused"])

    def queue_slots(self, queue: int, request: Amounts) -> int:
        """How many more tasks with this request the queue may hold."""
        return min((ask(queue, request) for ask in self._points.flat["queue_allocatable"]), default=_NO_LIMIT)

    def preemptive(self, queue: int, tasks: Rows) -> bool:
        return all(ask(queue, tasks) for ask in self._points.flat["preemptive"])

    def over_capacity(self, job: int, tasks: Rows) -> Rejection | None:
        """Why the queues above a job may not hold these tasks too; None: they may."""
        return self._first_rejection("over_capacity", job, tasks)

    def over_quota(self, job: int, tasks: Rows) -> Rejection | None:
        """Why a job that is not preemptible may not have these tasks; None: it may."""
        return self._first_rejection("over_quota", job, tasks)

    # -- changes -------------------------------------------------------------------------------------------

    def look_again(self, at: float) -> None:
        """Note that the passing of time alone changes something at a moment to come."""
        if at > self.now:
            if self._heard is not None:
                self._heard.append(at)
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

    def statement(self, action: str = "") -> Statement:
        """A new statement; what it commits is kept under the name of the action."""
        made = Statement(self.snapshot, (lambda done: self._keep(action, done)) if action else None)
        self._made.append(made)
        return made

    def commit(self, statement: Statement, action: str) -> None:
        """Keep what a statement without an action did."""
        operations = statement.commit()
        if operations:
            self._keep(action, operations)

    def _keep(self, action: str, operations: list[Operation]) -> None:
        self.committed.append(Committed(action, operations))

    def count_for(self, action: str) -> ActionTally:
        """What is counted from now on is the action's."""
        self.tally = self.tallies.setdefault(action, ActionTally())
        return self.tally

    def note_no_eviction(self, job: int, action: str, why: Rejection) -> None:
        """Remember why nobody was evicted for a job; an action that tries another way afterwards adds nothing."""
        self.no_evictions.setdefault(job, {}).setdefault(action, why)
        self.tally.attempts[why.reason.code] += 1

    def record(self, job: int, verdict: JobVerdict) -> None:
        """Remember why a job did not (fully) start; a later word on the same job replaces it."""
        self.verdicts[job] = verdict
