"""What the session asks plugins about jobs, nodes, domains and queues, and how many answers become one.

Part of the session. Points and rules are those of `points`; every order is total: where plugins see no difference, age
and name decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.framework import points
from muster.framework.faults import answering
from muster.framework.plugin import NodeScores, Plugin, Purpose, Rejection
from muster.framework.points import A, P, Point, R
from muster.framework.reasons import FITS, NODE_NOT_READY, NODE_QUARANTINED, Verdicts
from muster.framework.registry import Answering
from muster.snapshot import Amounts, Mask, Pieces, Rows, Snapshot

#: A bound method of a plugin, or what stands for one and has its `__self__`.
Ask = Callable[..., Any]


class Asking:
    """Who answers which extension point in a session: methods in tier order, and the same tier by tier."""

    snapshot: Snapshot

    def __init__(self) -> None:
        #: Who takes part, tier by tier, and at which points; filled when all of them are open.
        self._seated: list[list[Plugin]] = []
        self._answering: Answering = {}
        #: The methods of points that somebody has asked at: of most points nobody ever does.
        self._asked: dict[Point[..., Any, Any], list[Any]] = {}
        self._tiers: dict[Point[..., Any, Any], list[list[Any]]] = {}

    def asked(self, point: Point[P, A, R]) -> list[Callable[P, A]]:
        """The methods that answer an extension point, in tier order."""
        found = self._asked.get(point)
        return self.methods(point) if found is None else found

    def methods(self, point: Point[..., Any, Any]) -> list[Any]:
        """As `asked`, for those who also want to know whose methods they are."""
        found = self._asked.get(point)
        if found is None:
            seated, places = self._seated, self._answering.get(point, ())
            found = [
                answering(seated[number][place], point, self.snapshot) for tier in places for number, place in tier
            ]
            if seated:
                self._asked[point] = found
        return found

    def tiers(self, point: Point[..., Any, Any]) -> list[list[Any]]:
        """As `asked`, tier by tier, without tiers in which nobody answers."""
        found = self._tiers.get(point)
        if found is None:
            seated, places = self._seated, self._answering.get(point, ())
            found = [
                [answering(seated[number][place], point, self.snapshot) for number, place in tier] for tier in places
            ]
            if seated:
                self._tiers[point] = found
        return found

    def ask(self, point: Point[P, A, R], *about: P.args, **named: P.kwargs) -> R:
        """What plugins say together."""
        return point.rule.combine(ask(*about, **named) for ask in self.asked(point))

    def _ask_often(self, point: Point[P, A, A], *about: P.args, **named: P.kwargs) -> A:
        """As `ask`, for questions of every turn whose rule leaves a single answer, the usual case, as it is."""
        asked = self._asked.get(point) or self.methods(point)
        if len(asked) == 1:
            answer: A = asked[0](*about, **named)
            return answer
        return self.ask(point, *about, **named)

    def _ask_no_more(self, plugin: Plugin) -> None:
        """Drop a plugin. Lists stay the same ones: whoever holds one does without it too."""
        places = {
            (number, place)
            for number, tier in enumerate(self._seated)
            for place, one in enumerate(tier)
            if one is plugin
        }
        self._answering = {
            point: [left for tier in tiers if (left := [place for place in tier if place not in places])]
            for point, tiers in self._answering.items()
        }
        for methods in (*self._asked.values(), *(tier for tiers in self._tiers.values() for tier in tiers)):
            methods[:] = [method for method in methods if method.__self__ is not plugin]


class OrderQuestions(Asking):
    """Who comes first."""

    #: The methods that order jobs, and beside each those of the same plugin that order them as victims: one by one and
    #: many at once, where there are any.
    _paired: list[tuple[Ask, Ask | None, Ask | None]] | None = None

    @property
    def _victim_order(self) -> list[tuple[Ask, Ask | None, Ask | None]]:
        if self._paired is None:
            self._paired = self._pair_orders()
        return self._paired

    def _pair_orders(self) -> list[tuple[Ask, Ask | None, Ask | None]]:
        """Find out who orders victims otherwise than jobs."""
        alone, many = (
            {id(ask.__self__): ask for ask in self.methods(point)}
            for point in (points.VICTIM_ORDER, points.VICTIM_ORDERS)
        )
        owners = [(ask, id(ask.__self__)) for ask in self.methods(points.JOB_ORDER)]
        return [(ask, alone.get(owner), many.get(owner)) for ask, owner in owners]

    def job_key(self, job: int) -> tuple[Any, ...]:
        """Order of a job among the jobs of its queue."""
        jobs = self.snapshot.jobs
        keys = [ask(job) for ask in self.asked(points.JOB_ORDER)]
        return (*keys, float(jobs.created[job]), jobs.records[job].id)

    def job_keys(self, jobs: Rows) -> list[tuple[Any, ...]] | None:
        """`job_key` of many jobs; None: somebody has to be asked about each."""
        many = {id(ask.__self__): ask for ask in self.methods(points.JOB_ORDERS)}
        asked = [many.get(id(ask.__self__)) for ask in self.methods(points.JOB_ORDER)]
        if None in asked:
            return None
        table, columns = self.snapshot.jobs, [ask(jobs).tolist() for ask in asked if ask is not None]
        names = [table.records[job].id for job in jobs.tolist()]
        return list(zip(*columns, table.created[jobs].tolist(), names, strict=True))

    def queue_key(self, queue: int) -> tuple[Any, ...]:
        """Order of a queue among all queues."""
        record = self.snapshot.queues.records[queue]
        keys = [ask(queue) for ask in self.asked(points.QUEUE_ORDER)]
        return (*keys, record.created, record.name)

    def queue_turn_key(self, queue: int, job: int, leaving: Amounts | None = None) -> tuple[Any, ...]:
        """Order of a queue among its siblings when queues take turns down the tree; see `Plugin.queue_turn`."""
        record = self.snapshot.queues.records[queue]
        keys = [ask(queue, job, leaving) for ask in self.asked(points.QUEUE_TURN)]
        return (*keys, record.created, record.name)

    def victim_key(self, job: int, left: Rows) -> tuple[Any, ...]:
        """Order of a job of which `left` is left, as `job_key`; victims of a queue go from the last to the first."""
        jobs = self.snapshot.jobs
        keys = [for_victim(job, left) if for_victim else ask(job) for ask, for_victim, _ in self._victim_order]
        return (*keys, float(jobs.created[job]), jobs.records[job].id)

    def sort_victims(self, jobs: Rows, left: Pieces) -> Rows:
        """Order jobs by `victim_key`, with what is left of each."""
        table, rows = self.snapshot.jobs, jobs.tolist()
        columns: list[NDArray[Any]] = [table.names.places(jobs, table.records), table.created[jobs]]
        for ask, for_victim, for_many in reversed(self._victim_order):
            if for_many:
                columns.append(for_many(jobs, left))
            elif for_victim:
                columns.append(_numbers([for_victim(job, left[piece]) for piece, job in enumerate(rows)]))
            else:
                columns.append(_numbers([ask(job) for job in rows]))
        ordered: Rows = jobs[np.lexsort(columns)]
        return ordered

    def subgroup_key(self, subgroup: int) -> tuple[Any, ...]:
        """Order of a sub-group among those of its job."""
        table = self.snapshot.subgroups
        keys = [ask(subgroup) for ask in self.asked(points.SUBGROUP_ORDER)]
        return (*keys, int(table.index[subgroup]), table.names[subgroup])

    def sort_tasks(self, tasks: Rows) -> Rows:
        """Order tasks by job row, then by the plugins' keys, then by index, age and uid."""
        if len(tasks) < 2:  # one is the usual case
            return tasks
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
        keys: list[NDArray[Any]] = [ask(tasks) for ask in self.asked(points.TASK_ORDER)]
        ordered: Rows = tasks[np.lexsort([table.rank[tasks], *reversed(keys), table.job[tasks]])]
        return ordered


class PlacingQuestions(Asking):
    """Who may start, where, and how much of it."""

    #: Node verdicts by class key; the scheduler keeps them as long as no node changes.
    _known_verdicts: dict[bytes, Verdicts]
    #: Steady scores by plugin and class key, as long.
    _known_scores: dict[tuple[str, bytes], NodeScores]
    _live: frozenset[int] | None = None

    # -- gangs ---------------------------------------------------------------------------------------------

    def job_valid(self, job: int) -> Rejection | None:
        return self._ask_often(points.JOB_VALID, job)

    def surely_valid(self, jobs: Rows) -> Mask:
        """Against which of many jobs nobody has anything; about the others, each has to be asked."""
        many = self.methods(points.JOBS_VALID)
        if {id(ask.__self__) for ask in self.methods(points.JOB_VALID)} - {id(ask.__self__) for ask in many}:
            return np.zeros(len(jobs), np.bool_)
        agreed = self.ask(points.JOBS_VALID, jobs)
        return np.ones(len(jobs), np.bool_) if agreed is None else agreed

    def job_deficit(self, job: int) -> int:
        """How many more tasks at least the job needs to be ready; 0 = ready."""
        return self._ask_often(points.JOB_READY, job)

    def job_pipelined_deficit(self, job: int) -> int:
        return self._ask_often(points.JOB_PIPELINED, job)

    def subgroup_deficit(self, subgroup: int) -> int:
        """As `job_deficit`; a job without sub-groups of its own is one sub-group."""
        job = int(self.snapshot.subgroups.job[subgroup])
        if not self.snapshot.jobs.records[job].sub_groups:
            return self.job_deficit(job)
        return self._ask_often(points.SUBGROUP_READY, subgroup)

    def subgroup_pipelined_deficit(self, subgroup: int) -> int:
        job = int(self.snapshot.subgroups.job[subgroup])
        if not self.snapshot.jobs.records[job].sub_groups:
            return self.job_pipelined_deficit(job)
        return self._ask_often(points.SUBGROUP_PIPELINED, subgroup)

    def job_starving(self, job: int) -> bool:
        return bool(self.asked(points.JOB_STARVING)) and self._ask_often(points.JOB_STARVING, job)

    def job_enqueueable(self, job: int) -> bool:
        return self.why_not_admitted(job) is None

    def why_not_admitted(self, job: int) -> Rejection | None:
        """Why the job may not be admitted; None: it may."""
        return points.JOB_ENQUEUEABLE.rule.combine(
            (ask(job) for ask in tier) for tier in self.tiers(points.JOB_ENQUEUEABLE)
        )

    def start_nodes(self, job: int, tasks: Rows) -> Rejection | Mask | None:
        """Where a job may start although others wait before it; None: wherever there is room."""
        return self._ask_often(points.START_NODES, job, tasks) if self.asked(points.START_NODES) else None

    def job_waits(self, job: int) -> bool:
        """Tell that a job found no place; True: its queue has to be put in order again."""
        return bool(self.asked(points.JOB_WAITS)) and self.ask(points.JOB_WAITS, job)

    def queue_closed(self, queue: int) -> Rejection | None:
        """Why nobody else of a queue may start, after one of its jobs found no place; None: somebody may."""
        return self.ask(points.QUEUE_CLOSED, queue) if self.asked(points.QUEUE_CLOSED) else None

    # -- nodes ---------------------------------------------------------------------------------------------

    def node_verdicts(self, cls: int) -> Verdicts:
        """First reason against each node for a class, free resources and other pods aside."""
        key = self.snapshot.classes.keys[cls]
        verdicts = self._known_verdicts.get(key)
        if verdicts is None:
            verdicts = np.where(self.snapshot.nodes.ready, FITS, NODE_NOT_READY.number).astype(np.int16)
            verdicts[self.snapshot.nodes.aside] = NODE_QUARANTINED.number
            for ask in self.asked(points.NODE_MASK):
                verdicts = np.where(verdicts == FITS, ask(cls), verdicts)
            self._known_verdicts[key] = verdicts
        return verdicts

    def task_verdicts(self, task: int) -> Verdicts | None:
        """First reason against each node that other pods give; None: there is none."""
        return self.ask(points.TASK_MASK, task)

    def node_scores(self, cls: int) -> list[NodeScores]:
        key = self.snapshot.classes.keys[cls]
        return points.NODE_SCORE.rule.combine(self._scored(ask, cls, key) for ask in self.asked(points.NODE_SCORE))

    def _scored(self, ask: Ask, cls: int, key: bytes) -> NodeScores:
        """What a plugin answers; one whose scores are steady is asked once for a class while no node changes."""
        plugin: Plugin = ask.__self__  # type: ignore[attr-defined]  # see Ask
        found = self._known_scores.get((plugin.name, key)) if plugin.steady_scores else None
        if found is None:
            found = ask(cls)
            if plugin.steady_scores:
                self._known_scores[plugin.name, key] = found
        return found

    def task_scores(self, task: int) -> NDArray[np.float64] | None:
        return self.ask(points.TASK_SCORE, task)

    def live_tasks(self) -> frozenset[int]:
        """Pending tasks for which other pods matter; plugins are asked once."""
        if self._live is None:
            self._live = self._find_live()
        return self._live

    def _find_live(self) -> frozenset[int]:
        concerned = [(id(ask.__self__), tasks) for ask in self.methods(points.LIVE_TASKS) if len(tasks := ask())]
        if not concerned:
            return frozenset()
        owners = {
            id(method.__self__) for point in (points.TASK_MASK, points.TASK_SCORE) for method in self.methods(point)
        }
        return frozenset(int(task) for owner, tasks in concerned if owner in owners for task in tasks)

    # -- domains of the network ------------------------------------------------------------------------------

    def domain_gradients(self, job: int, subgroup: int, scope: int) -> Sequence[Rows] | None:
        """The first plugin's word on which domains to try; None: nobody has an opinion."""
        return self.ask(points.DOMAIN_GRADIENTS, job, subgroup, scope)

    def domain_scores(self, job: int, subgroup: int, domains: Rows) -> NDArray[np.float64]:
        scores = self.ask(points.DOMAIN_SCORE, job, subgroup, domains)
        return np.zeros(len(domains)) if scores is None else scores

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        return self.ask(points.SEARCH_SPACE, job, purpose)

    # -- queues --------------------------------------------------------------------------------------------

    def overused(self, queue: int) -> bool:
        return self._ask_often(points.OVERUSED, queue)

    def queue_slots(self, queue: int, request: Amounts) -> int:
        """How many more tasks with this request the queue may hold."""
        return self._ask_often(points.QUEUE_ALLOCATABLE, queue, request)

    def preemptive(self, queue: int, tasks: Rows) -> bool:
        return self._ask_often(points.PREEMPTIVE, queue, tasks)

    def over_capacity(self, job: int, tasks: Rows) -> Rejection | None:
        """Why the queues above a job may not hold these tasks too; None: they may."""
        return self._ask_often(points.OVER_CAPACITY, job, tasks)

    def over_quota(self, job: int, tasks: Rows) -> Rejection | None:
        """Why a job that is not preemptible may not have these tasks; None: it may, or is preemptible."""
        return None if self.snapshot.jobs.preemptible[job] else self._ask_often(points.OVER_QUOTA, job, tasks)


def _numbers(keys: Sequence[Any]) -> NDArray[Any]:
    """Numbers that stand to each other as the keys do."""
    numbers = np.zeros(len(keys), np.intp)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    numbers[order] = np.cumsum([False, *(keys[one] != keys[next_one] for one, next_one in pairwise(order))])
    return numbers
