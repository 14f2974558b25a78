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
