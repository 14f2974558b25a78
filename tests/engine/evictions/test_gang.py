"""The gang strategy from end to end: who is evicted, where, for whom, and who never is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from muster.api import KubeObject, Pod, PodGroup
from muster.api.names import PREEMPTABLE
from muster.engine.evictions.gang import clearing
from muster.engine.evictions.gang.strategy import BundleRecords
from muster.engine.evictions.simulation import VictimRecord, VictimRecords
from muster.framework import Eviction, Evictor, Plugin, PluginOption, Purpose, Registry, SchedulerConfig, Session
from muster.kernels.clearing import clear_nodes
from muster.scheduler.decisions import decisions_of
from muster.snapshot import Mirror, OperationKind, Rows
from muster.snapshot.messages import Evict, Nominate
from muster.testing import node, pod, pod_group, priority_class, queue
from tests.engine.evictions.eviction_stage import (
    PRIORITIES,
    REGISTRY,
    act,
    configured,
    evicted,
    never_preempting,
    promised,
    running,
    waiting,
)
from tests.engine.evictions.test_budgets import budget
from tests.snapshot.networks import group, hard, members, parts, racks

PREEMPT = configured("gangpreempt")


def topology_gang(name: str, pods: int, tier: int, **more: Any) -> list[KubeObject]:
    own = group(name, pods, hard(tier), priority_class="high")
    return [own, *members(name, pods, priority=1000, **more)]


def victims_of(session: Session) -> set[str]:
    """Jobs that lose pods."""
    return {name.rpartition("-")[0] for name in evicted(session)}


# -- the path ----------------------------------------------------------------------------------------------------


def test_evictions_and_promises_are_one_commit_and_become_decisions() -> None:
    session = act([node("n", gpu=8), *running("old", ["n"] * 2, gpu=4), *waiting("new", 1, gpu=8)], PREEMPT)
    assert [committed.action for committed in session.committed] == ["gangpreempt"]
    decisions = decisions_of(session)
    assert {(d.pod, d.beneficiary) for d in decisions if isinstance(d, Evict)} == {
        ("default/old-0", "default/new"),
        ("default/old-1", "default/new"),
    }
    assert [(d.pod, d.node) for d in decisions if isinstance(d, Nominate)] == [("default/new-0", "n")]


def test_a_gang_that_fits_evicts_nobody_and_keeps_its_places_for_the_cycle() -> None:
    session = act([node("n", gpu=8), *running("old", ["n"], gpu=4), *waiting("new", 1, gpu=4)], PREEMPT)
    assert (evicted(session), promised(session)) == ([], {"new-0": "n"})
    assert decisions_of(session) == []


def test_a_gang_that_fits_is_left_to_allocate_if_that_comes_later() -> None:
    config = configured("gangpreempt, allocate")
    session = act([node("n", gpu=8), *waiting("new", 1, gpu=4)], config)
    assert promised(session) == {}
    assert [o.kind for c in session.committed for o in c.operations] == [OperationKind.ALLOCATE]


def test_growth_beyond_the_minimum_never_evicts() -> None:
    elastic: list[KubeObject] = [pod_group("new", minimum=1, priority_class="high", phase="Running")]
    elastic += [pod("new-0", group="new", node="n", gpu=4), pod("new-1", group="new", gpu=4)]
    session = act([node("n", gpu=8), *running("old", ["n"], gpu=4), *elastic], PREEMPT)
    assert evicted(session) == []


def test_only_what_the_minimum_lacks_is_made_room_for() -> None:
    session = act(
        [
            node("n", gpu=8),
            *running("a", ["n"], gpu=4),
            *running("b", ["n"], gpu=4),
            *waiting("new", 4, minimum=1, gpu=4),
        ],
        PREEMPT,
    )
    assert (len(evicted(session)), len(promised(session))) == (1, 1)


def test_role_minimums_decide_which_pods_are_needed() -> None:
    own = pod_group("new", minimum=2, roles={"driver": 1, "worker": 1}, priority_class="high", phase="Inqueue")
    pods = [pod(f"w{k}", group="new", role="worker", gpu=4, priority=1000) for k in range(3)]
    pods.append(pod("d", group="new", role="driver", gpu=4, priority=1000))
    session = act([node("n", gpu=8), *running("old", ["n"] * 2, gpu=4), own, *pods], PREEMPT)
    assert promised(session).keys() == {"w0", "d"}


def test_a_gang_with_mixed_pods_gets_just_the_victims_it_needs() -> None:
    own = pod_group("new", minimum=3, priority_class="high", phase="Inqueue")
    pods = [pod("big", group="new", gpu=8, priority=1000)]
    pods += [pod(f"small-{k}", group="new", gpu=2, priority=1000) for k in range(2)]
    old = [item for k in range(4) for item in running(f"a{k}", ["n0"], gpu=2)]
    old += [item for k in range(4) for item in running(f"b{k}", ["n1"], gpu=2)]
    session = act([node("n0", gpu=8), node("n1", gpu=8), *old, own, *pods], PREEMPT)
    assert len(promised(session)) == 3
    assert len(evicted(session)) == 6


def test_sub_groups_are_made_room_for_in_their_own_domains() -> None:
    policy = parts(2, 2, hard(1))
    own = group("new", 4, hard(2), policies=[policy], priority_class="high")
    pods = [pod for part in "ab" for pod in members("new", 2, part=part, gpu=8, priority=1000)]
    names = [f"s0-r{rack}-n{k}" for rack in range(2) for k in range(2)]
    old = [item for k, name in enumerate(names) for item in running(f"old{k}", [name], gpu=8)]
    session = act([*racks({"s0": [2, 2]}), *old, own, *pods], PREEMPT)
    assert len(evicted(session)) == 4
    homes = {name: place.rpartition("-")[0] for name, place in promised(session).items()}
    assert homes["new-a-0"] == homes["new-a-1"] != homes["new-b-0"] == homes["new-b-1"]


def test_no_way_leaves_no_trace() -> None:
    session = act([node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 2, gpu=8)], PREEMPT)
    assert (session.committed, evicted(session)) == ([], [])
    assert session.snapshot.nodes.state[2:4].sum() == 0


# -- who may evict, and whom -------------------------------------------------------------------------------------


def test_only_lower_priority_in_the_same_queue_is_preempted() -> None:
    equals = act([node("n", gpu=8), *running("old", ["n"], gpu=8, priority="high"), *waiting("new", 1, gpu=8)], PREEMPT)
    assert evicted(equals) == []
    others = [queue("q"), *running("old", ["n"], gpu=8, queue="q")]
    assert evicted(act([node("n", gpu=8), *others, *waiting("new", 1, gpu=8)], PREEMPT)) == []


def test_pods_that_never_preempt_do_not() -> None:
    own, *pods = waiting("new", 1, gpu=8)
    meek = [never_preempting(item) for item in pods if isinstance(item, Pod)]
    session = act([node("n", gpu=8), *running("old", ["n"], gpu=8), own, *meek], PREEMPT)
    assert evicted(session) == []


def test_pods_that_never_preempt_take_nothing_back_from_other_queues_either() -> None:
    own, *pods = waiting("new", 1, queue="poor", gpu=8)
    meek = [never_preempting(item) for item in pods if isinstance(item, Pod)]
    old = running("old", ["n"], queue="rich", gpu=8)
    world = [node("n", gpu=8), queue("rich"), queue("poor", deserved={"gpu": 8}), *old, own]
    config = configured("gangreclaim", share="capacity")
    assert evicted(act([*world, *pods], config)) == ["old-0"]
    assert evicted(act([*world, *meek], config)) == []


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_a_podgroup_may_refuse_for_all_its_pods(place: str) -> None:
    own, *pods = running("old", ["n"], gpu=8)
    assert isinstance(own, PodGroup)
    meta = msgspec.structs.replace(own.metadata, **{place: {PREEMPTABLE: "false"}})
    own = msgspec.structs.replace(own, metadata=meta)
    assert evicted(act([node("n", gpu=8), own, *pods, *waiting("new", 1, gpu=8)], PREEMPT)) == []


def test_a_job_that_is_not_admitted_waits() -> None:
    own, *pods = waiting("new", 1, gpu=8)
    own = pod_group("new", priority_class="high", phase="Pending")
    assert evicted(act([node("n", gpu=8), *running("old", ["n"], gpu=8), own, *pods], PREEMPT)) == []


# -- restraint ---------------------------------------------------------------------------------------------------


def test_needing_one_pod_never_takes_a_bundle_of_ten() -> None:
    spare = running("elastic", ["n0"] * 10, minimum=0, gpu=1)
    session = act([node("n0", gpu=10), *spare, *waiting("new", 1, gpu=1)], PREEMPT)
    assert len(evicted(session)) == 1


def test_a_gang_is_not_broken_while_others_can_spare_pods() -> None:
    session = act(
        [
            node("n0", gpu=4),
            node("n1", gpu=4),
            *running("rigid", ["n0"] * 4, gpu=1),
            *running("elastic", ["n1"] * 4, minimum=2, gpu=1),
            *waiting("new", 2, gpu=1),
        ],
        PREEMPT,
    )
    assert (victims_of(session), len(evicted(session))) == ({"elastic"}, 2)


def test_elastic_gangs_all_over_the_nodes_give_one_node_and_no_more() -> None:
    """Eight gangs with a pod on each of eight nodes, one to spare each: 8 pods, not 56."""
    nodes = [f"n{k}" for k in range(8)]
    jobs = [item for k in range(8) for item in running(f"e{k}", nodes, minimum=7, gpu=1)]
    session = act([*(node(name, gpu=8) for name in nodes), *jobs, *waiting("new", 1, gpu=8)], PREEMPT)
    assert len(evicted(session)) == 8
    assert victims_of(session) == {f"e{k}" for k in range(8)}


def test_the_domain_where_least_has_to_go_is_entered() -> None:
    """One rack needs a single eviction, the others eight: the one is taken, whatever its name."""
    objects = racks({"s0": [1, 1, 1]})
    for rack in range(3):
        place = f"s0-r{rack}-n0"
        pods = [place] * (1 if rack == 2 else 8)
        objects += [item for k, name in enumerate(pods) for item in running(f"r{rack}j{k}", [name], gpu=8 // len(pods))]
    session = act([*objects, *topology_gang("new", 1, 1, gpu=8)], configured("gangpreempt"))
    assert evicted(session) == ["r2j0-0"]


def test_gangs_that_are_mostly_elsewhere_are_spared() -> None:
    local = [item for k in range(2) for item in running(f"local{k}", ["s0-r1-n0"] * 4, gpu=1)]
    apart = [
        item for k in range(8) for item in running(f"apart{k}", ["s0-r0-n0", "s1-r0-n0", "s1-r0-n1", "s1-r0-n2"], gpu=1)
    ]
    session = act([*racks({"s0": [1, 1], "s1": [3]}), *local, *apart, *topology_gang("new", 1, 1, gpu=8)], PREEMPT)
    assert victims_of(session) == {"local0", "local1"}


def test_lower_priority_goes_first_whatever_it_costs() -> None:
    lower = [item for k in range(2) for item in running(f"low{k}", ["n0"] * 4, gpu=1)]
    dearer = running("mid", ["n1"] * 4, gpu=2, priority="")
    dearer[0] = pod_group("mid", minimum=4, priority_class="mid", phase="Running")
    session = act(
        [priority_class("mid", 500), node("n0", gpu=8), node("n1", gpu=8), *lower, *dearer, *waiting("new", 1, gpu=8)],
        PREEMPT,
    )
    assert victims_of(session) == {"low0", "low1"}


def test_whole_bundles_can_be_forbidden() -> None:
    config = configured("gangpreempt", "allowWholeBundle: false")
    rigid = [node("n", gpu=8), *running("old", ["n"] * 2, gpu=4), *waiting("new", 1, gpu=4)]
    assert evicted(act(rigid, config)) == []
    elastic = [node("n", gpu=8), *running("old", ["n"] * 2, minimum=1, gpu=4), *waiting("new", 1, gpu=4)]
    assert len(evicted(act(elastic, config))) == 1


def test_the_rest_of_a_broken_gang_stays_unless_it_is_asked_for() -> None:
    objects = [
        *racks({"s0": [1, 1]}),
        *running("old", ["s0-r0-n0", "s0-r1-n0"], gpu=4),
        *running("busy", ["s0-r1-n0"], gpu=4, priority="high"),
        *topology_gang("new", 1, 1, gpu=8),
    ]
    assert evicted(act(objects, PREEMPT)) == ["old-0"]
    assert evicted(act(objects, configured("gangpreempt", "evictRemainder: true"))) == ["old-0", "old-1"]


def test_disruption_budgets_are_respected_and_can_be_ignored() -> None:
    guarded = running("old", ["n"] * 2, gpu=4, labels={"app": "web"})
    objects = [node("n", gpu=8), budget(1, app="web"), *guarded, *waiting("new", 1, gpu=8)]
    assert evicted(act(objects, PREEMPT)) == []
    assert len(evicted(act(objects, configured("gangpreempt", "ignorePDB: true")))) == 2


def test_a_gang_that_a_budget_does_not_let_go_whole_spares_the_pod_that_helps() -> None:
    """What is cheapest a budget closes; beside it only the pod on n2 makes a place, and one pod may go."""
    closed = running("closed", ["n3"] * 4, minimum=2, gpu=1, labels={"app": "closed"})
    elastic = running("elastic", ["n2", "n1", "n1"], minimum=2, gpu=1, labels={"app": "elastic"})
    none, one = budget(0, app="closed"), budget(1, app="elastic")
    one = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, name="one"))
    nodes = [node("n1", gpu=2), node("n2", gpu=2), node("n3", gpu=4)]
    objects = [*nodes, none, one, *closed, *elastic, *running("single", ["n2"], gpu=1), *waiting("new", 1, gpu=2)]
    assert evicted(act(objects, PREEMPT)) == ["elastic-0", "single-0"]


def test_the_disruption_ratio_is_a_limit_on_victims() -> None:
    objects = [node("n", gpu=8), *running("old", ["n"] * 2, gpu=4), *waiting("new", 1, gpu=4)]
    assert evicted(act(objects, configured("gangpreempt", "maxDisruptionRatio: 1.5"))) == []
    assert len(evicted(act(objects, configured("gangpreempt", "maxDisruptionRatio: 2")))) == 2


def test_a_full_queue_makes_room_in_itself() -> None:
    """The queue may hold 8 GPUs and has them: its own pods must go even though a node is free."""
    own = queue("small", capability={"gpu": 8})
    session = act(
        [
            *(node(name, gpu=8) for name in ("n0", "n1")),
            own,
            *running("old", ["n0"], gpu=8, queue="small"),
            *waiting("new", 1, gpu=8, queue="small"),
        ],
        configured("gangpreempt", share="capacity"),
    )
    assert evicted(session) == ["old-0"]


# -- domains -----------------------------------------------------------------------------------------------------


def test_smaller_tiers_come_first() -> None:
    objects = [*racks({"s0": [2, 2]}), *(item for r in range(2) for item in _rack_of(r))]
    session = act([*objects, *topology_gang("new", 2, 2, gpu=8)], PREEMPT)
    assert len({place.rpartition("-")[0] for place in promised(session).values()}) == 1


def _rack_of(rack: int) -> list[KubeObject]:
    return [item for k in range(2) for item in running(f"r{rack}n{k}", [f"s0-r{rack}-n{k}"], gpu=8)]


def test_a_gang_stays_with_the_domain_that_it_was_promised() -> None:
    old = [*_rack_of(0), *_rack_of(1)]
    own, *pods = topology_gang("new", 2, 1, gpu=8)
    first = act([*racks({"s0": [2, 2]}), *old, own, *pods], PREEMPT)
    assert victims_of(first) == {"r0n0", "r0n1"}
    named = [pod(f"new-{k}", group="new", gpu=8, priority=1000, nominated=f"s0-r1-n{k}") for k in range(2)]
    again = act([*racks({"s0": [2, 2]}), *old, own, *named], PREEMPT)
    assert victims_of(again) == {"r1n0", "r1n1"}


@pytest.mark.parametrize(("limit", "cut_short"), [(1, 1), (2, 0)])
def test_a_search_that_ends_at_the_limit_on_domains_is_counted(limit: int, cut_short: int) -> None:
    objects = [*racks({"s0": [2, 2]}), *_rack_of(0), *_rack_of(1), *topology_gang("new", 2, 1, gpu=8)]
    session = act(objects, configured("gangpreempt", f"maxDomains: {limit}, maxDisruptionRatio: 0.1"))
    assert evicted(session) == []
    assert session.tally.cut_short == cut_short
    assert session.tally.attempts == {"disruption-limit": 1}


def test_a_domain_that_a_budget_closes_does_not_use_up_the_list() -> None:
    """The cheaper rack is closed by a budget; the next one is tried although only one domain is allowed."""
    guarded = running("guarded", ["s0-r0-n0"], gpu=8, labels={"app": "web"})
    dearer = [item for k in range(8) for item in running(f"many{k}", ["s0-r1-n0", "s0-r2-n0"], gpu=1)]
    objects = [*racks({"s0": [1, 1, 1]}), budget(0, app="web"), *guarded, *dearer, *topology_gang("new", 1, 1, gpu=8)]
    assert evicted(act(objects, configured("gangpreempt", "maxDomains: 1"))) == [f"many{k}-0" for k in range(8)]


def shares(order: Sequence[Sequence[str]], **flags: bool) -> SchedulerConfig:
    tiers = tuple(tuple(PluginOption(name, flags) for name in tier) for tier in order)
    return SchedulerConfig(("gangreclaim",), tiers)


SHARE_LAST = [["priority", "gang", "conformance"], ["predicates", "capacity"]]
ORDERS = [
    pytest.param(SHARE_LAST, id="share plugin last"),
    pytest.param([["capacity", "predicates"], ["priority", "gang", "conformance"]], id="share plugin first"),
    pytest.param([["priority", "gang", "conformance", "capacity", "predicates"]], id="one tier"),
]


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_queue_deserves_is_protected_in_every_tier_order(order: list[list[str]]) -> None:
    """Of three queues one is over its share: it alone gives, and not below its share."""
    objects: list[KubeObject] = [node(f"n{k}", gpu=8) for k in range(3)]
    objects += [queue(name, deserved={"gpu": 8}) for name in ("mine", "modest", "greedy")]
    objects += running("modest", ["n0"], gpu=8, queue="modest")
    objects += [item for k in (1, 2) for item in running(f"greedy{k}", [f"n{k}"], gpu=8, queue="greedy")]
    session = act([*objects, *waiting("new", 1, gpu=8, queue="mine")], shares(order))
    assert victims_of(session) in ({"greedy1"}, {"greedy2"})
    again = act(
        [*objects, *waiting("new", 1, gpu=8, queue="mine"), *waiting("more", 1, gpu=8, queue="mine")], shares(order)
    )
    assert len(evicted(again)) == 1


def test_queues_that_do_not_give_are_left_alone() -> None:
    own = msgspec.structs.replace(queue("greedy", deserved={"gpu": 0}))
    spec = msgspec.structs.replace(own.spec, reclaimable=False)
    objects = [node("n", gpu=8), queue("mine", deserved={"gpu": 8}), msgspec.structs.replace(own, spec=spec)]
    objects += running("old", ["n"], gpu=8, queue="greedy")
    assert evicted(act([*objects, *waiting("new", 1, gpu=8, queue="mine")], shares(SHARE_LAST))) == []


def test_a_queue_does_not_reclaim_more_than_it_deserves() -> None:
    objects = [node("n", gpu=8), queue("mine", deserved={"gpu": 4}), queue("greedy", deserved={"gpu": 0})]
    objects += running("old", ["n"] * 2, gpu=4, queue="greedy")
    assert evicted(act([*objects, *waiting("new", 1, gpu=8, queue="mine")], shares(SHARE_LAST))) == []


# -- plugins -----------------------------------------------------------------------------------------------------


class _Asked(Plugin):
    """Counts the questions, and may answer them."""

    name: ClassVar[str] = "asked"
    questions: ClassVar[list[tuple[str, int]]] = []
    spared: ClassVar[str] = ""
    choice: ClassVar[tuple[str, ...] | None] = None
    domains: ClassVar[tuple[str, ...]] = ()

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        self.questions.append(("evictable", len(candidates)))
        ids = self.session.snapshot.tasks.ids
        return candidates[[ids[task] != self.spared for task in candidates.tolist()]]

    def select_victims(self, evictor: Evictor, domain: int, candidates: Rows) -> Rows | None:
        ids = self.session.snapshot.tasks.ids
        if self.choice is None:
            return None
        return np.array([ids.index(f"default/{name}") for name in self.choice], np.intp)

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        index = self.session.snapshot.topology.index
        return np.array([index[name] for name in self.domains], np.intp)


def ask(objects: Iterable[KubeObject], **answers: Any) -> Session:
    """Run gangpreempt with the plugin above in the first tier."""
    plugin = type("_Own", (_Asked,), {"questions": [], **answers})
    registry = Registry({**REGISTRY.plugins, "asked": plugin}, dict(REGISTRY.actions))
    names = [["asked", "priority", "gang", "conformance"], ["predicates", "network-topology-aware"]]
    mirror = Mirror()
    for item in [queue("default"), *PRIORITIES, *objects]:
        mirror.upsert(item)
    config = SchedulerConfig(("gangpreempt",), tuple(tuple(PluginOption(name) for name in tier) for tier in names))
    session = Session(mirror.snapshot(), config, registry)
    registry.make_action("gangpreempt", {}).run(session)
    _Asked.questions = plugin.questions  # type: ignore[attr-defined]
    return session


def test_plugins_are_asked_once_for_the_whole_list() -> None:
    jobs = [item for k in range(6) for item in running(f"j{k}", ["n"] * 2, minimum=1, gpu=1)]
    ask([node("n", gpu=12), *jobs, *waiting("new", 1, gpu=3)])
    assert _Asked.questions == [("evictable", 12)]


def test_a_gang_with_a_pod_that_may_not_go_is_refused_whole() -> None:
    objects = [node("n0", gpu=4), node("n1", gpu=4), *running("a", ["n0"] * 2, gpu=2), *running("b", ["n1"] * 2, gpu=2)]
    session = ask([*objects, *waiting("new", 1, gpu=4)], spared="default/a-1")
    assert victims_of(session) == {"b"}


def test_a_plugin_may_choose_the_victims() -> None:
    objects = [node("n0", gpu=4), node("n1", gpu=4), *running("a", ["n0"], gpu=4), *running("b", ["n1"], gpu=4)]
    assert evicted(ask([*objects, *waiting("new", 1, gpu=4)], choice=("b-0",))) == ["b-0"]


def test_a_choice_that_makes_no_room_or_that_nobody_permits_is_not_taken() -> None:
    objects = [node("n0", gpu=4), node("n1", gpu=4), *running("a", ["n0"], gpu=4), *running("b", ["n1"] * 2, gpu=2)]
    new = waiting("new", 1, gpu=4)
    assert evicted(ask([*objects, *new], choice=())) == []
    assert evicted(ask([*objects, *new], choice=("a-0",), spared="default/a-0")) == []


def test_a_plugin_may_choose_the_domain() -> None:
    objects = [*racks({"s0": [1, 1]}), *running("a", ["s0-r0-n0"], gpu=8), *running("b", ["s0-r1-n0"] * 8, gpu=1)]
    new = topology_gang("new", 1, 1, gpu=8)
    assert victims_of(ask([*objects, *new])) == {"a"}
    assert victims_of(ask([*objects, *new], domains=("s0-r1",))) == {"b"}


# -- records -----------------------------------------------------------------------------------------------------


def records_of(session: Session) -> list[VictimRecord]:
    """One record for each reason for which pods of a gang went."""
    (operation,) = [o for c in session.committed for o in c.operations if o.kind is OperationKind.EVICT]
    assert isinstance(operation.record, BundleRecords)
    return list({record.text: record for record in map(operation.record.of_task, operation.tasks.tolist())}.values())


def test_every_eviction_says_why() -> None:
    objects = [
        *racks({"s0": [1, 1]}),
        *running("mine", ["s0-r0-n0"] * 2, gpu=4),
        *running("other", ["s0-r1-n0"] * 8, gpu=1),
        *running("wide", ["s0-r0-n0", "s0-r1-n0"], cpu=1),
        *topology_gang("new", 1, 1, gpu=8),
    ]
    session = act(objects, PREEMPT)
    operation = session.committed[0].operations[0]
    assert isinstance(operation.record, VictimRecords)
    record = operation.record.of_task(int(operation.tasks[0]))
    facts: dict[str, Any] = dict(record.facts)
    bundle = facts["bundle"]
    assert (facts["beneficiary"], facts["domain"]) == ("default/new", "s0-r0")
    assert (bundle["kind"], bundle["job"], bundle["tasks"]) == (
        "whole",
        "default/mine",
        ["default/mine-0", "default/mine-1"],
    )
    assert bundle["frees"]["nvidia.com/gpu"] == bundle["costs"]["nvidia.com/gpu"] == "8"
    assert (bundle["roi"], facts["ratio"]) == (1.0, 1.0)
    assert facts["nextBundle"]["name"] == "default/wide"
    assert facts["nextDomain"]["name"] == "s0-r1"
    assert record.text == (
        "makes room for default/new in s0-r0: default/mine goes whole, 2 pods in s0-r0, worth 1.00 of what it costs; "
        f"next would have been default/wide: {facts['nextBundle']['reason']}; "
        f"next domain s0-r1: {facts['nextDomain']['reason']}"
    )


def test_pods_that_a_gang_can_spare_say_so() -> None:
    session = act([node("n", gpu=8), *running("old", ["n"] * 8, minimum=4, gpu=1), *waiting("new", 2, gpu=1)], PREEMPT)
    (record,) = records_of(session)
    assert (record.reason, record.facts["domain"]) == ("safe", "")
    assert record.text.startswith("makes room for default/new: default/old can spare 2 pods")


def test_a_gang_that_ends_goes_with_all_that_it_has_in_the_domain() -> None:
    """Two pods to spare are not enough, so the gang ends; the fourth pod is not needed and would run for nothing."""
    session = act([node("n", gpu=5), *running("old", ["n"] * 4, minimum=2, gpu=1), *waiting("new", 1, gpu=4)], PREEMPT)
    assert len(evicted(session)) == 4
    kinds = {record.reason: record.text for record in records_of(session)}
    assert kinds.keys() == {"rest", "whole"}
    assert "default/old ends, so 2 pods beyond its minimum go too" in kinds["rest"]


def test_the_effort_of_improving_a_plan_does_not_grow_with_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def counted(*arguments: Any) -> int:
        looked_at.append(len(arguments[3]))
        return clear_nodes(*arguments)

    monkeypatch.setattr(clearing, "clear_nodes", counted)
    for nodes in (40, 400):
        looked_at.clear()
        names = [f"n{number}" for number in range(nodes)]
        objects = [*PRIORITIES, queue("default"), *(node(name, cpu=2) for name in names)]
        for number in range(0, nodes, 2):  # each can spare one of its pods
            objects += running(f"low-{number}", names[number : number + 2] * 2, minimum=3, cpu=1)
        session = act([*objects, *waiting("new", 1, cpu=2)], PREEMPT)
        assert evicted(session)
        assert sum(looked_at) < 400_000
