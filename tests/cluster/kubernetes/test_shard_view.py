from __future__ import annotations

from collections.abc import Iterable

from muster.api import KaiPodGroup, KaiQueue, KubeObject, Node, Pod
from muster.api.names import GROUP_NAME, KAI_NODE_POOL
from muster.cluster.kubernetes.client.shards import Shard, ShardView, seen_by
from muster.snapshot.messages import Event, EventKind

BY_SELECTOR = Shard(node_selector="pool=a")
BY_POOL = Shard(node_pool="a")


def make_pod(name: str, *, on: str = "", group: str = "", pool: str = "", nominated: str = "") -> Pod:
    pod = Pod()
    pod.metadata.name = name
    pod.metadata.annotations = {GROUP_NAME: group} if group else {}
    pod.metadata.labels = {KAI_NODE_POOL: pool} if pool else {}
    pod.spec.node_name = on
    pod.spec.scheduler_name = "kai-scheduler"
    pod.status.nominated_node_name = nominated
    return pod


def make_node(name: str) -> Node:
    node = Node()
    node.metadata.name = name
    return node


def make_group(name: str, pool: str = "") -> KaiPodGroup:
    group = KaiPodGroup()
    group.metadata.name = name
    group.metadata.labels = {KAI_NODE_POOL: pool} if pool else {}
    return group


def told(view: ShardView, thing: KubeObject, kind: EventKind = "ADDED") -> list[tuple[str, str]]:
    return [(event.kind, event.object.name) for event in view.observe(Event(kind, thing))]


def names(things: Iterable[KubeObject]) -> list[str]:
    return [thing.name for thing in things]


def test_a_pod_on_another_node_is_not_there_until_the_node_joins() -> None:
    view = ShardView(BY_SELECTOR)
    assert told(view, make_node("n1")) == [("ADDED", "n1")]
    assert told(view, make_pod("here", on="n1")) == [("ADDED", "here")]
    assert told(view, make_pod("there", on="n2")) == []
    assert told(view, make_node("n2")) == [("ADDED", "n2"), ("ADDED", "there")]
    assert told(view, make_node("n2"), "MODIFIED") == [("MODIFIED", "n2")]


def test_the_pods_of_a_node_that_leaves_go_with_it() -> None:
    view = ShardView(BY_SELECTOR)
    told(view, make_node("n1"))
    told(view, make_pod("p", on="n1"))
    assert told(view, make_node("n1"), "DELETED") == [("DELETED", "n1"), ("DELETED", "p")]
    assert told(view, make_pod("p", on="n1"), "DELETED") == []


def test_a_waiting_pod_that_another_scheduler_binds_elsewhere_is_let_go() -> None:
    view = ShardView(BY_SELECTOR)
    assert told(view, make_pod("p")) == [("ADDED", "p")]
    assert told(view, make_pod("p", on="far")) == [("DELETED", "p")]


def test_gangs_of_another_pool_are_not_there_and_their_pods_only_take_room() -> None:
    objects = [
        make_node("n1"),
        make_group("ours", "a"),
        make_group("theirs", "b"),
        make_pod("ours-0", group="ours"),
        make_pod("theirs-0", group="theirs"),
        make_pod("theirs-1", group="theirs", on="n1"),
        make_pod("theirs-2", group="theirs", nominated="n1"),
    ]
    seen = seen_by(BY_POOL, objects)
    assert names(seen) == ["n1", "ours", "ours-0", "theirs-1", "theirs-2"]
    assert [thing.spec.scheduler_name for thing in seen if isinstance(thing, Pod)] == ["kai-scheduler", "", ""]


def test_a_gang_that_moves_to_another_pool_takes_its_pods_along() -> None:
    view = ShardView(BY_POOL)
    told(view, make_pod("p", group="gang", pool="a"))
    assert told(view, make_group("gang", "b")) == [("DELETED", "p")]
    assert told(view, make_group("gang", "a"), "MODIFIED") == [("MODIFIED", "gang"), ("ADDED", "p")]


def test_without_a_group_the_pods_own_label_counts() -> None:
    assert names(seen_by(BY_POOL, [make_pod("in", pool="a"), make_pod("out")])) == ["in"]
    assert names(seen_by(Shard(node_pool=""), [make_pod("in"), make_pod("out", pool="a")])) == ["in"]


def test_selectors_combine_and_name_the_pool_of_queues() -> None:
    both = Shard(node_selector="gpu", node_pool="a")
    assert both.selector_of(Node) == "gpu,kai.scheduler/node-pool=a"
    assert both.selector_of(KaiQueue) == "kai.scheduler/node-pool=a"
    assert Shard(node_pool="").selector_of(Node) == "!kai.scheduler/node-pool"
    assert both.selector_of(Pod) == Shard().selector_of(Node) == ""


def test_every_shard_has_a_lease_of_its_own_with_a_name_that_is_allowed() -> None:
    shards = [Shard(), Shard("a=b"), Shard("a!=b"), BY_POOL, Shard(node_pool=""), Shard(node_shard="a")]
    leases = [shard.lease_name("muster") for shard in shards]
    assert leases[0] == "muster"
    assert leases[1].startswith("muster-a-b-")
    assert len(set(leases)) == len(shards)
    assert all(name.replace("-", "").isalnum() and name == name.lower() and len(name) < 64 for name in leases)


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    view = ShardView(BY_POOL)
    told(view, make_node("n1"))
    for number in range(3):
        told(view, make_pod(f"p{number}", on=f"n{number}", group=f"g{number}", pool="a"))
        told(view, make_pod(f"p{number}", on=f"n{number}", group=f"g{number}", pool="a"), "DELETED")
        told(view, make_group(f"g{number}", "a"))
        told(view, make_group(f"g{number}", "a"), "DELETED")
    assert not any((view._at, view._of, view._pods, view._shown, view._groups))
