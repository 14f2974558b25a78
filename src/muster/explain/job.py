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
from muster.explain.advice import advise
from muster.explain.model import Explanation, JobState, Placement, RoleCount, Shield
from muster.explain.obstacles import held_by_others, holders, node_groups, why_nobody_leaves
from muster.explain.why import Whys
from muster.explain.words import joined
from muster.framework import Eviction, Session, points
from muster.snapshot import NO_ROW, READY_STATUSES, Rows, Snapshot, TaskStatus


def explain_job(session: Session, job: int, now: float | None = None) -> Explanation:
    """Explain the state of one job (a row of the session's snapshot), as of the session or of a later `now`."""
    snapshot = session.snapshot
    tasks = snapshot.tasks_of(job)
    base, view, needed = Whys(session).look(job)
    base = replace(
        base,
        roles=_roles(session, job),
        placements=_placements(session, tasks, session.now if now is None else now),
        shields=_shields(session, job, session.now if now is None else now),
    )
    if base.state in (JobState.RUNNING, JobState.FINISHED):
        return base
    pods = [snapshot.tasks.pods[task] for task in needed.tolist() if snapshot.tasks.ids[task] == base.task]
    scarce = _scarcest(base)
    explanation = replace(
        base,
        selector=pods[0].spec.node_selector if pods else {},
        groups=() if view is None else node_groups(view),
        holders=holders(view, scarce, job) if view is not None and scarce else (),
    )
    explanation = replace(
        explanation,
        held_by_others=held_by_others(session, explanation.lacking),
        no_evictions=why_nobody_leaves(session, job, explanation),
    )
    return advise(explanation, view, needed)


def _scarcest(explanation: Explanation) -> str:
    """The resource that is most of the trouble: short in total, else short on most nodes, else on the closest."""
    short = [need for need in explanation.needs if need.missing]
    if short:
        return max(short, key=lambda need: (need.missing / need.needed, need.resource)).resource
    lacks = sorted(explanation.closest.lacks, reverse=True) if explanation.closest else []
    return next(iter((*explanation.short_of, *lacks)), "")


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


def find_job(snapshot: Snapshot, wanted: str) -> int:
    """Return the row of the job. Raises UserError with close matches, or with all candidates."""
    names = _owners(snapshot) | _names(snapshot)
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
    return wanted in _owners(snapshot) | _names(snapshot) or bool(find_pods(snapshot, wanted))


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


def _owners(snapshot: Snapshot) -> dict[str, list[int]]:
    """What users have made, as a Job or a PyTorchJob, of which controllers made groups, with the rows it may mean."""
    jobs = snapshot.jobs
    names: dict[str, list[int]] = {}
    for row in np.flatnonzero(jobs.live).tolist():
        record = jobs.records[row]
        owners = () if record.source is None else record.source.metadata.owner_references
        for name in {owner.name for owner in owners if owner.controller}:
            names.setdefault(name, []).append(row)
            names.setdefault(f"{record.namespace}/{name}", []).append(row)
    return names


def _listed(known: list[str]) -> str:
    if not known:
        return "the input holds no job"
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    return f"jobs: {', '.join(known[:10])}{more}"
