"""The part of a cluster that one scheduler works on, where several share it, and what it sees of the rest.

A shard by labels (a node selector, KAI's node pool) is a little cluster of its own: only its nodes are there, and pods
on other nodes are not. KAI's pools divide gangs too: those of another pool take room where they run, or were promised
it, and are somebody else's. Nodes and KAI's queues of other shards are left out by the server; `ShardView` does it for
pods and gangs, in the scheduler's thread, before anything else reads the events. What is ours changes when a node or a
gang moves from one shard to another, so every pod is kept and looked at anew then.
A shard by Volcano's NodeShard sees the whole cluster. A node is ours when our NodeShard asks for it and no other shard
uses it any more; what we use is written to the status, so that others wait for us in the same way.
Each shard has a lease of its own, so that each has one leader.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from msgspec.structs import replace

from muster.api import KaiPodGroup, KaiQueue, KubeObject, Node, Pod, PodGroup, group_of
from muster.api.names import KAI_NODE_POOL
from muster.api.objects.topology import NodeShard, NodeShardStatus
from muster.snapshot.messages import Event

_SLUG_LENGTH: Final = 40
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Shard:
    """What belongs to this scheduler; by default everything."""

    #: Labels of its nodes, as kubectl writes them ("pool=a,!reserved"); "": all nodes.
    node_selector: str = ""
    #: KAI's pool of nodes, queues and gangs; "": those without the label. None: pools do not matter.
    node_pool: str | None = None
    #: Name of the NodeShard that lists its nodes; "": none does.
    node_shard: str = ""
    #: Whether nodes outside of the NodeShard are out of the question, or only the last choice.
    mode: Literal["hard", "soft"] = "hard"

    @property
    def is_by_labels(self) -> bool:
        """Whether nodes outside of the shard are not seen at all."""
        return bool(self.node_selector) or self.node_pool is not None

    def selector_of(self, kind: type[KubeObject]) -> str:
        """Labels of the objects of a kind that are wanted; "": all are."""
        pool = "" if self.node_pool is None else _pool_selector(self.node_pool)
        if kind is Node:
            return ",".join(part for part in (self.node_selector, pool) if part)
        return pool if kind is KaiQueue else ""

    def has_pool_of(self, labelled: KubeObject) -> bool:
        """Whether an object stands in the shard's pool by its own label."""
        return self.node_pool is None or labelled.metadata.labels.get(KAI_NODE_POOL, "") == self.node_pool

    def lease_name(self, base: str) -> str:
        """The lease that the replicas of this shard share; shards of other extent have others."""
        parts = [self.node_selector, "" if self.node_pool is None else f"pool {self.node_pool}", self.node_shard]
        if not any(parts):
            return base
        words = _NOT_IN_NAMES.sub("-", " ".join(parts).lower()).strip("-")[:_SLUG_LENGTH].strip("-")
        # The words alone may be those of another shard: "a=b" and "a!=b".
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
        return f"{base}-{words}-{digest}"


WHOLE_CLUSTER: Final = Shard()


def _pool_selector(pool: str) -> str:
    return f"{KAI_NODE_POOL}={pool}" if pool else f"!{KAI_NODE_POOL}"


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, which part of it, and for whom."""

    kubeconfig: Path | None = None
    context: str | None = None
    shard: Shard = WHOLE_CLUSTER
    scheduler_names: tuple[str, ...] = ()


class ShardView:
    """Events in, those of the shard out."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._nodes: set[str] = set()
        #: Whether a gang is in the shard's pool, by job id.
        self._groups: dict[str, bool] = {}
        self._pods: dict[str, Pod] = {}
        self._shown: dict[str, Pod] = {}
        self._at: defaultdict[str, set[str]] = defaultdict(set)
        self._of: defaultdict[str, set[str]] = defaultdict(set)

    def observe(self, event: Event) -> Iterator[Event]:
        """Take in one event; yield what follows from it."""
        thing = event.object
        if event.kind == "UNREADABLE":  # nobody can tell whose it is
            yield event
        elif isinstance(thing, Pod):
            self._take_pod(thing, is_gone=event.kind == "DELETED")
            yield from self._look_at([thing.key])
        elif isinstance(thing, PodGroup | KaiPodGroup):
            yield from self._take_group(event, thing)
        elif isinstance(thing, Node):
            yield event
            yield from self._take_node(thing.name, is_gone=event.kind == "DELETED")
        else:
            yield event

    # -- what there is -----------------------------------------------------------------------------------------

    def _take_pod(self, pod: Pod, *, is_gone: bool) -> None:
        before = self._pods.pop(pod.key, None)
        if before is not None:
            _discard(self._at, _place(before), pod.key)
            _discard(self._of, _job(before), pod.key)
        if not is_gone:
            self._pods[pod.key] = pod
            self._at[_place(pod)].add(pod.key)
            self._of[_job(pod)].add(pod.key)

    def _take_node(self, name: str, *, is_gone: bool) -> Iterator[Event]:
        was_ours = name in self._nodes
        if is_gone:
            self._nodes.discard(name)
        else:
            self._nodes.add(name)
        if was_ours is is_gone:
            yield from self._look_at(sorted(self._at.get(name, ())))

    def _take_group(self, event: Event, group: PodGroup | KaiPodGroup) -> Iterator[Event]:
        was_ours = self._groups.get(group.key)
        if event.kind == "DELETED":
            self._groups.pop(group.key, None)
            if was_ours:
                yield event
        else:
            is_ours = self._groups[group.key] = self._shard.has_pool_of(group)
            if is_ours:
                yield event
            elif was_ours:
                yield Event("DELETED", group)
        if self._groups.get(group.key) is not was_ours:
            yield from self._look_at(sorted(self._of.get(group.key, ())))

    # -- what is seen of it ------------------------------------------------------------------------------------

    def _look_at(self, keys: Iterable[str]) -> Iterator[Event]:
        for key in keys:
            pod, before = self._pods.get(key), self._shown.get(key)
            now = None if pod is None else self._seen(pod)
            if now is None:
                if before is not None:
                    del self._shown[key]
                    yield Event("DELETED", before)
            elif before != now:
                self._shown[key] = now
                yield Event("ADDED" if before is None else "MODIFIED", now)

    def _seen(self, pod: Pod) -> Pod | None:
        """The pod as the shard sees it; None: not at all."""
        if pod.spec.node_name and pod.spec.node_name not in self._nodes:
            return None
        if self._is_ours(pod):
            return pod
        return _of_somebody_else(pod) if _place(pod) in self._nodes else None

    def _is_ours(self, pod: Pod) -> bool:
        known = self._groups.get(_job(pod))
        return self._shard.has_pool_of(pod) if known is None else known


def _discard(keys: defaultdict[str, set[str]], where: str, key: str) -> None:
    keys[where].discard(key)
    if not keys[where]:
        del keys[where]


def _place(pod: Pod) -> str:
    """The node that a pod takes room on, or has been promised."""
    return pod.spec.node_name or pod.status.nominated_node_name


def _job(pod: Pod) -> str:
    group = group_of(pod)
    return "" if group is None else f"{pod.namespace}/{group}"


def _of_somebody_else(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduler_name=""))


def seen_by(shard: Shard, objects: Iterable[KubeObject]) -> list[KubeObject]:
    """What a shard sees of the objects of one moment, in the order given but for pods, which come last."""
    if not shard.is_by_labels:
        return list(objects)
    view = ShardView(shard)
    # Pods last: then their nodes and gangs are known, and no event takes back an earlier one.
    ordered = sorted(objects, key=lambda thing: isinstance(thing, Pod))
    return [event.object for thing in ordered for event in view.observe(Event("ADDED", thing))]


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
