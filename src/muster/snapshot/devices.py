"""Device claims (dynamic resource allocation) as amounts of a resource `deviceclass/<name>`, and what holds pods back.

A pod's claims count towards its request, so that queues can limit device classes, and the devices that slices
offer count as capacity of their nodes. A device belongs to a class if the class has no selector or selects by
driver (`device.driver == "..."`); of a class with any other selector no device is offered: a pod waits rather than
lands on a node without its device. Without any slice in the cluster nodes are not limited.

Where nobody allocates claims to the pods that are bound, as on every real cluster so far, a pod is held back until all
its claims are allocated, and goes only where the devices are (`device_nodes`). A pod that asks for part of a GPU in
KAI's annotations is held back everywhere: placed as if it asked for nothing, it would land on nodes without GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from muster.api import DeviceClass, Pod, ResourceClaim, ResourceSlice
from muster.api.names import GPU_FRACTION, GPU_MEMORY
from muster.api.objects.claims import as_list, as_map, requested_devices
from muster.api.objects.node import NodeSelector
from muster.snapshot.tables import Hold

PREFIX = "deviceclass/"
#: Amounts of devices are kept in thousandths, like everything that is neither bytes nor pods.
_UNIT = 1000
#: What a node offers when nobody says what it has: more than any cluster asks for, small enough to be summed.
NOT_LIMITED = 2**40
_BY_DRIVER = re.compile(r"""^\s*device\.driver\s*==\s*(['"])(?P<driver>[^'"]+)\1\s*$""")
#: Pods that a claim may be reserved for at once, as the API server has it.
_MOST_CONSUMERS = 256


def claim_keys(pod: Pod) -> list[str]:
    """Claims that a pod names, or that were made for it from a template, as "namespace/name"."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    names = (claim.resource_claim_name or made.get(claim.name) for claim in pod.spec.resource_claims)
    return [f"{pod.namespace}/{name}" for name in names if name]


def hold_of(pod: Pod, claims: Mapping[str, ResourceClaim] | None) -> Hold | None:
    """Why a pod may not be placed as it is, if so; `claims` are those that must be allocated first, None: none."""
    annotations = pod.metadata.annotations
    part = next((key for key in (GPU_FRACTION, GPU_MEMORY) if annotations.get(key)), None)
    if part is not None:
        return Hold("gpu-part", f'{pod.key} has the annotation {part}: "{annotations[part]}"')
    trouble = "" if claims is None or not pod.spec.resource_claims else _unallocated(pod, claims)
    return Hold("device-claim", trouble) if trouble else None


def _unallocated(pod: Pod, claims: Mapping[str, ResourceClaim]) -> str:
    """What keeps a pod from using its claims, in words; "" if all of them are allocated and can be reserved for it."""
    statuses = {status.name for status in pod.status.resource_claim_statuses}
    for wanted in pod.spec.resource_claims:
        if wanted.resource_claim_template_name and not wanted.resource_claim_name and wanted.name not in statuses:
            return f"the claim {wanted.name} of {pod.key} has not been made from its template yet"
    return next(filter(None, (_trouble(pod, key, claims.get(key)) for key in claim_keys(pod))), "")


def _trouble(pod: Pod, key: str, claim: ResourceClaim | None) -> str:
    if claim is None:
        return f"the claim {key} does not exist"
    if claim.metadata.deletion_timestamp is not None:
        return f"the claim {key} is being deleted"
    if not as_map(claim.status.get("allocation")):
        return f"the claim {key} is not allocated"
    consumers = as_list(claim.status.get("reservedFor"))
    is_ours = any(each.get("uid") == pod.metadata.uid for each in consumers)
    return "" if is_ours or len(consumers) < _MOST_CONSUMERS else f"the claim {key} is reserved for others"


def device_nodes(claims: Iterable[ResourceClaim]) -> Iterator[NodeSelector]:
    """Where allocated devices can be used from; nothing of a claim that is not allocated, or usable everywhere."""
    for claim in claims:
        given = as_map(claim.status.get("allocation")).get("nodeSelector")
        if given is not None:
            try:
                yield msgspec.convert(given, NodeSelector)
            except msgspec.ValidationError:
                yield NodeSelector()  # what cannot be read selects nothing


def claimed(claims: Iterable[ResourceClaim]) -> dict[str, int]:
    """Amounts per device class that claims ask for."""
    amounts: dict[str, int] = {}
    for claim in claims:
        for name, count in requested_devices(claim).items():
            amounts[PREFIX + name] = amounts.get(PREFIX + name, 0) + count * _UNIT
    return amounts


def offered(slices: Iterable[ResourceSlice], classes: Mapping[str, DeviceClass]) -> dict[str, dict[str, int]]:
    """Amounts per device class that slices offer, by node."""
    drivers = {name: _drivers(known) for name, known in classes.items()}
    nodes: dict[str, dict[str, int]] = {}
    for one in slices:
        node, driver = one.spec.get("nodeName"), one.spec.get("driver")
        if not isinstance(node, str):
            continue
        count = len(as_list(one.spec.get("devices"))) * _UNIT
        amounts = nodes.setdefault(node, {})
        for name, allowed in drivers.items():
            if allowed is None or allowed == {driver}:
                amounts[PREFIX + name] = amounts.get(PREFIX + name, 0) + count
    return nodes


def _drivers(known: DeviceClass) -> set[str] | None:
    """Drivers that a class selects; None: any; an empty set: a selector that is not understood."""
    drivers: set[str] | None = None
    for selector in as_list(known.spec.get("selectors")):
        match = _BY_DRIVER.match(str(as_map(selector.get("cel")).get("expression", "")))
        found = {match["driver"]} if match else set()
        drivers = found if drivers is None else drivers & found
    return drivers


class PodHolds:
    """Claims, who names them, and namespaces that are being deleted.

    `allocates_claims`: whether the cluster gives devices to the pods that are bound.
    """

    def __init__(self, *, allocates_claims: bool) -> None:
        self._allocates_claims = allocates_claims
        self._claims: dict[str, ResourceClaim] = {}
        #: Pods by the claim that they name.
        self._claimants: dict[str, set[str]] = {}
        self._ending: set[str] = set()

    def set_claim(self, key: str, claim: ResourceClaim | None) -> Iterable[str]:
        """Take in a new or changed claim, or None for one that is gone; returns the pods that name it."""
        if claim is None:
            self._claims.pop(key, None)
        else:
            self._claims[key] = claim
        return sorted(self._claimants.get(key, ()))

    def set_namespace(self, name: str, *, is_ending: bool) -> bool:
        """Note whether a namespace is being deleted; returns whether that is news."""
        is_news = is_ending != (name in self._ending)
        (self._ending.add if is_ending else self._ending.discard)(name)
        return is_news

    def change(self, before: Pod, after: Pod) -> None:
        """Note which claims a pod names now."""
        if not before.spec.resource_claims and not after.spec.resource_claims:
            return
        named = set(claim_keys(after))
        for key in claim_keys(before):
            if key not in named and key in self._claimants:
                self._claimants[key].discard(before.key)
                if not self._claimants[key]:
                    del self._claimants[key]
        for key in named:
            self._claimants.setdefault(key, set()).add(after.key)

    def devices_of(self, pod: Pod) -> dict[str, int]:
        """What a pod's claims ask for, by device class."""
        if not pod.spec.resource_claims:
            return {}
        return claimed(self._claims[key] for key in claim_keys(pod) if key in self._claims)

    def hold_of(self, pod: Pod, *, foreign: bool) -> Hold | None:
        """Whether and why a pod is held back."""
        if foreign or pod.spec.node_name:
            return None
        if pod.namespace in self._ending:  # the server refuses every binding there
            return Hold("namespace", pod.namespace)
        return hold_of(pod, None if self._allocates_claims else self._claims)
