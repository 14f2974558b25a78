"""Who leads, and which shards there are: read by whoever wants to show it, apart from the watches.

Leases are found by the label that candidates put on them; whoever may not list those of all namespaces is asked for the
one that they live in. A time is by the holder's clock, so that "renewed so long ago" is wrong by as much as two clocks
differ: it says nothing about whether a candidate may take over, which is judged by `leases`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from muster.api.definitions import MANAGED_BY
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client.leases import Lease
from muster.cluster.kubernetes.client.requests import FORBIDDEN, ApiError

Read = Callable[[str], bytes]

_ROOT: Final = "/apis/coordination.k8s.io/v1"
_SELECTED: Final = "leases?labelSelector=" + ",".join(f"{key}%3D{value}" for key, value in MANAGED_BY.items())
_SHARDS: Final = f"/apis/{NodeShard.api_version}/nodeshards"
_NOT_FOUND: Final = 404


class _Leases(msgspec.Struct):
    items: list[Lease]


class _Shards(msgspec.Struct):
    items: list[NodeShard]


@dataclass(frozen=True, slots=True)
class Leader:
    """A lease, and who holds it; "": nobody does."""

    lease: str
    namespace: str
    holder: str
    #: Seconds since the epoch; None: never, or nobody can read it.
    since: float | None
    renewed: float | None
    duration_s: int
    changes: int


def read_leaders(read: Read, namespace: str) -> list[Leader]:
    """The leases of all namespaces that we may see, else of one. Raises BackendError."""
    try:
        found = read(f"{_ROOT}/{_SELECTED}")
    except ApiError as fault:
        if fault.status != FORBIDDEN:
            raise
        found = read(f"{_ROOT}/namespaces/{namespace}/{_SELECTED}")
    leases = msgspec.json.decode(found, type=_Leases).items
    return sorted(map(_leader, leases), key=lambda leader: (leader.namespace, leader.lease))


def read_shards(read: Read) -> list[NodeShard]:
    """All NodeShards; none where the cluster does not have the kind. Raises BackendError."""
    try:
        return msgspec.json.decode(read(_SHARDS), type=_Shards).items
    except ApiError as fault:
        if fault.status in (_NOT_FOUND, FORBIDDEN):
            return []
        raise


def _leader(lease: Lease) -> Leader:
    spec = lease.spec
    return Leader(
        lease.metadata.name,
        lease.metadata.namespace,
        spec.holder_identity,
        _seconds(spec.acquire_time),
        _seconds(spec.renew_time),
        spec.lease_duration_seconds,
        spec.lease_transitions,
    )


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
