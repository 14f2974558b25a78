"""One cycle's view: a snapshot, the plugins that advise on it, and the rules that combine their answers.

Actions ask the session, the session asks the plugins that implement the point and have it enabled. The lists
per extension point are made once, at opening. What actions commit is collected as `committed`; verdicts on jobs
that stay behind are collected as `verdicts`. Nothing here talks to a cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.framework.config import SchedulerConfig
from muster.framework.plugin import (
    POINTS,
    Eviction,
    NodeScores,
    Plugin,
    Purpose,
    Rejection,
    Scenario,
    ScenarioFilter,
    Vote,
    implemented,
    overrides,
)
from muster.framework.reasons import FITS, NOBODY_RECLAIMS, NODE_NOT_READY, Verdicts
from muster.framework.registry import Registry
from muster.framework.verdicts import JobVerdict
from muster.snapshot import Amounts, JobPhase, Mask, Operation, Pieces, Rows, Snapshot, Statement

_NO_LIMIT = 2**31 - 1


@dataclass(slots=True)
class Committed:
    """Operations that an action has committed."""

    action: str
    operations: list[Operation]


@dataclass(slots=True)
class _Points:
    """Bound methods per extension point, in tier order; `tiers` keeps the tiers apart."""

    flat: dict[str, list[Any]] = field(default_factory=lambda: {point: [] for point in POINTS})
    tiers: dict[str, list[list[Any]]] = field(default_factory=lambda: {point: [] for point in POINTS})


class Session:
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
    ) -> None:
        self.snapshot = snapshot
        self.config = config
        #: Seconds since the epoch, from the injected clock.
        self.now = now
        self.rng = random.Random(seed)  # noqa: S311 - reproducible choices, not secrets
        self.committed: list[Committed] = []
        self.verdicts: dict[int, JobVerdict] = {}
        self.total = snapshot.total()
        #: What queues have had in the past, by queue and resource, as a fraction of the cluster; empty: nobody counts.
        self.usage: Mapping[str, Mapping[str, float]] = {} if usage is None else usage
        #: When something may change although nothing happens; None: never.
        self.due: float | None = None
        #: What the engine shares between the actions of this session.
        self.workspace: dict[str, object] = {}
        #: Node verdicts by class key; the scheduler keeps them as long as no node changes.
        self._known_verdicts = {} if known_verdicts is None else known_verdicts
        self._hierarchical: dict[str, bool] = {option.name: option.hierarchy for option in config.plugin_options()}
        self.plugins: dict[str, Plugin] = {}
        self._points = _Points()
        self._open(registry)

    # -- opening and closing -------------------------------------------------------------------------------

    def _open(self, registry: Registry) -> None:
        tiers = [[(option, registry.make_plugin(option)) for option in tier] for tier in self.config.tiers]
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
        self._victim_order = [
            (ask, ask.__self__.victim_order if overrides(ask.__self__, "victim_order") else None)
            for ask in self._points.flat["job_order"]
        ]

    def close(self) -> None:
        for plugin in self.plugins.values():
            plugin.close()

    def asked(self, point: str) -> list[Callable[..., Any]]:
        """The methods that answer an extension point, in tier order."""
        return self._points.flat[point]

    def is_hierarchical(self, plugin: str) -> bool:
        """Is `enableHierarchy` set for the plugin?"""
        return self._hierarchical.get(plugin, False)

    def has_action(self, name: str) -> bool:
        return name in self.config.actions

    # -- order ---------------------------------------------------------------------------------------------

    def job_key(self, job: int) -> tuple[Any, ...]:
        """Order of a job among the jobs of its queue."""
        jobs = self.snapshot.jobs
        keys = [ask(job) for ask in self._points.flat["job_order"]]
        return (*keys, float(jobs.created[job]), jobs.records[job].id)

    def queue_key(self, queue: int) -> tuple[Any, ...]:
        """Order of a queue among all queues."""
        record = self.snapshot.queues.records[queue]
        keys = [ask(queue) for ask in self._points.flat["queue_order"]]
        return (*keys, record.created, record.name)

    def queue_turn_key(self, queue: int, job: int, leaving: Amounts | None = None) -> tuple[Any, ...]:
        """Order of a queue among its siblings when queues take turns down the tree; see `Plugin.queue_turn`."""
        record = self.snapshot.queues.records[queue]
        keys = [ask(queue, job, leaving) for ask in self._points.flat["queue_turn"]]
        return (*keys, record.created, record.name)

    def victim_key(self, job: int, left: Rows) -> tuple[Any, ...]:
        """Order of a job of which `left` is left, as `job_key`; victims of a queue go from the last to the first."""
        jobs = self.snapshot.jobs
        keys = [for_victim(job, left) if for_victim else ask(job) for ask, for_victim in self._victim_order]
        return (*keys, float(jobs.created[job]), jobs.records[job].id)

    def sort_victims(self, jobs: Rows, left: Pieces) -> Rows:
        """Order jobs by `victim_key`, with what is left of each."""
        table, rows = self.snapshot.jobs, jobs.tolist()
        columns = [_numbers([table.records[job].id for job in rows]), table.created[jobs]]
        for ask, for_victim in reversed(self._victim_order):
            plugin = ask.__self__
            if overrides(plugin, "victim_orders"):
                columns.append(plugin.victim_orders(jobs, left))
            elif for_victim:
                columns.append(_numbers([for_victim(job, left[piece]) for piece, job in enumerate(rows)]))
            else:
                columns.append(_numbers([ask(job) for job in rows]))
        ordered: Rows = jobs[np.lexsort(columns)]
        return ordered

    def subgroup_key(self, subgroup: int) -> tuple[Any, ...]:
        """Order of a sub-group among those of its job."""
        table = self.snapshot.subgroups
        keys = [ask(subgroup) for ask in self._points.flat["subgroup_order"]]
        return (*keys, int(table.index[subgroup]), table.names[subgroup])

    def sort_tasks(self, tasks: Rows) -> Rows:
        """Order tasks by job row, then by the plugins' keys, then by age, index in the name and uid."""
        owners = self.snapshot.tasks.job[tasks]
        by_job = np.argsort(owners, kind="stable")
        ordered: Rows = tasks[by_job]
        follows = np.flatnonzero(owners[by_job[1:]] == owners[by_job[:-1]])
        if len(follows):  # tasks that are alone in their job need no key
            shared = np.zeros(len(tasks), np.bool_)
            shared[follows] = shared[follows + 1] = True
            ordered[shared] = self._sort_by_keys(ordered[shared])
        return ordered

    def _sort_by_keys(self, tasks: Rows) -> Rows:
        table = self.snapshot.tasks
        keys: list[NDArray[Any]] = [ask(tasks) for ask in self._points.flat["task_order"]]
        ordered: Rows = tasks[np.lexsort([table.rank[tasks], *reversed(keys), table.job[tasks]])]
        return ordered

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
        """May the job be admitted? A reject wins at once, the first tier with a permit ends the question."""
        for tier in self._points.tiers["job_enqueueable"]:
            permitted = False
            for ask in tier:
                vote = ask(job)
                if vote == Vote.REJECT:
                    return False
                permitted = permitted or vote == Vote.PERMIT
            if permitted:
                return True
        return True

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

    def _first_rejection(self, point: str, job: int, tasks: Rows) -> Rejection | None:
        for ask in self._points.flat[point]:
            rejection: Rejection | None = ask(job, tasks)
            if rejection is not None:
                return rejection
        return None

    # -- evictions -------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: int, candidates: Rows) -> Rows:
        """Which candidates a task may evict inside its queue."""
        return self._victims("preemptable", candidates, preemptor)

    def reclaimable(self, reclaimer: int, candidates: Rows) -> Rows:
        """Which candidates a task may evict from other queues."""
        return self._victims("reclaimable", candidates, reclaimer)

    def evictable(self, evictor: int, kind: Eviction, candidates: Rows) -> Rows:
        """Which candidates a job may evict as parts of whole gangs."""
        return self._victims("evictable", candidates, evictor, kind)

    # -- the solver's evictions ------------------------------------------------------------------------------

    def can_reclaim(self, job: int, tasks: Rows) -> Rejection | None:
        """Why a job may not take from other queues; None: it may. Without any plugin to say so, nobody may."""
        if not self._points.flat["can_reclaim"]:
            return Rejection(NOBODY_RECLAIMS)
        return self._first_rejection("can_reclaim", job, tasks)

    def filter_victims(self, kind: Eviction, evictor: int, victims: Rows) -> Rows:
        """Which jobs every plugin lets the job `evictor` evict."""
        for ask in self._points.flat["victim_filter"]:
            if len(victims) == 0:
                break
            victims = victims[ask(kind, evictor, victims)]
        return victims

    def start_solution(self, kind: Eviction, job: int) -> None:
        for tell in self._points.flat["solution_start"]:
            tell(kind, job)

    def scenario_filters(self, kind: Eviction, job: int) -> list[ScenarioFilter]:
        return [check for ask in self._points.flat["scenario_filters"] for check in ask(kind, job)]

    def is_valid_scenario(self, scenario: Scenario) -> bool:
        return all(ask(scenario.kind, scenario) for ask in self._points.flat["scenario_validator"])

    def has_steady_victims(self, kind: Eviction) -> bool:
        """Whether many nodes and tasks may be asked about at once; see `Plugin.steady_victims`."""
        tiers = self._points.tiers["preemptable" if kind is Eviction.PREEMPT else "reclaimable"]
        # Steady plugins always have an opinion, so no later tier is ever asked.
        return not tiers or all(method.__self__.steady_victims for method in tiers[0])

    def select_victims(self, evictor: int, domain: int, candidates: Rows) -> Rows | None:
        """The first plugin's own choice of victims; None: nobody makes one."""
        for ask in self._points.flat["select_victims"]:
            chosen: Rows | None = ask(evictor, domain, candidates)
            if chosen is not None:
                return chosen
        return None

    def _victims(self, point: str, candidates: Rows, *evictor: int) -> Rows:
        """Intersect within a tier; the first tier with an opinion decides, also if its opinion is: nobody."""
        for tier in self._points.tiers[point]:
            agreed: Rows | None = None
            for ask in tier:
                answer: Rows | None = ask(*evictor, candidates)
                if answer is not None:
                    agreed = answer if agreed is None else agreed[np.isin(agreed, answer)]
            if agreed is not None:
                return agreed
        return np.empty(0, np.int32)

    def victim_queue_key(self, queue: int, evictor: int) -> tuple[Any, ...]:
        """Order of a queue as a source of victims for the queue `evictor`; smaller is taken from first."""
        return tuple(ask(queue, evictor) for ask in self._points.flat["victim_queue_order"])

    def protected(self, kind: Eviction, evictor: int, jobs: Rows) -> Mask:
        """Which jobs must keep their minimum against the job `evictor`; see `Plugin.protected`."""
        mask: Mask = np.zeros(len(jobs), np.bool_)
        for ask in self._points.flat["protected"]:
            mask |= ask(kind, evictor, jobs)
        return mask

    # -- changes -------------------------------------------------------------------------------------------

    def look_again(self, at: float) -> None:
        """Note that the passing of time alone changes something at a moment to come."""
        if at > self.now:
            self.due = at if self.due is None else min(self.due, at)

    def statement(self) -> Statement:
        return Statement(self.snapshot)

    def commit(self, statement: Statement, action: str) -> None:
        """Keep what a statement did."""
        operations = statement.commit()
        if operations:
            self.committed.append(Committed(action, operations))

    def record(self, job: int, verdict: JobVerdict) -> None:
        """Remember why a job did not (fully) start; a later word on the same job replaces it."""
        self.verdicts[job] = verdict


def _numbers(keys: Sequence[Any]) -> NDArray[Any]:
    """Numbers that stand to each other as the keys do."""
    numbers = np.zeros(len(keys), np.int32)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    numbers[order] = np.cumsum([False, *(keys[one] != keys[next_one] for one, next_one in pairwise(order))])
    return numbers
