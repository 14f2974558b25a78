"""What people do to a cluster while it runs: add, delete, cordon, break, change.

Made from timeline entries, applied to the embedded cluster. A change that names what does not exist is the
user's mistake (`UserError`); the timeline adds where it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from muster.api import Condition, KubeObject, Node, UserError, decode, encode
from muster.cluster.memory import MemoryCluster

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Target:
    """An object by kind and key, as users write it: ``Pod/team-a/train-0``, ``Node/n1``."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"

    def find(self, cluster: MemoryCluster) -> KubeObject:
        found = cluster.store.find(self.kind, self.key)
        if found is None:
            raise UserError(f"there is no {self} at that time")
        return found


@dataclass(frozen=True, slots=True)
class Add:
    """Make objects."""

    objects: tuple[KubeObject, ...]

    def apply(self, cluster: MemoryCluster) -> None:
        cluster.add(self.objects)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete objects for good."""

    targets: tuple[Target, ...]

    def apply(self, cluster: MemoryCluster) -> None:
        for target in self.targets:
            cluster.delete(target.find(cluster))


@dataclass(frozen=True, slots=True)
class Cordon:
    """Keep new pods off nodes, or let them on again."""

    nodes: tuple[str, ...]
    unschedulable: bool

    def apply(self, cluster: MemoryCluster) -> None:
        for name in self.nodes:
            node = _node(cluster, name)
            cluster.replace_object(replace(node, spec=replace(node.spec, unschedulable=self.unschedulable)))


@dataclass(frozen=True, slots=True)
class SetReady:
    """Make nodes ready or not ready; pods on a node that is not ready stay there."""

    nodes: tuple[str, ...]
    ready: bool

    def apply(self, cluster: MemoryCluster) -> None:
        for name in self.nodes:
            node = _node(cluster, name)
            others = [known for known in node.status.conditions if known.type != "Ready"]
            condition = Condition(type="Ready", status="True" if self.ready else "False")
            status = replace(node.status, conditions=[*others, condition])
            cluster.replace_object(replace(node, status=status))


@dataclass(frozen=True, slots=True)
class Patch:
    """Change fields of an object: mappings are merged, a null removes a field, all else replaces it."""

    target: Target
    merge: Json

    def apply(self, cluster: MemoryCluster) -> None:
        present = self.target.find(cluster)
        changed = decode(merged(encode(present), self.merge))
        if (type(changed), changed.key) != (type(present), present.key):
            raise UserError("a patch cannot change apiVersion, kind, name or namespace")
        cluster.replace_object(changed)


Change = Add | Delete | Cordon | SetReady | Patch


def _node(cluster: MemoryCluster, name: str) -> Node:
    node = cluster.store.get(Node, name)
    if node is None:
        raise UserError(f"there is no node {name} at that time")
    return node


def merged(document: Json, patch: Json) -> dict[str, object]:
    """Return the document with a JSON merge patch applied."""
    result = dict(document)
    for name, value in patch.items():
        before = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result
