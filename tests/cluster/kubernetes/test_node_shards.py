from __future__ import annotations

from collections.abc import Sequence

from muster.api.objects.topology import NodeShard, NodeShardSpec, NodeShardStatus
from muster.cluster.kubernetes.client.shards import NodeShards
from muster.snapshot.messages import Event, EventKind


def shard(name: str, desired: Sequence[str], in_use: Sequence[str] = ()) -> NodeShard:
    made = NodeShard(spec=NodeShardSpec(nodes_desired=desired), status=NodeShardStatus(nodes_in_use=in_use))
    made.metadata.name = name
    return made


def observe(shards: NodeShards, *things: NodeShard, kind: EventKind = "ADDED") -> frozenset[str]:
    shards.observe([Event(kind, thing) for thing in things])
    return shards.own_nodes


def quiet() -> None:
    """Nobody listens."""


def test_nodes_are_ours_when_asked_for_and_not_in_use_by_others() -> None:
    shards = NodeShards("ours", quiet)
    assert shards.own_nodes == frozenset()
    assert observe(shards, shard("ours", ["n1", "n2"]), shard("other", ["n3"], ["n2", "n3"])) == {"n1"}
    assert observe(shards, shard("other", ["n3"], ["n3"]), kind="MODIFIED") == {"n1", "n2"}
    assert observe(shards, shard("ours", ["n1", "n2"]), kind="DELETED") == frozenset()


def test_the_others_are_told_what_is_in_use_and_what_we_wait_for() -> None:
    shards = NodeShards("ours", quiet)
    observe(shards, shard("ours", ["n2", "n1"]), shard("other", [], ["n2"]))
    wanted = shards.to_tell()
    assert wanted is not None
    assert (wanted.status.nodes_in_use, wanted.status.nodes_to_add) == (["n1"], ["n2"])
    observe(shards, wanted, kind="MODIFIED")
    assert shards.to_tell() is None


def test_whoever_waits_is_woken_by_a_change() -> None:
    woken = []
    shards = NodeShards("ours", lambda: woken.append(shards.own_nodes))
    observe(shards, shard("ours", ["n1"]))
    assert woken == [{"n1"}]
