"""What the cluster has, as plain dictionaries: filled by a live view, by tests, or from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.api import HyperNode, KaiPodGroup, KaiQueue, KubeObject, Namespace, PodGroup, Queue


@dataclass(slots=True)
class Facts:
    """A `Known` that knows what it was told."""

    volcano_queues: dict[str, Queue] = field(default_factory=dict)
    kai_queues: dict[str, KaiQueue] = field(default_factory=dict)
    domains: dict[str, HyperNode] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    pod_groups: dict[str, PodGroup] = field(default_factory=dict)
    kai_pod_groups: dict[str, KaiPodGroup] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[KubeObject]) -> Facts:
        facts = cls()
        for thing in objects:
            facts.add(thing)
        return facts

    def add(self, thing: KubeObject) -> None:
        """Note an object, in place of an older version of it."""
        shelf = self._shelf(thing)
        if shelf is not None:
            shelf[thing.key] = thing

    def remove(self, thing: KubeObject) -> None:
        """Forget an object."""
        shelf = self._shelf(thing)
        if shelf is not None:
            shelf.pop(thing.key, None)

    def _shelf(self, thing: KubeObject) -> dict[str, KubeObject] | None:
        shelves: dict[type[KubeObject], dict[str, KubeObject]] = {
            Queue: self.volcano_queues,  # type: ignore[dict-item]  # each shelf holds its own kind
            KaiQueue: self.kai_queues,  # type: ignore[dict-item]
            HyperNode: self.domains,  # type: ignore[dict-item]
            Namespace: self.namespaces,  # type: ignore[dict-item]
            PodGroup: self.pod_groups,  # type: ignore[dict-item]
            KaiPodGroup: self.kai_pod_groups,  # type: ignore[dict-item]
        }
        return shelves.get(type(thing))

    def queue(self, name: str) -> Queue | KaiQueue | None:
        return self.volcano_queues.get(name) or self.kai_queues.get(name)

    def queues(self) -> Mapping[str, Queue]:
        return self.volcano_queues

    def hyper_nodes(self) -> Mapping[str, HyperNode]:
        return self.domains

    def namespace(self, name: str) -> Namespace | None:
        return self.namespaces.get(name)

    def kai_queue(self, name: str) -> KaiQueue | None:
        return self.kai_queues.get(name)

    def pod_group(self, key: str) -> PodGroup | None:
        return self.pod_groups.get(key)

    def kai_pod_group(self, key: str) -> KaiPodGroup | None:
        return self.kai_pod_groups.get(key)
