"""Why jobs of one session wait: the reason that has to go first, with the numbers that its sentence needs.

Everything that tells people why a job waits asks here: explanations, simulations, lists, and what is written to a
cluster. So they cannot disagree. A job in a busy cluster is one of thousands, so what many share (the nodes as a class
of tasks sees them, who else asks for a resource) is looked at once per session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from muster.engine.promises import has_promise
from muster.engine.waiting import gated_verdict, why_not_schedulable
from muster.explain.model import Explanation, JobState, Named, Need
from muster.explain.obstacles import (
    NodeView,
    bound_by_cluster,
    contested_resources,
    dominant_reason,
    no_evictions_text,
    queue_pictures,
    view_nodes,
)
from muster.explain.text import named_nodes, nodes_by_reason, waiting_reason
from muster.explain.words import amount_text, amounts_text
from muster.framework import NO_CLASS, JobVerdict, Reason, Session, reason
from muster.framework.reasons import (
    GANG_INCOMPLETE,
    INSUFFICIENT,
    NOT_ADMITTED,
    NOT_TRIED,
    OVER_QUOTA,
    PLACES_SEARCH_ENDED,
    PROMISED,
    QUEUE_FULL,
    QUEUE_OVERUSED,
    SEARCH_ENDED,
)
from muster.snapshot import BEST_EFFORT, NO_ROW, JobPhase, Rows, TaskStatus
from muster.snapshot import GATED as GATED_TASK

NO_BACKFILL = reason(
    "no-backfill",
    "its pods ask for nothing, and backfill, which places such pods, is not among the actions",
    remedy="add backfill to the actions of the configuration, or let the pods ask for something",
)
NO_PODS = reason("no-pods", "it has no pods yet", remedy="create its pods, or see why its controller does not")
#: Reasons that come without a class and are about room on nodes all the same.
_ABOUT_NODES = frozenset(
    known.code
    for known in (
        INSUFFICIENT,
        GANG_INCOMPLETE,
        NOT_ADMITTED,
        NOT_TRIED,
        OVER_QUOTA,
        PLACES_SEARCH_ENDED,
        QUEUE_FULL,
        QUEUE_OVERUSED,
        SEARCH_ENDED,
    )
)


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a job stands; of one that waits, what was said of it and the tasks that have to find a node."""

    job: int
    state: JobState
    verdict: JobVerdict | None = None
    needed: Rows = field(default_factory=lambda: np.empty(0, np.intp))
    #: The nodes as the task sees them that found none.
    view: NodeView | None = None
    task: int = NO_ROW
    #: Whether other pods matter for that task.
    is_live: bool = False

    def key(self, session: Session) -> tuple[object, ...]:
        """What is the same for jobs of which the same can be said."""
        assert self.verdict is not None
        queue, classes = int(session.snapshot.jobs.queue[self.job]), session.snapshot.tasks.cls
        # What a task sees for which other pods matter is its own.
        asked = int(classes[self.task]) if self.task != NO_ROW else NO_ROW
        own = self.task if self.is_live else NO_ROW
        verdict = (self.verdict.reason.code, self.verdict.detail, self.verdict.placed)
        return (queue, verdict, classes[self.needed].tobytes(), asked, own, self.view is None)


class Whys:
    """Why the jobs of one session wait, as it stands after its actions have run."""

    def __init__(self, session: Session) -> None:
        self.session = session
        #: Tasks for which other pods matter; the others of a class see the same nodes.
        self._live: frozenset[int] | None = None
        self._views: dict[int, NodeView] = {}
        self._contested: dict[int, frozenset[str]] = {}
        self._known: dict[tuple[object, ...], tuple[str, str, str]] = {}

    def state(self, job: int) -> JobState:
        """Where a job stands."""
        jobs = self.session.snapshot.jobs
        counts = jobs.counts[job]
        n_pending = int(counts[TaskStatus.PENDING])
        if jobs.allocated_count(job) or counts[TaskStatus.PIPELINED] or counts[TaskStatus.RELEASING]:
            if self.session.job_deficit(job) > 0:
                return JobState.WAITING
            return JobState.GROWING if n_pending else JobState.RUNNING
        ended = int(counts[TaskStatus.SUCCEEDED]) + int(counts[TaskStatus.FAILED])
        return JobState.FINISHED if ended and not n_pending else JobState.WAITING

    def of(self, job: int) -> Explanation:
        """How a job stands and, if anything of it waits, why: as much of an explanation as its sentence needs."""
        return self.look(job)[0]

    def reason(self, job: int) -> str:
        """Code and text of why a job waits; "" if it does not."""
        return self._told(job)[1]

    def message(self, job: int) -> tuple[str, str]:
        """The code of why a job waits, and all that a cluster is told of it: also numbers, nodes, and evictions."""
        code, reason, facts = self._told(job)
        no_evictions = "" if code in ("", PROMISED.code) else no_evictions_text(self.session, job)
        said = (reason, facts, f"no evictions: {no_evictions}" if no_evictions else "")
        return code, "; ".join(part for part in said if part)

    def _told(self, job: int) -> tuple[str, str, str]:
        """Code, code and text, and further numbers; gangs that differ in nothing but their names are looked at once."""
        standing = self._standing(job)
        if standing.state is not JobState.WAITING:
            return "", "", ""
        key = standing.key(self.session)
        if key not in self._known:
            explanation = self._reasoned(job, standing)
            facts = "" if standing.view is None else "; ".join(_facts(explanation, standing.view))
            self._known[key] = explanation.code, waiting_reason(explanation), facts
        return self._known[key]

    def look(self, job: int) -> tuple[Explanation, NodeView | None, Rows]:
        """As `of`; also the nodes as the task sees them that found none, and the tasks that have to find one."""
        standing = self._standing(job)
        return self._reasoned(job, standing), standing.view, standing.needed

    def _standing(self, job: int) -> _Standing:
        state = self.state(job)
        if state in (JobState.RUNNING, JobState.FINISHED):
            return _Standing(job, state)
        pending = _pending(self.session, job)
        needed = pending[: _still_needed(self.session, job, state, len(pending))]
        verdict = self.verdict(job, pending)
        return _Standing(job, state, verdict, needed, *self._view(verdict, needed))

    def verdict(self, job: int, pending: Rows) -> JobVerdict:
        """What the cycle said about a job, or what follows from the objects if it said nothing."""
        session = self.session
        if has_promise(session, job):
            return JobVerdict(PROMISED)
        known = session.verdicts.get(job) or why_not_schedulable(session, job)
        if known is not None and known.reason is not NOT_TRIED:
            return known
        snapshot = session.snapshot
        if not snapshot.jobs.task_count(job):
            return JobVerdict(NO_PODS)
        gated = snapshot.tasks.flags[pending] & GATED_TASK
        if len(pending) and gated.all():
            return gated_verdict(session, job)
        queue = int(snapshot.jobs.queue[job])
        if queue != NO_ROW and session.overused(queue):
            return JobVerdict(QUEUE_OVERUSED)
        ungated = pending[gated == 0]
        if queue != NO_ROW and len(ungated) and session.queue_slots(queue, snapshot.request(int(ungated[0]))) <= 0:
            return JobVerdict(QUEUE_FULL, task=int(ungated[0]))
        if len(ungated) and not session.has_action("backfill") and _asks_for_nothing(session, ungated):
            return JobVerdict(NO_BACKFILL)
        return JobVerdict(NOT_TRIED)

    def _view(self, verdict: JobVerdict, needed: Rows) -> tuple[NodeView | None, int, bool]:
        """The nodes as the task sees them that found none, that task, and whether other pods matter for it.

        (None, NO_ROW, False) when nodes do not matter.
        """
        looked = verdict.cls != NO_CLASS or verdict.task >= 0 or verdict.reason.code in _ABOUT_NODES
        if not looked or not len(needed):
            return None, NO_ROW, False
        table = self.session.snapshot.tasks
        task = verdict.task
        if task < 0:
            of_class = needed[table.cls[needed] == verdict.cls] if verdict.cls != NO_CLASS else needed[:0]
            task = int(of_class[0]) if len(of_class) else int(needed[0])
        seen = self._seen(task)
        if not _has_room(seen[0], needed, task):
            return seen
        # Of a gang of several kinds the cycle may have named one that has room: one that has none tells more.
        _, firsts = np.unique(table.cls[needed], return_index=True)
        others = (self._seen(int(needed[first])) for first in sorted(firsts.tolist()))
        return next((other for other in others if not _has_room(other[0], needed, other[1])), seen)

    def _seen(self, task: int) -> tuple[NodeView, int, bool]:
        """The nodes as a task sees them, that task, and whether other pods matter for it."""
        table = self.session.snapshot.tasks
        if self._live is None:
            self._live = self.session.live_tasks()
        cls = int(table.cls[task])
        if task in self._live and table.status[task] == TaskStatus.PENDING:
            return view_nodes(self.session, cls, task), task, True
        if cls not in self._views:
            self._views[cls] = view_nodes(self.session, cls, NO_ROW)
        return self._views[cls], task, False

    def _reasoned(self, job: int, standing: _Standing) -> Explanation:
        session, snapshot = self.session, self.session.snapshot
        record, verdict = snapshot.jobs.records[job], standing.verdict
        base = Explanation(
            job=record.id,
            queue=record.queue,
            state=standing.state,
            phase=JobPhase(int(snapshot.jobs.phase[job])).label,
            minimum=record.min_member,
            tasks=_task_counts(session, job),
        )
        if verdict is None:
            return base
        view, task, needed = standing.view, standing.task, standing.needed
        total = snapshot.axis.amounts(snapshot.classes.requests[snapshot.tasks.cls[needed], 0].sum(axis=0))
        queues = queue_pictures(session, job, frozenset(total) - {"pods"})
        why, placed = verdict.reason, verdict.placed
        needs: tuple[Need, ...] = ()
        if view is not None:
            placed = _fitting(view, needed, task)
            if why in (QUEUE_FULL, QUEUE_OVERUSED) and placed < len(needed):
                why = INSUFFICIENT if bound_by_cluster(session, queues, total) else why
            why = _dominant(why, view, everything_fits=placed >= len(needed))
            contested = self._contested_for(job)
            named = ((name, amount) for name, amount in total.items() if name != "pods")
            needs = tuple(Need(name, amount, view.free.get(name, 0), name in contested) for name, amount in named)
        return replace(
            base,
            code=why.code,
            text=why.text,
            detail=verdict.detail if why is verdict.reason else "",
            remedy=why.remedy,
            still_needed=len(needed),
            placed=placed,
            task=snapshot.tasks.ids[task] if task != NO_ROW else "",
            request={} if task == NO_ROW else _request_of(session, task),
            needs=needs,
            queues=queues,
            closest=None if view is None else view.closest,
            node_counts={} if view is None else view.counts,
            short_of={} if view is None else view.short_of,
            nowhere=() if view is None else view.nowhere,
            has_eligible_nodes=view is not None and bool(view.eligible.any()),
        )

    def _contested_for(self, job: int) -> frozenset[str]:
        queue = int(self.session.snapshot.jobs.queue[job])
        if queue not in self._contested:
            self._contested[queue] = contested_resources(self.session, job)
        return self._contested[queue]


def _facts(explanation: Explanation, view: NodeView) -> Iterator[str]:
    """What is missing in all, and which nodes have what against it."""
    if explanation.has_eligible_nodes:
        for need in explanation.needs:
            if need.missing:
                missing, free = amount_text(need.resource, need.missing), amount_text(need.resource, need.free)
                yield f"it needs {amount_text(need.resource, need.needed)}, {free} are free, {missing} missing"
    if explanation.closest and not explanation.nowhere:
        yield f"{explanation.closest.name} comes closest and lacks {amounts_text(explanation.closest.lacks)}"
    if len(explanation.node_counts) == 1 and explanation.code in explanation.node_counts:
        yield f"nodes: {named_nodes(view.examples[explanation.code], explanation.n_nodes)}"
    elif explanation.node_counts:
        yield f"nodes: {nodes_by_reason(explanation, view.examples)}"


def _dominant(said: Reason, view: NodeView, *, everything_fits: bool) -> Reason:
    """Return the reason that has to go first.

    The cycle stops at the first trouble; here every node was looked at. Where no node could ever take the task,
    nothing else matters.
    """
    found = dominant_reason(view)
    if found is not INSUFFICIENT:
        return found
    is_open = said is GANG_INCOMPLETE or (said is NOT_TRIED and not everything_fits)
    return found if is_open else said


def _alike(view: NodeView, needed: Rows, task: int) -> int:
    """How many of the needed tasks ask for what this one asks for."""
    classes = view.snapshot.tasks.cls
    return int(np.count_nonzero(classes[needed] == classes[task]))


def _fitting(view: NodeView, needed: Rows, task: int) -> int:
    """How many of the needed tasks like this one have room now, if they came alone."""
    return min(_alike(view, needed, task), view.room)


def _has_room(view: NodeView, needed: Rows, task: int) -> bool:
    """Whether all needed tasks like this one have room now, if they came alone."""
    return view.room >= _alike(view, needed, task)


def _pending(session: Session, job: int) -> Rows:
    tasks = session.snapshot.tasks_of(job)
    return session.sort_tasks(tasks[session.snapshot.tasks.status[tasks] == TaskStatus.PENDING])


def _asks_for_nothing(session: Session, tasks: Rows) -> bool:
    return bool((session.snapshot.tasks.flags[tasks] & BEST_EFFORT).all())


def _still_needed(session: Session, job: int, state: JobState, n_pending: int) -> int:
    """How many pending tasks matter: up to the minimum, or all of them once the gang runs."""
    if state is JobState.GROWING:
        return n_pending
    deficit = session.job_deficit(job)
    return min(max(deficit, 1), n_pending)


def _task_counts(session: Session, job: int) -> Named:
    counts = session.snapshot.jobs.counts[job]
    return {
        status.name.lower(): int(counts[status])
        for status in TaskStatus
        if status is not TaskStatus.GONE and counts[status]
    }


def _request_of(session: Session, task: int) -> Named:
    amounts = session.snapshot.axis.amounts(session.snapshot.request(task))
    return {name: amount for name, amount in amounts.items() if name != "pods"}
