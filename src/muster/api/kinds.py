"""The kinds that Muster knows, and decoding of one document into its type.

Documents are plain dicts as JSON or YAML give them. What an API server would fill in is filled in here: nulls count as
absent, namespaced objects without a namespace are in "default", and a node without allocatable amounts offers its
capacity. One kind is Muster's own and in no cluster: the head of what `muster snapshot save` writes. Objects that
follow it are used as they are, since an API server has checked and completed them already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal, TypeVar

import msgspec
from msgspec import field

from muster.api.documents import without_nulls
from muster.api.errors import UserError, describe_value, explain
from muster.api.foreign import check_foreign, described
from muster.api.names import UNREADABLE
from muster.api.objects.batch import Command, CronJob, Job, JobFlow, JobTemplate
from muster.api.objects.claims import (
    DeviceClass,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
)
from muster.api.objects.meta import (
    DEFAULT_NAMESPACE,
    K8sModel,
    KubeObject,
    ObjectMeta,
    Timestamp,
    decode_hook,
    encode_hook,
)
from muster.api.objects.node import Namespace, Node
from muster.api.objects.pod import Pod
from muster.api.objects.scheduling import (
    KaiPodGroup,
    KaiQueue,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
)
from muster.api.objects.topology import HyperNode, Topology
from muster.api.objects.workloads import foreign_types


class SnapshotShard(K8sModel):
    """The nodes of one of several schedulers, where others are seen too."""

    mode: Literal["hard", "soft"] = "hard"
    nodes: Sequence[str] = ()


class ClusterSnapshotSpec(K8sModel):
    """What a replay has to know besides the objects."""

    taken_at: Timestamp | None = None
    #: Pods with another schedulerName take room but are not scheduled; none: all are.
    scheduler_names: Sequence[str] = ()
    #: Which nodes that scheduler had; none: all that there are.
    shard: SnapshotShard | None = None


class ClusterSnapshot(KubeObject):
    """Says that the objects beside it were taken from a live cluster."""

    api_version: ClassVar[str] = "muster.sh/v1alpha1"
    kind: ClassVar[str] = "ClusterSnapshot"
    namespaced: ClassVar[bool] = False

    spec: ClusterSnapshotSpec = field(default_factory=ClusterSnapshotSpec)


Document = dict[str, object]
_Kind = TypeVar("_Kind", bound=KubeObject)
_TYPES: Final[tuple[type[KubeObject], ...]] = (
    Pod,
    Node,
    Namespace,
    PriorityClass,
    PodDisruptionBudget,
    ResourceQuota,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    PodGroup,
    Queue,
    HyperNode,
    KaiQueue,
    KaiPodGroup,
    Topology,
    ResourceClaim,
    DeviceClass,
    ResourceSlice,
)
KINDS: Final[dict[tuple[str, str], type[KubeObject]]] = {(t.api_version, t.kind): t for t in _TYPES}
_BATCH: Final[tuple[type[KubeObject], ...]] = (Job, Command, JobTemplate, JobFlow, CronJob)
#: What becomes pods by the work of controllers; scheduling does not read them.
WORKLOADS: Final[dict[tuple[str, str], type[KubeObject]]] = {
    (t.api_version, t.kind): t for t in (*_BATCH, *foreign_types())
}
#: What a misspelt kind may have been meant for; workloads of others have versions of their own.
_MISTAKEN: Final = {**KINDS, **{(t.api_version, t.kind): t for t in _BATCH}}
#: Where else a kind is found in the same form: in other versions, or in other projects.
ALSO_IN: Final[dict[type[KubeObject], tuple[str, ...]]] = {
    Topology: (
        "kai.scheduler/v1",
        "kueue.x-k8s.io/v1beta2",
        "kueue.x-k8s.io/v1beta1",
        "kueue.x-k8s.io/v1alpha1",
    )
}
#: What files may hold besides the kinds of clusters.
FILE_KINDS: Final[dict[tuple[str, str], type[KubeObject]]] = {
    **WORKLOADS,
    (ClusterSnapshot.api_version, ClusterSnapshot.kind): ClusterSnapshot,
    **{(version, known.kind): known for known, versions in ALSO_IN.items() for version in versions},
}
# A null in one of these maps is a key with an empty value, as an API server reads it.


def kind_of(document: Document) -> tuple[str, str]:
    """Return (apiVersion, kind). Raises UserError when one is missing or not text."""
    for name in ("apiVersion", "kind"):
        value = document.get(name)
        if not isinstance(value, str) or not value:
            example = "v1" if name == "apiVersion" else "Pod"
            raise UserError(f'expected a string such as "{example}", got {describe_value(value)}', field=name)
    return str(document["apiVersion"]), str(document["kind"])


def is_known(api_version: str, kind: str) -> bool:
    """Whether the kind is read. Raises UserError where it looks like a mistake for one that is."""
    if _known(api_version, kind) is not None:
        return True
    check_foreign(api_version, kind.removesuffix("List") or kind, _MISTAKEN)
    return False


def list_item_kind(api_version: str, kind: str) -> tuple[str, str] | None:
    """Return what the items of a list kind are: a known kind, ("", "") for any, None for no list kind."""
    if (api_version, kind) == ("v1", "List"):
        return ("", "")
    item = (api_version, kind.removesuffix("List"))
    return item if kind.endswith("List") and _known(*item) is not None else None


def _known(api_version: str, kind: str) -> type[KubeObject] | None:
    return KINDS.get((api_version, kind)) or FILE_KINDS.get((api_version, kind))


def subject_of(document: Document) -> str:
    """Return how messages call the object of a document: ``PodGroup team-a/train``."""
    kind, metadata = document.get("kind"), document.get("metadata")
    title = kind if isinstance(kind, str) else "object"
    if not isinstance(metadata, dict):
        return title
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return title
    known = _known(str(document.get("apiVersion")), title)
    if known is not None and not known.namespaced:
        return f"{title} {name}"
    return f"{title} {namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE}/{name}"


def type_of(document: Document) -> type[KubeObject]:
    """Return the type of a document. Raises UserError for a kind that Muster does not know."""
    api_version, kind = kind_of(document)
    known = _known(api_version, kind)
    if known is not None:
        return known
    check_foreign(api_version, kind, _MISTAKEN)
    raise UserError(f"{kind} of {api_version} is {described(api_version, kind)}", field="kind")


def decode(document: Document) -> KubeObject:
    """Decode one document. Raises UserError with object, field and what is expected."""
    try:
        wanted = type_of(document)
    except UserError as error:
        raise error.located(subject=subject_of(document)) from None
    return decode_as(document, wanted)


def decode_as(document: Document, wanted: type[_Kind]) -> _Kind:
    """Decode a document of which the kind is known, also one that `decode` does not read. Raises UserError."""
    try:
        decoded = _convert(document, wanted)
    except UserError as error:
        raise error.located(subject=subject_of(document)) from None
    with_defaults(decoded)
    return decoded


def stub_of(document: Document, wanted: type[_Kind], fault: str) -> _Kind:
    """Return what is left of a document that cannot be decoded: its name, and for pods whose they are and where.

    The status is kept where it can be read, else its conditions: who writes one has to leave the others standing.
    The fault is noted on it as an annotation.
    """
    stub = wanted(metadata=_metadata_of(document))
    _keep_status(stub, document.get("status"))
    stub.metadata.annotations = {**stub.metadata.annotations, UNREADABLE: fault}
    spec = document.get("spec")
    if isinstance(stub, Pod) and isinstance(spec, dict):
        for name, field in (("scheduler_name", "schedulerName"), ("node_name", "nodeName")):
            if isinstance(spec.get(field), str):
                setattr(stub.spec, name, spec[field])
    with_defaults(stub)
    return stub


def _keep_status(stub: KubeObject, given: object) -> None:
    status = getattr(stub, "status", None)
    if not isinstance(given, dict) or status is None:
        return
    for part in (given, {"conditions": given.get("conditions") or []}):
        try:
            kept = msgspec.convert(without_nulls(part), type(status), dec_hook=decode_hook)
        except (msgspec.ValidationError, RecursionError, ValueError):
            continue
        stub.status = kept  # type: ignore[attr-defined]  # it has one
        return


def _metadata_of(document: Document) -> ObjectMeta:
    given = document.get("metadata")
    try:
        return msgspec.convert(given, ObjectMeta, dec_hook=decode_hook)
    except (msgspec.ValidationError, RecursionError):
        texts = {key: text for key, text in given.items() if isinstance(text, str)} if isinstance(given, dict) else {}
        return ObjectMeta(name=texts.get("name", ""), namespace=texts.get("namespace", ""), uid=texts.get("uid", ""))


def _convert(document: Document, wanted: type[_Kind]) -> _Kind:
    try:
        return msgspec.convert(document, wanted, dec_hook=decode_hook)
    except (msgspec.ValidationError, RecursionError):
        # Perhaps only nulls are in the way; few documents hold any, so the copy is made on demand.
        clean = without_nulls(document)
    try:
        return msgspec.convert(clean, wanted, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        raise explain(str(error), clean) from None


def with_defaults(decoded: KubeObject) -> KubeObject:
    """Fill in, in place, what an API server or a kubelet would."""
    metadata = decoded.metadata
    if decoded.namespaced:
        metadata.namespace = metadata.namespace or DEFAULT_NAMESPACE
    else:
        metadata.namespace = ""
    if isinstance(decoded, Node) and not decoded.status.allocatable:
        decoded.status.allocatable = decoded.status.capacity
    if isinstance(decoded, Pod) and decoded.spec.host_network:
        for container in (*decoded.spec.containers, *decoded.spec.init_containers):
            for port in container.ports:
                port.host_port = port.host_port or port.container_port
    return decoded


def encode(thing: KubeObject) -> Document:
    """Return the document of an object, as `decode` reads it."""
    body = msgspec.to_builtins(thing, enc_hook=encode_hook, str_keys=True)
    # Deeper down an empty mapping can have a meaning (a selector that selects all).
    filled = {name: part for name, part in body.items() if part != {}}
    return {"apiVersion": thing.api_version, "kind": thing.kind, **filled}
