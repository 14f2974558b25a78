"""Which domains are tried for a job or sub-group, in which order, and which are ruled out before any trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import boards_of
from muster.engine.constraints import Constraint
from muster.framework import Purpose, Session
from muster.kernels.placement import FUTURE
from muster.kernels.planes import ALLOCATABLE, PIPELINED, USED
from muster.snapshot import NO_ROW, Amounts, Mask, Rows, Snapshot, TopologyTable

ROOT = 0
_NO_DOMAINS: Rows = np.empty(0, np.intp)


def gradients(topology: TopologyTable, constraint: Constraint, scope: int, placed: int) -> list[Rows]:
    """Domains inside `scope` that hold the constraint, one gradient per tier, the lowest tier first.

    `placed` is the domain where part of the gang already sits: what is tried must stay, together with it, within
    the highest tier allowed.
    """
    if constraint.limit is None:
        return [np.array([scope], np.intp)]
    top = scope
    if placed != NO_ROW:
        around = topology.highest_within(placed, constraint.limit)
        if around == NO_ROW:
            return []
        if topology.contains(scope, around):
            top = around
        elif not topology.contains(around, scope):
            return []
    domains = topology.inside(top)
    domains = domains[(topology.tier[domains] <= constraint.limit) & (topology.hi[domains] > topology.lo[domains])]
    return [domains[topology.tier[domains] == tier] for tier in np.unique(topology.tier[domains])]


def search_gradients(
    session: Session, job: int, subgroup: int, scope: int, constraint: Constraint, placed: int
) -> list[Rows]:
    """The gradients to walk: a plugin's, less what breaks the constraint, else the tiers.

    A whole job is placed only in domains that plugins name for it, if they name any.
    """
    own: Sequence[Rows] = gradients(session.snapshot.topology, constraint, scope, placed)
    named = session.search_space(job, Purpose.ALLOCATE) if subgroup == NO_ROW else None
    own = own if named is None else _within(own, [named])
    proposed = session.domain_gradients(job, subgroup, scope)
    return [*own] if proposed is None else _within(proposed, own)


def _within(steps: Sequence[Rows], allowed: Sequence[Rows]) -> list[Rows]:
    """What is allowed of each step, steps of which nothing is left out."""
    every = np.concatenate([_NO_DOMAINS, *allowed])
    return [kept for kept in (step[np.isin(step, every)] for step in steps) if len(kept)]


def nearest_first(session: Session, steps: list[Rows], placed: int) -> list[Rows]:
    """Gradients for a job of which something is placed: what keeps it closest together first, then the lowest tier."""
    if placed == NO_ROW or not steps:
        return steps
    topology = session.snapshot.topology
    domains = np.concatenate(steps)
    distance = [distance_to(topology, placed, domain) for domain in domains.tolist()]
    keys = np.stack((distance, np.repeat(np.arange(len(steps)), [len(step) for step in steps])), axis=1)
    return [domains[(keys == key).all(axis=1)] for key in np.unique(keys, axis=0)]


def search_space(session: Session, job: int, constraint: Constraint, placed: int, purpose: Purpose) -> Rows:
    """Domains where a job may be placed: the first plugin's answer, else every valid one, lowest tier first."""
    answer = session.search_space(job, purpose)
    own = gradients(session.snapshot.topology, constraint, ROOT, placed)
    found: Rows = np.concatenate([_NO_DOMAINS, *(own if answer is None else _within([answer], own))])
    return found


def holding(session: Session, tasks: Rows, needed: int, domains: Rows) -> Rows:
    """Domains that can hold `needed` of the tasks, by slots of each class and, if all are needed, by totals.

    What is only promised to become free counts as free: nothing that could work is dropped.
    """
    if len(domains) == 0:
        return domains
    snapshot = session.snapshot
    kept = _room(session, tasks, domains) >= needed
    # Equal tasks have been counted exactly.
    if needed >= len(tasks) and len(count_classes(snapshot.tasks.cls[tasks])[0]) > 1:
        kept &= holding_by_totals(snapshot, tasks, snapshot.nodes.future_idle(), domains)
    return domains[kept]


def holding_by_totals(snapshot: Snapshot, tasks: Rows, free: Amounts, domains: Rows) -> Mask:
    """Which domains have, all their nodes together, as much free as the tasks ask for; `free`: amounts per node."""
    total = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0].sum(axis=0)
    rows = _rows_of(snapshot, domains)
    kept: Mask = (snapshot.topology.sums(np.maximum(free[rows], 0), domains, rows.start) >= total).all(axis=1)
    return kept


def roomiest(session: Session, tasks: Rows, domains: Rows, tried: Mapping[int, int]) -> tuple[int, int]:
    """The domain with room for most of the tasks, and for how many; (NO_ROW, 0) for no domains.

    `tried`: how many found room together in a domain where that has been tried; slots alone may promise more.
    """
    if len(domains) == 0 or len(tasks) == 0:
        return NO_ROW, 0
    room = _room(session, tasks, domains)
    for domain, found in tried.items():
        room[domains == domain] = np.minimum(room[domains == domain], found)
    best = int(np.argmax(room))
    return int(domains[best]), int(room[best])


def _room(session: Session, tasks: Rows, domains: Rows) -> NDArray[np.int64]:
    rows = _rows_of(session.snapshot, domains)
    return room_for(session, tasks, lambda slots: session.snapshot.topology.sums(slots, domains, rows.start), rows)


def room_for(session: Session, tasks: Rows, sums: Callable[[Rows], Amounts], rows: slice) -> NDArray[np.int64]:
    """For how many of the tasks each domain has slots, each class counted by itself.

    `sums` adds up what the nodes of the rows have, for each of some domains.
    """
    snapshot, boards, room = session.snapshot, boards_of(session), np.zeros((), np.int64)
    for cls, count in zip(*count_classes(snapshot.tasks.cls[tasks]), strict=True):
        slots = boards.get(int(cls), FUTURE).slots(snapshot, rows.start, rows.stop)
        room = room + np.minimum(sums(np.minimum(slots, count)), count)
    return room


def count_classes(classes: Rows) -> tuple[Rows, Rows]:
    """Distinct classes and how often each occurs; one class, the usual case, is not sorted for it."""
    if (classes == classes[0]).all():
        return classes[:1], np.array([len(classes)], np.intp)
    distinct, counts = np.unique(classes, return_counts=True)
    return distinct, counts.astype(np.intp)


def ranked(
    session: Session, job: int, subgroup: int, domains: Rows, placed: int, touched: Sequence[int] | None = None
) -> list[tuple[int, float]]:
    """Domains with their scores, the best first: near what is already placed, then by score, then in tree order.

    `touched`: how many smaller domains the tasks would touch in each; fewer come first.
    """
    if len(domains) == 0:
        return []
    scores = session.domain_scores(job, subgroup, domains)
    fewer = [0] * len(domains) if touched is None else touched
    distance = [0] * len(domains)
    if placed != NO_ROW:
        distance = [distance_to(session.snapshot.topology, placed, domain) for domain in domains.tolist()]
    order = sorted(range(len(domains)), key=lambda k: (distance[k], fewer[k], -scores[k], int(domains[k])))
    return [(int(domains[k]), float(scores[k])) for k in order]


def distance_to(topology: TopologyTable, placed: int, domain: int) -> int:
    """The tier of the smallest domain around both; 0 if nothing is placed yet."""
    return 0 if placed == NO_ROW else int(topology.tier[topology.lca(placed, domain)])


def domain_totals(snapshot: Snapshot, domains: Rows) -> tuple[Amounts, Amounts]:
    """Used (promised places included) and allocatable amounts of domains, int64[domains, resources] each."""
    rows, sums = _rows_of(snapshot, domains), snapshot.topology.sums
    state = snapshot.nodes.state[:, rows]
    return sums(state[USED] + state[PIPELINED], domains, rows.start), sums(state[ALLOCATABLE], domains, rows.start)


def domain_future_idle(snapshot: Snapshot, domains: Rows) -> Amounts:
    """What domains will have free once terminating pods are gone and promised places are taken."""
    rows = _rows_of(snapshot, domains)
    return snapshot.topology.sums(np.maximum(snapshot.nodes.future_idle(rows), 0), domains, rows.start)


def _rows_of(snapshot: Snapshot, domains: Rows) -> slice:
    """The node rows that the domains are made of, and what lies between them."""
    if len(domains) == 0:
        return slice(0, 0)
    return slice(int(snapshot.topology.lo[domains].min()), int(snapshot.topology.hi[domains].max()))
