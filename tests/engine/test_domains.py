"""Which domains are tried: tiers from below, within the constraint, near what is placed, with room for the gang."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.engine.constraints import UNCONSTRAINED, Constraint
from muster.engine.domains import gradients, holding, ranked, search_gradients, search_space
from muster.engine.placing import Door, Scope
from muster.engine.waiting import schedulable_tasks
from muster.framework import Arguments, Plugin, Purpose, Registry, SchedulerConfig, Session
from muster.framework.config import PluginOption
from muster.snapshot import NO_ROW, Mirror, Rows, TopologyTable
from muster.testing import node, queue
from tests.engine.stage import configured, domain_names, domain_row, job_row, open_session
from tests.snapshot.networks import SOFT, group, hard, hyper_node, members, racks

ROOT = "<cluster-top-hypernode>"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def document_tree() -> TopologyTable:
    """Two spines of two racks: HyperNode4 holds HyperNode0 and 1, HyperNode5 holds HyperNode2 and 3."""
    return open_session(
        [
            *(node(f"node{k}") for k in range(8)),
            *(hyper_node(f"HyperNode{k}", 1, nodes=[f"node{2 * k}", f"node{2 * k + 1}"]) for k in range(4)),
            hyper_node("HyperNode4", 2, inside=["HyperNode0", "HyperNode1"]),
            hyper_node("HyperNode5", 2, inside=["HyperNode2", "HyperNode3"]),
        ]
    ).snapshot.topology


def named(table: TopologyTable, steps: Sequence[Rows]) -> list[list[str]]:
    return [[table.names[row] for row in step] for step in steps]


# -- the document's example -----------------------------------------------------------------------------------------

LOW = ["HyperNode0", "HyperNode1", "HyperNode2", "HyperNode3"]
HIGH = ["HyperNode4", "HyperNode5"]


def test_a_job_of_tier_two_tries_racks_and_then_spines() -> None:
    table = document_tree()
    assert named(table, gradients(table, Constraint(2), 0, NO_ROW)) == [LOW, HIGH]


def test_a_sub_group_of_tier_one_tries_racks_alone_and_those_of_the_job_s_domain_alone() -> None:
    table = document_tree()
    inside = table.index["HyperNode4"]
    assert named(table, gradients(table, Constraint(1), 0, NO_ROW)) == [LOW]
    assert named(table, gradients(table, Constraint(1), inside, NO_ROW)) == [["HyperNode0", "HyperNode1"]]


def test_without_a_constraint_there_is_one_gradient_of_the_whole_scope() -> None:
    table = document_tree()
    inside = table.index["HyperNode5"]
    assert named(table, gradients(table, UNCONSTRAINED, 0, NO_ROW)) == [[ROOT]]
    assert named(table, gradients(table, UNCONSTRAINED, inside, NO_ROW)) == [["HyperNode5"]]


@pytest.mark.parametrize("limit", [3, 9])
def test_a_limit_at_the_root_or_above_ends_at_the_root(limit: int) -> None:
    table = document_tree()
    assert named(table, gradients(table, Constraint(limit), 0, NO_ROW)) == [LOW, HIGH, [ROOT]]


def test_a_limit_below_every_tier_leaves_nothing() -> None:
    assert gradients(document_tree(), Constraint(0), 0, NO_ROW) == []


@pytest.mark.parametrize(
    ("placed", "limit", "scope", "expected"),
    [
        ("HyperNode1", 2, ROOT, [["HyperNode0", "HyperNode1"], ["HyperNode4"]]),
        ("HyperNode1", 1, ROOT, [["HyperNode1"]]),
        ("HyperNode4", 2, ROOT, [["HyperNode0", "HyperNode1"], ["HyperNode4"]]),
        ("HyperNode4", 1, ROOT, []),
        (ROOT, 2, ROOT, []),
        (ROOT, 3, ROOT, [LOW, HIGH, [ROOT]]),
        ("HyperNode1", 2, "HyperNode4", [["HyperNode0", "HyperNode1"], ["HyperNode4"]]),
        ("HyperNode1", 2, "HyperNode0", [["HyperNode0"]]),
        ("HyperNode1", 1, "HyperNode0", []),
        ("HyperNode1", 2, "HyperNode5", []),
        ("HyperNode1", 3, "HyperNode5", [["HyperNode2", "HyperNode3"], ["HyperNode5"]]),
    ],
)
def test_what_is_tried_stays_with_what_is_placed_within_the_tier(
    placed: str, limit: int, scope: str, expected: list[list[str]]
) -> None:
    table = document_tree()
    steps = gradients(table, Constraint(limit), table.index[scope], table.index[placed])
    assert named(table, steps) == expected


def test_domains_without_nodes_are_not_tried_and_uneven_trees_go_by_tier() -> None:
    table = open_session(
        [
            *racks({"s0": [1, 0]}),
            node("x"),
            node("y"),
            hyper_node("flat", 2, nodes=["x"]),
            hyper_node("odd", 4, inside=["flat"], nodes=["y"]),
        ]
    ).snapshot.topology
    assert named(table, gradients(table, Constraint(4), 0, NO_ROW)) == [["s0-r0"], ["flat", "s0"], ["odd"]]


# -- plugins' word --------------------------------------------------------------------------------------------------


class Pointer(Plugin):
    """Answers what a test tells it to."""

    name = "pointer"
    steps: Sequence[Rows] | None = None
    space: Rows | None = None
    asked: list[Purpose]

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.asked = []

    def domain_gradients(self, job: int, subgroup: int, scope: int) -> Sequence[Rows] | None:
        return self.steps

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        self.asked.append(purpose)
        return self.space


def pointed(*objects: KubeObject) -> tuple[Session, Pointer]:
    mirror = Mirror()
    for item in (*objects, queue("default")):
        mirror.upsert(item)
    config = SchedulerConfig((), ((PluginOption("pointer"),),))
    session = Session(mirror.snapshot(), config, Registry.of([Pointer], []))
    plugin = session.plugins["pointer"]
    assert isinstance(plugin, Pointer)
    return session, plugin


def rows(session: Session, *names: str) -> Rows:
    return np.array([domain_row(session, name) for name in names], np.intp)


def test_a_plugin_chooses_the_gradients_but_cannot_break_the_constraint() -> None:
    session, plugin = pointed(*racks({"s0": [1, 1], "s1": [1]}), group("job", 1, hard(1)))
    job = job_row(session, "job")

    def tried() -> list[list[str]]:
        steps = search_gradients(session, job, NO_ROW, 0, Constraint(1), NO_ROW)
        return named(session.snapshot.topology, steps)

    assert tried() == [["s0-r0", "s0-r1", "s1-r0"]]
    plugin.steps = [rows(session, "s0", "s1-r0"), rows(session, ROOT), rows(session, "s0-r0")]
    assert tried() == [["s1-r0"], ["s0-r0"]]
    plugin.steps = []
    assert tried() == [["s0-r0", "s0-r1", "s1-r0"]]


@pytest.mark.parametrize("purpose", list(Purpose))
def test_the_search_space_is_a_plugin_s_within_the_constraint_or_every_valid_domain(purpose: Purpose) -> None:
    session, plugin = pointed(*racks({"s0": [1, 1], "s1": [1]}), group("job", 1, hard(2)))
    job = job_row(session, "job")

    def space(limit: int | None = 2) -> list[str]:
        return domain_names(session, search_space(session, job, Constraint(limit), NO_ROW, purpose))

    assert space() == ["s0-r0", "s0-r1", "s1-r0", "s0", "s1"]
    assert space(None) == [ROOT]
    assert space(0) == []
    plugin.space = rows(session, "s1", ROOT, "s0-r1")
    assert space() == ["s1", "s0-r1"]
    plugin.space = rows(session)
    assert space() == ["s0-r0", "s0-r1", "s1-r0", "s0", "s1"]
    assert set(plugin.asked) == {purpose}


def test_the_search_space_of_evictions_is_small_domains_first_then_least_missing() -> None:
    session = open_session(
        [
            *racks({"s0": [1, 1], "s1": [2]}),
            group("full", 1),
            *members("full", 3, on=["s0-r0-n0", "s0-r1-n0", "s1-r0-n0"], gpu=6),
            group("job", 1, hard(2)),
            *members("job", 2, gpu=4),
        ]
    )
    job = job_row(session, "job")
    found = search_space(session, job, Constraint(2), NO_ROW, Purpose.EVICT)
    assert domain_names(session, found) == ["s1-r0", "s0-r0", "s0-r1", "s0", "s1"]
    every = search_space(session, job, Constraint(2), NO_ROW, Purpose.ALLOCATE)
    assert domain_names(session, every) == ["s0-r0", "s0-r1", "s1-r0", "s0", "s1"]


# -- pruning --------------------------------------------------------------------------------------------------------


def held(session: Session, job: str, needed: int) -> list[str]:
    tasks = schedulable_tasks(session)
    own = tasks[session.snapshot.tasks.job[tasks] == job_row(session, job)]
    domains = session.snapshot.topology.inside(0)
    return domain_names(session, holding(session, own, needed, domains))


def test_a_domain_is_kept_when_its_nodes_have_slots_enough_not_when_its_total_would_do() -> None:
    objects = [
        *racks({"s0": [2], "s1": [2, 2]}, gpu=4),
        group("busy", 1),
        *members("busy", 2, on=["s0-r0-n0", "s0-r0-n1"], gpu=2),
        group("job", 1, hard(2)),
        *members("job", 3, gpu=3),
    ]
    session = open_session(objects)
    assert held(session, "job", 1) == [ROOT, "s1", "s1-r0", "s1-r1"]
    assert held(session, "job", 3) == [ROOT, "s1"]
    assert held(session, "job", 5) == []


def test_room_that_is_being_released_counts() -> None:
    leaving = members("old", 1, on=["s0-r0-n0"], gpu=8)
    leaving[0].metadata.deletion_timestamp = NOW
    session = open_session([*racks({"s0": [1]}), group("old", 1), *leaving, group("job", 1), *members("job", 1, gpu=8)])
    assert held(session, "job", 1) == [ROOT, "s0", "s0-r0"]


def test_nodes_where_the_class_may_not_go_have_no_slots() -> None:
    session = open_session(
        [
            *racks({"s0": [1], "s1": [1]}),
            group("job", 1),
            *members("job", 1, gpu=1, selector={"kubernetes.io/hostname": "s1-r0-n0"}),
        ]
    )
    assert held(session, "job", 1) == [ROOT, "s1", "s1-r0"]


def test_no_domains_are_no_domains() -> None:
    session = open_session([*racks({"s0": [1]}), group("job", 1), *members("job", 1, gpu=1)])
    tasks = schedulable_tasks(session)
    nothing = np.empty(0, np.intp)
    assert len(holding(session, tasks, 1, nothing)) == 0
    assert ranked(session, 0, NO_ROW, nothing, NO_ROW) == []


@st.composite
def crowded(draw: st.DrawFn) -> list[KubeObject]:
    """A tree with some running pods, and a pending gang of one or two classes."""
    sizes = draw(st.lists(st.lists(st.integers(1, 2), min_size=1, max_size=2), min_size=1, max_size=2))
    tree = racks({f"s{k}": racked for k, racked in enumerate(sizes)}, gpu=4)
    names = [item.name for item in tree if item.kind == "Node"]
    taken = draw(st.lists(st.tuples(st.sampled_from(names), st.integers(1, 3), st.booleans()), max_size=4))
    busy: list[KubeObject] = [group("busy", 1)]
    for k, (name, gpu, leaves) in enumerate(taken):
        (made,) = members("busy", 1, on=[name], first=k, gpu=gpu)
        if leaves:
            made.metadata.deletion_timestamp = NOW
        busy.append(made)
    counts = draw(st.tuples(st.integers(1, 5), st.integers(0, 3)))
    pending = [
        *members("job", counts[0], gpu=draw(st.integers(1, 4)), role="a"),
        *members("job", counts[1], first=10, gpu=draw(st.integers(1, 4)), role="b"),
    ]
    minimum = draw(st.integers(1, len(pending)))
    return [*tree, *busy, group("job", minimum, SOFT), *pending]


@given(crowded())
def test_no_domain_is_dropped_in_which_the_gang_could_be_placed(objects: list[KubeObject]) -> None:
    session = open_session(objects, configured("gang", "predicates"))
    job = job_row(session, "job")
    door = Door(session)
    tasks = schedulable_tasks(session)
    tasks = tasks[session.snapshot.tasks.job[tasks] == job]
    domains = session.snapshot.topology.inside(0)
    needed = max(1, session.job_deficit(job))
    kept = set(holding(session, tasks, needed, domains).tolist())
    for domain in domains.tolist():
        statement = session.statement()
        works = door.place(job, tasks, statement, Scope(domain))
        statement.rollback()
        assert domain in kept or not works


# -- order ----------------------------------------------------------------------------------------------------------


def test_domains_near_to_what_is_placed_come_first_then_by_score_then_in_tree_order() -> None:
    session = open_session(
        [
            *racks({"s0": [1, 1], "s1": [1, 1]}),
            group("busy", 1),
            *members("busy", 2, on=["s1-r1-n0", "s1-r1-n0"], gpu=2),
            group("job", 1, hard(2)),
            *members("job", 1, gpu=1),
        ]
    )
    job, table = job_row(session, "job"), session.snapshot.topology
    low = rows(session, "s0-r0", "s0-r1", "s1-r0", "s1-r1")
    free = [table.names[row] for row, _ in ranked(session, job, NO_ROW, low, NO_ROW)]
    near = [table.names[row] for row, _ in ranked(session, job, NO_ROW, low, table.index["s0-r1"])]
    assert free == ["s1-r1", "s0-r0", "s0-r1", "s1-r0"]
    assert near == ["s0-r1", "s0-r0", "s1-r1", "s1-r0"]
