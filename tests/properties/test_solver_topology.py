"""The solver with gangs bound to HyperNodes, as beneficiaries and as victims: books and constraints hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.framework import Session
from muster.snapshot import NO_ROW, TaskStatus
from muster.testing import queue
from tests.engine.evictions.solver.solver_stage import CLASSES, PRIORITIES, evicted, kai, open_session, run
from tests.snapshot.networks import group, hard, members, parts, racks
from tests.snapshot.test_statement_moves import recount

RACKS = {"s0": [2, 1], "s1": [2]}
NODES = ["s0-r0-n0", "s0-r0-n1", "s0-r1-n0", "s1-r0-n0", "s1-r0-n1"]
GPUS = 4


@st.composite
def worlds(draw: st.DrawFn) -> list[KubeObject]:
    objects: list[KubeObject] = [*CLASSES, queue("q0"), queue("q1"), *racks(RACKS, gpu=GPUS)]
    free = dict.fromkeys(NODES, GPUS)
    for k in range(draw(st.integers(2, 6))):
        name, gpus, count = f"j{k}", draw(st.integers(1, 3)), draw(st.integers(1, 3))
        tier = draw(st.sampled_from([None, 1, 2]))
        priority = draw(st.sampled_from(sorted(PRIORITIES)))
        span = {None: "", 2: draw(st.sampled_from(["s0", "s1"])), 1: draw(st.sampled_from(["s0-r0", "s0-r1", "s1-r0"]))}
        places: list[str] = []
        for place in [node for node in NODES if node.startswith(span[tier])] if draw(st.booleans()) else []:
            while len(places) < count and free[place] >= gpus:
                free[place] -= gpus
                places.append(place)
        minimum = draw(st.integers(1, count))
        if 0 < len(places) < minimum:
            minimum = len(places)
        objects.append(
            group(
                name,
                minimum,
                None if tier is None else hard(tier),
                # Every pod is in the one sub-group, if there are any.
                [parts(1, topology=hard(1))] if tier == 1 and draw(st.booleans()) else [],
                queue=draw(st.sampled_from(["q0", "q1"])),
                priority_class=priority,
            )
        )
        objects += members(name, count, on=places, part="x", gpu=gpus, priority=PRIORITIES[priority])
    return objects


def check_constraints(session: Session) -> None:
    """Every gang with a hard constraint is within one domain of its tier, counting those that will come."""
    snapshot = session.snapshot
    for job, record in enumerate(snapshot.jobs.records):
        if record.topology is None or record.topology.highest_tier_allowed is None:
            continue
        own = snapshot.tasks_of(job)
        held = np.isin(snapshot.tasks.status[own], [TaskStatus.RUNNING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED])
        nodes = snapshot.tasks.node[own][held]
        nodes = nodes[nodes != NO_ROW]
        if len(nodes):
            domain = snapshot.topology.domain_of_nodes(nodes)
            assert snapshot.topology.tier[domain] <= record.topology.highest_tier_allowed, record.id


@pytest.mark.parametrize("action", ["consolidation", "reclaim", "preempt"])
@given(objects=worlds())
def test_gangs_stay_within_their_domains_and_the_books_in_order(action: str, objects: list[KubeObject]) -> None:
    session = open_session(objects, kai(action))
    run(session)
    event(f"commits: {bool(session.committed)}")
    recount(session.snapshot)
    check_constraints(session)
    nodes = session.snapshot.nodes
    assert (nodes.future_idle() >= 0).all()
    assert (nodes.idle() >= 0).all()
    for job in range(len(session.snapshot.jobs)):
        held = int(session.snapshot.jobs.counts[job, 1:6].sum())
        assert held == 0 or held >= session.snapshot.jobs.min_member[job]


def test_a_gang_that_is_broken_in_one_rack_leaves_nobody_behind_in_another() -> None:
    objects: list[KubeObject] = [*CLASSES, queue("q0"), *racks({"s0": [1, 1]}, gpu=GPUS)]
    objects += [group("victim", 2, hard(2), queue="q0", priority_class="low")]
    objects += members("victim", 3, on=["s0-r0-n0", "s0-r0-n0", "s0-r1-n0"], part="x", gpu=2, priority=10)
    objects += [group("holds", 1, queue="q0", priority_class="high")]
    objects += members("holds", 1, on=["s0-r1-n0"], part="x", gpu=2, priority=90)
    objects += [group("new", 1, hard(1), queue="q0", priority_class="high")]
    objects += members("new", 1, on=[], part="x", gpu=4, priority=90)
    session = open_session(objects, kai("preempt"))
    run(session)
    assert sorted(evicted(session)) == ["victim-x-0", "victim-x-1", "victim-x-2"]
