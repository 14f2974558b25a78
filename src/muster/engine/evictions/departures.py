"""Evictions that nobody profits from: what is left of gangs that are broken for good, and pods that have to leave.

A gang is broken when some of its pods run, but too few for what it is made for. A pod that is leaving does not count as
one that runs; a task that is promised a place does, as the gang is on its way to be whole again. Whatever is said, pods
of other schedulers, pods that the cluster itself depends on, pods that asked to be spared and those whose
PodDisruptionBudget has no disruption left stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.candidates import on_node, willing
from muster.engine.evictions.pipeline import send_away
from muster.engine.evictions.simulation import VictimRecord
from muster.engine.evictions.surplus import job_surplus, ready_counts
from muster.framework import Session
from muster.snapshot import CRITICAL, FOREIGN, NO_ROW, PREEMPTABLE, Mask, Rows, Snapshot, TaskStatus
from muster.snapshot.records import refuses_eviction

#: The cluster knows of these; tasks placed in this very cycle cannot make a gang broken, or be told to leave.
_RUNNING: Final = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
#: Key of the workspace: the action that has seen to those who must leave.
_DONE: Final = "departures"


def stale_jobs(snapshot: Snapshot) -> Mask:
    """Jobs that run below a minimum: their own, of a role, of sub-groups.

    Never those of which a pod has succeeded, or of which something was put aside.
    """
    jobs = snapshot.jobs
    # One column after the other: taking several at once copies them first, and this is asked in every cycle.
    runs = np.logical_or.reduce([jobs.counts[:, status] > 0 for status in _RUNNING])
    finishing = jobs.counts[:, TaskStatus.SUCCEEDED] > 0
    suspects: Mask = jobs.live & runs & ~finishing
    # A job with one minimum of its own is broken where that is not there; for others more has to be looked at.
    suspects &= ~jobs.is_plain | (ready_counts(jobs.counts, promised=True) < jobs.min_member)
    suspects[list(jobs.aside)] = False  # who is missing may be among what cannot be read
    if not suspects.any():
        return np.zeros(len(jobs), np.bool_)
    return suspects & (job_surplus(snapshot, promised=True) < 0)


@dataclass(frozen=True, slots=True)
class _Stale:
    """The answer of `stale_jobs`, while nothing more is touched."""

    touched: int
    jobs: Mask


def stale_jobs_now(session: Session) -> Mask:
    """As `stale_jobs`, of a session as it stands; asked by the last action, and again for what is written down."""
    known, touched = session.workspace.get("stale"), session.snapshot.touched
    if not isinstance(known, _Stale) or known.touched != touched:
        known = session.workspace["stale"] = _Stale(touched, stale_jobs(session.snapshot))
    return known.jobs


def end_stale_gangs(session: Session, action: str, default_grace: float, *, ignores_budgets: bool) -> None:
    """Evict what is left of every gang that has been broken for longer than its grace period; negative: never."""
    records = session.snapshot.jobs.records
    budgets = Budgets(session, ignores_budgets)
    for job in sorted(np.flatnonzero(stale_jobs_now(session)).tolist(), key=lambda job: records[job].id):
        own, since = records[job].stale_grace, records[job].stale_since
        grace = default_grace if own is None else own
        # A gang without a stamp broke just now.
        since = session.now if since is None else min(since, session.now)
        if grace >= 0 and session.now - since >= grace:
            _end(session, job, budgets, action, session.now - since, grace)
        elif grace >= 0:
            session.look_again(since + grace)


def _end(session: Session, job: int, budgets: Budgets, action: str, broken_for: float, grace: float) -> None:
    """Evict all that is left, or nothing where a mark, a budget or the cluster itself keeps a pod of it.

    Jobs that are not preemptible and minimum runtimes do not stop it: nobody profits from what is broken.
    """
    snapshot, record = session.snapshot, session.snapshot.jobs.records[job]
    tasks = _remaining(snapshot, job)
    marked = (snapshot.tasks.flags[tasks] & (CRITICAL | PREEMPTABLE)) != PREEMPTABLE
    if marked.any() or refuses_eviction(record.annotations, record.labels) or not budgets.allowed(tasks).all():
        return
    seconds = round(broken_for, 3)
    facts = {"job": record.id, "brokenSeconds": seconds, "graceSeconds": grace, "pods": len(tasks)}
    text = f"its gang has been broken for {seconds:g}s (grace {grace:g}s)"
    send_away(session, tasks, action, VictimRecord("stale", text, facts))


def _remaining(snapshot: Snapshot, job: int) -> Rows:
    """What is left of a broken gang, in order of names."""
    table = snapshot.tasks
    own = snapshot.tasks_of(job)
    here = np.isin(table.status[own], _RUNNING) & (table.node[own] != NO_ROW) & ((table.flags[own] & FOREIGN) == 0)
    return np.array(sorted(own[here].tolist(), key=lambda task: table.ids[task]), np.intp)


def evict_departures(session: Session, action: str, *, ignores_budgets: bool) -> None:
    """Evict whom plugins name, as far as they may be evicted at all; once per session."""
    if session.workspace.setdefault(_DONE, action) != action:
        return
    budgets = Budgets(session, ignores_budgets)
    for departure in session.must_leave():
        may_go = on_node(session.snapshot) & willing(session.snapshot)  # those that left with an earlier one are gone
        tasks = departure.tasks[may_go[departure.tasks]]
        tasks = tasks[budgets.allowed(tasks)]
        if len(tasks):
            send_away(session, tasks, action, VictimRecord("must-leave", departure.why, {"reason": departure.why}))
