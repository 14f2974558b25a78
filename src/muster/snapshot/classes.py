"""Task classes: what must be equal for two pods to be interchangeable on nodes.

Two tasks are of one class when they request the same and when everything on their pods that restricts or ranks
nodes by the nodes' own objects is the same. What depends on other pods (ports, pod affinity, spreading) is not
part of the class: such tasks carry a flag and are checked one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from muster.api import Pod, is_best_effort, is_critical, is_preemptable, names, pod_request, pod_scoring_request
from muster.api.objects.pod import mounts_of
from muster.snapshot.devices import claim_keys
from muster.snapshot.tables import BEST_EFFORT, CRITICAL, GATED, NEEDS_LIVE_CHECK, PREEMPTABLE

_encode = msgspec.json.Encoder(order="deterministic").encode

#: Annotations that say which nodes are better for a pod.
_RANKING: Final = (names.STRATEGY_TYPE, names.STRATEGY_WEIGHT)


class PodShape(msgspec.Struct, frozen=True):
    """What the mirror keeps of a pod besides the pod itself."""

    request: dict[str, int]
    scoring: dict[str, int]
    key: bytes
    flags: int


def shape_of(pod: Pod, devices: Mapping[str, int]) -> PodShape:
    """Derive requests, class key and flags of a pod; `devices` is what its claims ask for."""
    request = {**pod_request(pod), **devices}
    scoring = pod_scoring_request(pod)
    flags = PREEMPTABLE if is_preemptable(pod) else 0
    if is_critical(pod):
        flags |= CRITICAL
    if is_best_effort(request):
        flags |= BEST_EFFORT
    if pod.spec.scheduling_gates:
        flags |= GATED
    if needs_live_check(pod):
        flags |= NEEDS_LIVE_CHECK
    return PodShape(request, scoring, _encode((request, scoring, _constraints(pod))), flags)


def needs_live_check(pod: Pod) -> bool:
    """Do other pods decide where this pod may go, or how good a node is for it?"""
    spec = pod.spec
    affinity = spec.affinity
    if spec.topology_spread_constraints:
        return True
    if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
        return True
    containers = (*spec.containers, *spec.init_containers)
    return any(port.host_port for container in containers for port in container.ports)


def _constraints(pod: Pod) -> object:
    spec = pod.spec
    # A claim that was made for one pod is no other's, whatever their names.
    claims = [(mount.claim, pod.metadata.uid if mount.is_ephemeral else "") for mount in mounts_of(pod)]
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    wishes = [pod.metadata.annotations.get(name) for name in _RANKING]
    has_wishes = any(wish is not None for wish in wishes)
    if not (spec.node_selector or node_affinity or spec.tolerations or claims or spec.resource_claims or has_wishes):
        return None
    namespace = pod.namespace if claims or spec.resource_claims else ""
    devices = (spec.resource_claims, claim_keys(pod)) if spec.resource_claims else ()
    constraints = (spec.node_selector, node_affinity, spec.tolerations, claims, devices, namespace)
    return (constraints, wishes) if has_wishes else constraints
