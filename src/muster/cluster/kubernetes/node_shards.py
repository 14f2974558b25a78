"""Which nodes Volcano's NodeShards leave to this scheduler, and what to tell the other schedulers about it.

A node is ours when our NodeShard asks for it and no other shard uses it any more. What we use is written to the status,
so that others wait for us in the same way. A NodeShard that does not exist leaves no node.
Fed by the event loop as the watch brings changes, asked by the service before each cycle: what is asked for is one
reference, swapped as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from muster.api.objects.topology import NodeShard, NodeShardStatus
from muster.snapshot.messages import Event


class NodeShards:
    """All NodeShards, and the part of one scheduler."""

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        self._name = name
        self._changed = changed
        self._known: dict[str, NodeShard] = {}
        self._own: frozenset[str] = frozenset()

    @property
    def own_nodes(self) -> frozenset[str]:
        """The nodes of this scheduler; from any thread."""
        return self._own

    def observe(self, events: Iterable[Event], *, is_urgent: bool = True) -> None:  # a sink's contract
        """Take in what a watch says of NodeShards; a change is always urgent."""
        for event in events:
            shard = event.object
            assert isinstance(shard, NodeShard)
            if event.kind == "DELETED":
                self._known.pop(shard.name, None)
            else:
                self._known[shard.name] = shard
        taken = {
            node for name, shard in self._known.items() if name != self._name for node in shard.status.nodes_in_use
        }
        ours = self._known.get(self._name)
        wanted = frozenset() if ours is None else frozenset(ours.spec.nodes_desired)
        self._own = wanted - taken
        self._changed()

    def to_tell(self) -> NodeShard | None:
        """Our NodeShard with the status that it should have; None when it has it, or does not exist."""
        ours = self._known.get(self._name)
        if ours is None:
            return None
        own = self._own
        status = NodeShardStatus(nodes_in_use=sorted(own), nodes_to_add=sorted(set(ours.spec.nodes_desired) - own))
        return None if _lists(status) == _lists(ours.status) else replace(ours, status=status)


def _lists(status: NodeShardStatus) -> tuple[list[str], ...]:
    """What a status says, in whatever order it is written."""
    return sorted(status.nodes_in_use), sorted(status.nodes_to_add), sorted(status.nodes_to_remove)
