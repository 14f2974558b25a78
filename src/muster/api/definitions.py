"""Custom resource definitions of the kinds that Muster works with, made from the types in this package.

Printed and installed by `muster crds`. Names, short names and columns are those that Volcano's users know. Where
Volcano's own definitions are installed, they are used as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster.api.batch import Job
from muster.api.crd_rules import RULES
from muster.api.errors import UserError
from muster.api.meta import KubeObject
from muster.api.scheduling import PodGroup, Queue
from muster.api.schema import Schema, schema_of
from muster.api.topology import HyperNode

#: Marks what `muster crds install` made, and may therefore bring up to date.
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "muster"}


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    path: str
    type: str = "string"
    #: 1: only in wide output.
    priority: int = 0

    def as_json(self) -> Schema:
        column: Schema = {"name": self.name, "jsonPath": self.path, "type": self.type}
        return {**column, "priority": self.priority} if self.priority else column


@dataclass(frozen=True, slots=True)
class _Kind:
    type: type[KubeObject]
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[_Column, ...]


_AGE: Final = _Column("Age", ".metadata.creationTimestamp", "date")
_KINDS: Final = (
    _Kind(
        PodGroup,
        "podgroups",
        ("pg", "podgroup-v1beta1"),
        (
            _Column("Status", ".status.phase"),
            _Column("MinMember", ".spec.minMember", "integer"),
            _Column("Runnings", ".status.running", "integer"),
            _AGE,
            _Column("Queue", ".spec.queue", priority=1),
        ),
    ),
    _Kind(
        Queue,
        "queues",
        ("q", "queue-v1beta1"),
        (
            _Column("Parent", ".spec.parent"),
            _Column("Weight", ".spec.weight", "integer"),
            _Column("State", ".status.state"),
            _AGE,
        ),
    ),
    _Kind(
        HyperNode,
        "hypernodes",
        ("hn",),
        (
            _Column("Tier", ".spec.tier", "integer"),
            _Column("TierName", ".spec.tierName"),
            _Column("NodeCount", ".status.nodeCount", "integer"),
            _AGE,
        ),
    ),
    _Kind(
        Job,
        "jobs",
        ("vcjob", "vj"),
        (
            _Column("Status", ".status.state.phase"),
            _Column("MinAvailable", ".spec.minAvailable", "integer"),
            _Column("Runnings", ".status.running", "integer"),
            _AGE,
            _Column("Queue", ".spec.queue", priority=1),
        ),
    ),
)


def definitions(wanted: Sequence[str] = ()) -> list[Schema]:
    """Return the definitions as documents: of the kinds named in any of their ways, or of all. Raises UserError."""
    chosen = {_find(name) for name in wanted} or set(_KINDS)
    return [_definition(known) for known in _KINDS if known in chosen]


def _find(name: str) -> _Kind:
    for known in _KINDS:
        if name.lower() in {known.type.kind.lower(), known.plural, *known.short_names}:
            return known
    kinds = ", ".join(known.type.kind for known in _KINDS)
    raise UserError(f'no definition of a kind "{name}"; there are {kinds}')


def _definition(known: _Kind) -> Schema:
    group, _, version = known.type.api_version.partition("/")
    kind = known.type.kind
    served: Schema = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(known.type)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.as_json() for column in known.columns],
    }
    names: Schema = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": known.plural,
        "singular": kind.lower(),
        "shortNames": list(known.short_names),
    }
    scope = "Namespaced" if known.type.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{known.plural}.{group}", "labels": dict(MANAGED_BY)},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


def _root(kind: type[KubeObject]) -> Schema:
    """The schema of a whole object; its metadata is the server's business."""
    schema = schema_of(kind, RULES)
    # Fields beside spec and status are nobody's.
    del schema["x-kubernetes-preserve-unknown-fields"]
    own = {name: part for name, part in schema["properties"].items() if name != "metadata"}
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return {**schema, "properties": {**head, **own}}
