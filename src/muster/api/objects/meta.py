"""What every object is made of: the base of all structs, metadata, and selectors over labels.

Types are msgspec structs: attributes in snake_case, documents in camelCase, unknown fields ignored as an API server
with a newer schema would. Sequences are read-only by type, because objects are shared between the cluster, the mirror
and reports; whoever changes an object makes a copy. Selectors answer with the rules of Kubernetes: an empty selector
matches everything, and "no selector" is ``None``, which the owner of the field interprets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, field

from muster.api.quantity import Quantity

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Timestamp = Annotated[datetime, Meta(tz=True)]
ResourceList = dict[str, Quantity]


# gc=False: objects are trees, and a hundred thousand pods would slow down every garbage collection.
class K8sModel(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """Base of all structs."""


def decode_hook(wanted: type, given: object) -> object:
    """Decode what msgspec does not know; a ValueError becomes an error with the path."""
    if wanted is Quantity:
        return Quantity.of(given)
    raise TypeError(f"no decoder for {wanted!r}")


def encode_hook(given: object) -> object:
    """Encode what msgspec does not know."""
    if isinstance(given, Quantity):
        return given.text
    raise TypeError(f"no encoder for {type(given)!r}")


DEFAULT_NAMESPACE = "default"


class OwnerReference(K8sModel):
    """The object that made this one, and makes it anew."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(K8sModel):
    """Name, labels and age of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: Int64 | None = None
    owner_references: Sequence[OwnerReference] = ()
    resource_version: str = ""
    generation: Int64 = 0


class KubeObject(K8sModel):
    """A top-level object: what `kinds` registers and files hold."""

    api_version: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    namespaced: ClassVar[bool] = True

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """The object's own name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace, "default" when none is written, "" for objects of the whole cluster."""
        return (self.metadata.namespace or DEFAULT_NAMESPACE) if self.namespaced else ""

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for objects of the whole cluster."""
        return f"{self.namespace}/{self.metadata.name}" if self.namespaced else self.metadata.name


class LabelSelectorRequirement(K8sModel):
    """One condition on one label."""

    key: str = ""
    operator: str = ""
    values: Sequence[str] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the condition; an unknown operator is met by nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        return False


class LabelSelector(K8sModel):
    """Conditions on labels, all of which must hold."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: Sequence[LabelSelectorRequirement] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet every condition; true when there is none."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


class Condition(K8sModel):
    """One entry of a status: what is so, since when, and why."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None
    #: Nothing that Muster writes; kept for those who do, since the list is written as a whole.
    observed_generation: int = 0
    transition_id: str = field(default="", name="transitionID")
