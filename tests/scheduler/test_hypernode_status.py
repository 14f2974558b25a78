"""HyperNodes say themselves how many nodes they hold and what is wrong with them."""

import pytest

from muster.api import Condition, HyperNode, KubeObject, load_text
from muster.cluster import MemoryCluster
from muster.framework import parse_config
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import HyperNodeUpdate
from muster.snapshot.mirror.quarantine import PAUSE_SECONDS
from muster.testing import node

CONFIG = parse_config('actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]', "t")

RACK = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: rack-1}
spec:
  tier: 1
  members: [{type: Node, selector: {regexMatch: {pattern: "^n[0-9]$"}}}]
"""
SPINE = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: spine}
spec:
  tier: 2
  members:
  - {type: HyperNode, selector: {exactMatch: {name: rack-1}}}
  - {type: HyperNode, selector: {exactMatch: {name: rack-2}}}
"""


def start(text: str, *others: KubeObject) -> tuple[Scheduler, MemoryCluster]:
    cluster = MemoryCluster([*load_text(text).objects, *others], start=100.0)
    return Scheduler(cluster, CONFIG, builtin_registry()), cluster


def hyper_node(cluster: MemoryCluster, name: str) -> HyperNode:
    found = cluster.store.get(HyperNode, name)
    assert found is not None
    return found


def condition(cluster: MemoryCluster, name: str) -> Condition:
    [found] = hyper_node(cluster, name).status.conditions
    return found


def test_the_number_of_nodes_is_written_once() -> None:
    scheduler, cluster = start(RACK, node("n1"), node("n2"), node("other"))
    assert scheduler.run_once().hyper_nodes == (HyperNodeUpdate("rack-1", 2),)
    assert hyper_node(cluster, "rack-1").status.node_count == 2
    assert (condition(cluster, "rack-1").type, condition(cluster, "rack-1").status) == ("Valid", "True")
    second = scheduler.run_once()
    assert second.hyper_nodes == ()
    assert second.is_quiet


def test_nodes_that_come_and_go_are_counted() -> None:
    scheduler, cluster = start(RACK, node("n1"))
    scheduler.run_once()
    cluster.add([node("n2")])
    assert scheduler.run_once().hyper_nodes == (HyperNodeUpdate("rack-1", 2),)
    cluster.delete(node("n1"))
    cluster.delete(node("n2"))
    scheduler.run_once()
    assert hyper_node(cluster, "rack-1").status.node_count == 0


def test_a_fault_stands_on_the_hypernode_that_has_it_until_it_is_corrected() -> None:
    scheduler, cluster = start(f"{RACK}---{SPINE}", node("n1"))
    fault = "member HyperNode 'rack-2' does not exist"
    assert scheduler.run_once().hyper_nodes == (HyperNodeUpdate("rack-1", 1), HyperNodeUpdate("spine", 1, fault))
    broken = condition(cluster, "spine")
    assert (broken.status, broken.reason, broken.message) == ("False", "WrongMembers", fault)
    assert condition(cluster, "rack-1").status == "True"
    cluster.advance_to(160.0)
    cluster.add(load_text(RACK.replace("rack-1", "rack-2").replace("^n", "^m")).objects)
    scheduler.run_once()
    cured = condition(cluster, "spine")
    assert (cured.status, cured.reason, cured.message) == ("True", "MembersFound", "all of its members were found")
    assert cured.last_transition_time is not None
    assert cured.last_transition_time.timestamp() == 160.0


def test_the_time_of_the_condition_stays_while_it_does_not_change() -> None:
    scheduler, cluster = start(RACK, node("n1"))
    scheduler.run_once()
    cluster.advance_to(160.0)
    cluster.add([node("n2")])
    scheduler.run_once()
    since = condition(cluster, "rack-1").last_transition_time
    assert since is not None
    assert since.timestamp() == 100.0


def test_a_pattern_that_got_past_admission_is_a_fault_and_not_a_crash() -> None:
    scheduler, cluster = start(RACK, node("n1"))
    broken = load_text(RACK.replace("rack-1", "rack-2").replace("^n[0-9]$", "x")).objects[0]
    assert isinstance(broken, HyperNode)
    member = broken.spec.members[0].selector.regex_match
    assert member is not None
    member.pattern = "n["
    cluster.replace_object(broken)
    result = scheduler.run_once()
    assert result.error is None
    assert condition(cluster, "rack-2").status == "False"
    assert "Go's syntax" in condition(cluster, "rack-2").message


def test_a_hypernode_that_cannot_be_used_says_so_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, cluster = start(RACK, node("n1"))
    scheduler.run_once()
    cluster.advance_to(160.0)
    with monkeypatch.context() as broken:
        broken.setattr(scheduler.mirror, "upsert", _raise)
        cluster.replace_object(load_text(RACK.replace("tier: 1", "tier: 3")).objects[0])
        assert scheduler.run_once().error is None
        said = condition(cluster, "rack-1")
        assert (said.type, said.status, said.reason) == ("Valid", "False", "Quarantined")
        assert said.message == "cannot be used (ZeroDivisionError: rack-1 has no tier today)"
        assert said.last_transition_time is not None
        assert said.last_transition_time.timestamp() == 160.0
        assert hyper_node(cluster, "rack-1").status.node_count == 0
        assert scheduler.run_once().is_quiet
    cluster.advance_to(160.0 + 2 * PAUSE_SECONDS)
    scheduler.run_once()
    cured = condition(cluster, "rack-1")
    assert (cured.status, cured.reason) == ("True", "MembersFound")
    assert hyper_node(cluster, "rack-1").status.node_count == 1


def _raise(thing: KubeObject) -> None:
    raise ZeroDivisionError(f"{thing.name} has no tier today")


def test_an_update_for_a_hypernode_that_is_gone_is_refused() -> None:
    _, cluster = start(RACK)
    (refused,) = cluster.update_hypernodes([HyperNodeUpdate("rack-9", 1)])
    assert refused.error == "the HyperNode is gone"
