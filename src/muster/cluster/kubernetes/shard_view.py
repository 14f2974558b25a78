"""What a shard by labels sees of the pods and gangs that all watches of a cluster bring.

Pods on nodes outside of the shard are not there, so that nothing counts or touches them. Pods of gangs in another pool
are there only where they take room, or were promised it, and then as somebody else's. Both change when a node or a gang
moves from one shard to another, so every pod is kept and looked at anew then. Nodes and KAI's queues of other shards
never get here: the server leaves them out. Used by the backend in the scheduler's thread, before anything else reads
the events; a snapshot of one moment goes through it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from muster.api import KaiPodGroup, KubeObject, Node, Pod, PodGroup, group_of
from muster.cluster.kubernetes.shards import Shard
from muster.snapshot.messages import Event


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


def seen_by(shard: Shard, objects: Iterable[KubeObject]) -> list[KubeObject]:
    """What a shard sees of the objects of one moment, in the order given but for pods, which come last."""
    if not shard.is_by_labels:
        return list(objects)
    view = ShardView(shard)
    # Pods last: then their nodes and gangs are known, and no event takes back an earlier one.
    ordered = sorted(objects, key=lambda thing: isinstance(thing, Pod))
    return [event.object for thing in ordered for event in view.observe(Event("ADDED", thing))]


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
