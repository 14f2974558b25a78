"""One explanation of one job, from what the session knows after its actions have run.

Reads the session's snapshot and verdicts and asks plugins again where the cycle kept no answer (nodes, queues); changes
nothing. Which job a user means is found by name, by namespace and name, or by its id; a lone pod is a job too, with the
id "namespace/pod/name", and is found by the pod's name as well.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from muster.api import UserError
from muster.engine.waiting import gated_verdict, has_promise, why_not_schedulable
from muster.explain.advice import advise
from muster.explain.model import (
    ClosestNode,
    Explanation,
    Holder,
    JobState,
    Named,
    Need,
    NodeGroup,
    Placement,
    RoleCount,
    Shield,
)
from muster.explain.obstacles import (
    NodeView,
    bound_by_cluster,
    closest_node,
    contested_resources,
    dominant_reason,
    free_amounts,
    held_by_others,
    holders,
    node_groups,
    queue_pictures,
    view_nodes,
    why_nobody_leaves,
)
from muster.explain.words import joined
from muster.framework import NO_CLASS, Eviction, JobVerdict, Reason, Session, points
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
from muster.snapshot import GATED as GATED_TASK
from muster.snapshot import NO_ROW, READY_STATUSES, JobPhase, Rows, Snapshot, TaskStatus

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


def explain_job(session: Session, job: int, now: float | None = None) -> Explanation:
    """Explain the state of one job (a row of the session's snapshot), as of the session or of a later `now`."""
    snapshot = session.snapshot
    record = snapshot.jobs.records[job]
    tasks = np.flatnonzero(snapshot.tasks.job == job).astype(np.int32)
    pending = session.sort_tasks(tasks[snapshot.tasks.status[tasks] == TaskStatus.PENDING])
    state = _state(session, job, len(pending))
    phase = JobPhase(int(snapshot.jobs.phase[job])).label
    base = Explanation(
        job=record.id,
        queue=record.queue,
        state=state,
        phase=phase,
        minimum=record.min_member,
        tasks=_task_counts(session, job),
        roles=_roles(session, job),
        placements=_placements(session, tasks, session.now if now is None else now),
        shields=_shields(session, job, session.now if now is None else now),
    )
    if state in (JobState.RUNNING, JobState.FINISHED):
        return base
    return _with_verdict(session, job, base, pending)


def job_verdict(session: Session, job: int, pending: Rows) -> JobVerdict:
    """Return what the cycle said about a job, or what follows from the objects if it said nothing."""
    if has_promise(session, job):
        return JobVerdict(PROMISED)
    known = session.verdicts.get(job) or why_not_schedulable(session, job)
    if known is not None and known.reason is not NOT_TRIED:
        return known
    snapshot = session.snapshot
    gated = snapshot.tasks.flags[pending] & GATED_TASK
    if len(pending) and gated.all():
        return gated_verdict(session, job)
    queue = int(snapshot.jobs.queue[job])
    if queue != NO_ROW and session.overused(queue):
        return JobVerdict(QUEUE_OVERUSED)
    ungated = pending[gated == 0]
    if queue != NO_ROW and len(ungated) and session.queue_slots(queue, snapshot.request(int(ungated[0]))) <= 0:
        return JobVerdict(QUEUE_FULL, task=int(ungated[0]))
    return JobVerdict(NOT_TRIED)


def _with_verdict(session: Session, job: int, base: Explanation, pending: Rows) -> Explanation:
    snapshot = session.snapshot
    verdict = job_verdict(session, job, pending)
    needed = pending[: _still_needed(session, job, base.state, len(pending))]
    total = _total_request(session, needed)
    view, task = _view(session, verdict, needed)
    request = _request_of(session, task)
    queues = queue_pictures(session, job, frozenset(total) - {"pods"})
    why = verdict.reason
    if view is not None:
        placed = _fitting(view, needed, task)
        if why in (QUEUE_FULL, QUEUE_OVERUSED) and placed < len(needed):
            why = INSUFFICIENT if bound_by_cluster(session, queues, total) else why
        why = _dominant(why, view)
    else:
        placed = verdict.placed
    needs, groups, closest, held = _node_facts(view, total, job, contested_resources(session, job))
    explanation = replace(
        base,
        code=why.code,
        text=why.text,
        detail=verdict.detail,
        remedy=why.remedy,
        still_needed=len(needed),
        placed=placed,
        task=snapshot.tasks.ids[task] if task != NO_ROW else "",
        request=request,
        selector=snapshot.tasks.pods[task].spec.node_selector if task != NO_ROW else {},
        needs=needs,
        queues=queues,
        groups=groups,
        closest=closest,
        holders=held,
        has_eligible_nodes=view is not None and bool(view.eligible.any()),
    )
    explanation = replace(
        explanation,
        held_by_others=held_by_others(session, explanation.lacking),
        no_evictions=why_nobody_leaves(session, job, explanation),
    )
    return advise(explanation, view, needed)


def _dominant(said: Reason, view: NodeView | None) -> Reason:
    """Return the reason that has to go first.

    The cycle stops at the first trouble; here every node was looked at. Where no node could ever take the task,
    nothing else matters.
    """
    if view is None:
        return said
    found = dominant_reason(view)
    if found is not INSUFFICIENT or said in (GANG_INCOMPLETE, NOT_TRIED):
        return found
    return said


def _fitting(view: NodeView, needed: Rows, task: int) -> int:
    """How many of the needed tasks like this one have room now, if they came alone."""
    classes = view.snapshot.tasks.cls
    alike = int(np.count_nonzero(classes[needed] == classes[task]))
    return min(alike, int(min(view.slots().sum(), alike)))


def _node_facts(
    view: NodeView | None, needed: Named, job: int, contested: frozenset[str]
) -> tuple[tuple[Need, ...], tuple[NodeGroup, ...], ClosestNode | None, tuple[Holder, ...]]:
    """Compare what is needed with what the nodes have."""
    if view is None:
        return (), (), None, ()
    free = free_amounts(view)
    needs = tuple(
        Need(name, amount, free.get(name, 0), name in contested) for name, amount in needed.items() if name != "pods"
    )
    closest = closest_node(view)
    scarce = _scarcest(needs, closest)
    return needs, node_groups(view), closest, holders(view, scarce, job) if scarce else ()


def _scarcest(needs: tuple[Need, ...], closest: ClosestNode | None) -> str:
    """The resource that is most of the trouble: short in total, else short on the closest node."""
    short = [need for need in needs if need.missing]
    if short:
        return max(short, key=lambda need: (need.missing / need.needed, need.resource)).resource
    lacks = sorted(closest.lacks) if closest else []
    return lacks[-1] if lacks else ""


def _view(session: Session, verdict: JobVerdict, needed: Rows) -> tuple[NodeView | None, int]:
    """Look at the nodes as the task that found none does; (None, NO_ROW) when nodes do not matter."""
    looked = verdict.cls != NO_CLASS or verdict.task >= 0 or verdict.reason.code in _ABOUT_NODES
    if not looked or not len(needed):
        return None, NO_ROW
    table = session.snapshot.tasks
    task = verdict.task
    if task < 0:
        of_class = needed[table.cls[needed] == verdict.cls] if verdict.cls != NO_CLASS else needed[:0]
        task = int(of_class[0]) if len(of_class) else int(needed[0])
    live = task if task in session.live_tasks() and table.status[task] == TaskStatus.PENDING else NO_ROW
    return view_nodes(session, int(table.cls[task]), live), task


def _still_needed(session: Session, job: int, state: JobState, n_pending: int) -> int:
    """How many pending tasks matter: up to the minimum, or all of them once the gang runs."""
    if state is JobState.GROWING:
        return n_pending
    deficit = session.job_deficit(job)
    return min(max(deficit, 1), n_pending)


def _state(session: Session, job: int, n_pending: int) -> JobState:
    jobs = session.snapshot.jobs
    counts = jobs.counts[job]
    if jobs.allocated_count(job) or counts[TaskStatus.PIPELINED] or counts[TaskStatus.RELEASING]:
        if session.job_deficit(job) > 0:
            return JobState.WAITING
        return JobState.GROWING if n_pending else JobState.RUNNING
    ended = int(counts[TaskStatus.SUCCEEDED]) + int(counts[TaskStatus.FAILED])
    return JobState.FINISHED if ended and not n_pending else JobState.WAITING


def _task_counts(session: Session, job: int) -> Named:
    counts = session.snapshot.jobs.counts[job]
    return {
        status.name.lower(): int(counts[status])
        for status in TaskStatus
        if status is not TaskStatus.GONE and counts[status]
    }


def _roles(session: Session, job: int) -> tuple[RoleCount, ...]:
    """Roles with a minimum; the counters of a role are those of a job."""
    snapshot = session.snapshot
    table = snapshot.roles
    found = [
        RoleCount(table.names[row], int(table.minimum[row]), sum(int(table.counts[row, s]) for s in READY_STATUSES))
        for row in snapshot.jobs.roles[job]
        if table.minimum[row] > 0
    ]
    return tuple(sorted(found, key=lambda role: role.name))


def _placements(session: Session, tasks: Rows, now: float) -> tuple[Placement, ...]:
    table, nodes = session.snapshot.tasks, session.snapshot.nodes
    found = []
    for row in tasks[table.node[tasks] != NO_ROW]:
        started = table.pods[row].status.start_time
        status = TaskStatus(int(table.status[row]))
        if status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED):
            continue
        running_s = None if started is None else max(0.0, now - started.timestamp())
        found.append(Placement(table.ids[row], nodes.names[table.node[row]], status.label, running_s))
    return tuple(sorted(found, key=lambda placement: placement.pod))


def _shields(session: Session, job: int, now: float) -> tuple[Shield, ...]:
    """From whom the minimum of a gang that runs is protected; a gang that holds nothing has nothing to lose."""
    if not session.snapshot.jobs.allocated_count(job):
        return ()
    return tuple(
        Shield(found.kind is Eviction.PREEMPT, found.queues, round(found.seconds, 3))
        for found in session.ask(points.PROTECTIONS, job, now)
    )


def _total_request(session: Session, tasks: Rows) -> Named:
    snapshot = session.snapshot
    return snapshot.axis.amounts(snapshot.classes.requests[snapshot.tasks.cls[tasks], 0].sum(axis=0))


def _request_of(session: Session, task: int) -> Named:
    if task == NO_ROW:
        return {}
    amounts = session.snapshot.axis.amounts(session.snapshot.request(task))
    return {name: amount for name, amount in amounts.items() if name != "pods"}


def find_job(snapshot: Snapshot, wanted: str) -> int:
    """Return the row of the job. Raises UserError with close matches, or with all candidates."""
    names = _names(snapshot)
    rows = names.get(wanted, [])
    if len(rows) == 1:
        return rows[0]
    ids = sorted(snapshot.jobs.records[row].id for row in rows)
    if ids:
        raise UserError(f"job {wanted!r} is ambiguous; say which one: {', '.join(ids)}")
    close = sorted(
        {
            snapshot.jobs.records[row].id
            for name in get_close_matches(wanted, sorted(names), n=6, cutoff=0.5)
            for row in names[name]
        }
    )
    if close:
        raise UserError(f"there is no job {wanted!r}; did you mean {joined(close[:5], 'or')}?")
    known = sorted(snapshot.jobs.records[int(row)].id for row in np.flatnonzero(snapshot.jobs.live))
    raise UserError(f"there is no job {wanted!r}; {_listed(known)}")


def has_job(snapshot: Snapshot, wanted: str) -> bool:
    """Whether a name means a job, or pods of one."""
    return wanted in _names(snapshot) or bool(find_pods(snapshot, wanted))


def find_pods(snapshot: Snapshot, wanted: str) -> list[int]:
    """Rows of the pods that a name means, if it means pods of one job and no job; else none."""
    if wanted in _names(snapshot):
        return []
    named = [row for row, pod in enumerate(snapshot.tasks.ids) if wanted in (pod, pod.partition("/")[2])]
    rows = [row for row in named if snapshot.tasks.job[row] != NO_ROW and snapshot.tasks.status[row] != TaskStatus.GONE]
    return rows if len({int(snapshot.tasks.job[row]) for row in rows}) == 1 else []


def _names(snapshot: Snapshot) -> dict[str, list[int]]:
    """Every way to name a job, with the rows it may mean; an id means its own job only."""
    jobs = snapshot.jobs
    live = [int(row) for row in np.flatnonzero(jobs.live)]
    names: dict[str, list[int]] = {}
    for row in live:
        record = jobs.records[row]
        for name in sorted({record.name, f"{record.namespace}/{record.name}"}):
            names.setdefault(name, []).append(row)
    return names | {jobs.records[row].id: [row] for row in live}


def _listed(known: list[str]) -> str:
    if not known:
        return "the input holds no job"
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    return f"jobs: {', '.join(known[:10])}{more}"
