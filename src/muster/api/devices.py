"""Device claims (``resource.k8s.io/v1``): read and kept; nothing of them is ever written.

Specs and statuses stay as they were written; what is made of them is in `muster.snapshot.devices`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from muster.api.meta import KubeObject


class ResourceClaim(KubeObject):
    """A wish for devices."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceClaim"

    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written
    status: dict[str, Any] = field(default_factory=dict)  # Any: kept as written


def requested_devices(claim: ResourceClaim) -> dict[str, int]:
    """How many devices of which class a claim asks for; what no server would write asks for none."""
    counts: dict[str, int] = {}
    for request in as_list(as_map(claim.spec.get("devices")).get("requests")):
        wanted = as_map(request.get("exactly")) or request
        name, count = wanted.get("deviceClassName"), wanted.get("count", 1)
        if isinstance(name, str) and isinstance(count, int):
            counts[name] = counts.get(name, 0) + count
    return counts


def as_map(value: object) -> dict[str, object]:
    """A mapping of a document that is kept as written; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[dict[str, object]]:
    """The mappings in a list of such a document."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class DeviceClass(KubeObject):
    """A kind of device."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "DeviceClass"
    namespaced: ClassVar[bool] = False

    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written


class ResourceSlice(KubeObject):
    """Devices that a node has."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceSlice"
    namespaced: ClassVar[bool] = False

    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written
