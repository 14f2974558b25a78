"""What a player of one kind is asked, and the pieces that all of them make objects of."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.api import KubeObject, Pod, UserError
from muster.api.names import LIFE
from muster.api.objects.workloads import ForeignWorkload
from muster.controllers.contract import Json, owner_reference

_ENDED: Final = ("Succeeded", "Failed")
_MOST_PODS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Scene:
    """A workload, what was made of it, and what else there is."""

    thing: ForeignWorkload
    pods: Mapping[str, Pod]
    made: Mapping[tuple[str, str], ForeignWorkload]
    #: Any workload by kind and key, as runtimes are that others refer to.
    find: Callable[[str, str], ForeignWorkload | None]
    now: float

    @property
    def spec(self) -> Json:
        return self.thing.spec

    def child(self, kind: str, name: str) -> ForeignWorkload | None:
        """What was made of it, by kind and name."""
        return self.made.get((kind, name))


@dataclass(slots=True)
class Wish:
    """What is to be there of a workload."""

    objects: list[Json] = field(default_factory=list)
    #: Names of pods that are to go.
    leaving: list[str] = field(default_factory=list)
    #: Fields of the status that others read.
    status: Json = field(default_factory=dict)
    #: When to look again though nothing happens.
    due: float | None = None
    #: Whether workloads that are not wished for are kept: those of the clock are.
    keeps: bool = False


Player = Callable[[Scene], Wish]


def count_of(value: object, otherwise: int, what: str) -> int:
    """A number of pods. Raises UserError."""
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_PODS:
        raise UserError(f"expected a number of pods from 0 to {_MOST_PODS:,}, got {value!r}", field=what)
    return value


def mapping(value: object) -> Json:
    """A mapping, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def pod_of(
    owner: KubeObject,
    name: str,
    template: object,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A pod of a template, owned by somebody."""
    given = mapping(template)
    metadata = mapping(given.get("metadata"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {**mapping(metadata.get("labels")), **(labels or {})},
            "annotations": {**_life(owner), **mapping(metadata.get("annotations")), **(annotations or {})},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": mapping(given.get("spec")),
    }


def child_of(
    owner: KubeObject, api_version: str, kind: str, name: str, spec: Json, metadata: Mapping[str, Any] | None = None
) -> Json:
    """An object that is made of another."""
    given = dict(metadata or {})
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": mapping(given.get("labels")),
            "annotations": {**_life(owner), **mapping(given.get("annotations"))},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": spec,
    }


def _life(owner: KubeObject) -> dict[str, str]:
    annotations = owner.metadata.annotations
    return {key: annotations[key] for key in LIFE if key in annotations}


def digest(value: object, length: int = 8) -> str:
    """A few letters that stand for a value."""
    return f"{zlib.crc32(msgspec.json.encode(value)):08x}"[:length]


def with_labels(template: object, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Json:
    """A template whose pods have more labels and annotations."""
    given = mapping(template)
    metadata = mapping(given.get("metadata"))
    return {
        **given,
        "metadata": {
            **metadata,
            "labels": {**mapping(metadata.get("labels")), **labels},
            "annotations": {**mapping(metadata.get("annotations")), **(annotations or {})},
        },
    }


def is_running(pod: Pod | None) -> bool:
    """Whether a pod runs, or has run to its end well."""
    return pod is not None and pod.status.phase in ("Running", "Succeeded") and pod.metadata.deletion_timestamp is None


def is_active(pod: Pod) -> bool:
    """Whether a pod has not ended yet."""
    return pod.status.phase not in _ENDED and pod.metadata.deletion_timestamp is None


def n_with(pods: Iterable[Pod], phase: str) -> int:
    """How many pods are in a phase."""
    return sum(pod.status.phase == phase for pod in pods)


def is_finished(thing: ForeignWorkload | None, condition: str = "") -> bool:
    """Whether the status of a Job or of its like says that it has ended, or has ended so."""
    found = [] if thing is None else thing.status.get("conditions") or []
    ends = {each.get("type") for each in found if each.get("status") == "True"}
    return bool(ends & ({condition} if condition else {"Complete", "Failed", "Completed", "Succeeded"}))
