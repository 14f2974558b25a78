"""Device claims (dynamic resource allocation) as amounts of a resource `deviceclass/<name>`.

A pod's claims count towards its request, so that queues can limit device classes, and the devices that slices
offer count as capacity of their nodes. A device belongs to a class if the class has no selector or selects by
driver (`device.driver == "..."`); of a class with any other selector no device is offered: a pod waits rather than
lands on a node without its device. Without any slice in the cluster nodes are not limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from muster.api import DeviceClass, Pod, ResourceClaim, ResourceSlice

PREFIX = "deviceclass/"
#: Amounts of devices are kept in thousandths, like everything that is neither bytes nor pods.
_UNIT = 1000
#: What a node offers when nobody says what it has: more than any cluster asks for, small enough to be summed.
NOT_LIMITED = 2**40

_BY_DRIVER = re.compile(r"""^\s*device\.driver\s*==\s*(['"])(?P<driver>[^'"]+)\1\s*$""")


def claim_keys(pod: Pod) -> list[str]:
    """Claims that a pod names, as "namespace/name"."""
    names = (claim.resource_claim_name for claim in pod.spec.resource_claims)
    return [f"{pod.namespace}/{name}" for name in names if name]


def claimed(claims: Iterable[ResourceClaim]) -> dict[str, int]:
    """Amounts per device class that claims ask for."""
    amounts: dict[str, int] = {}
    for claim in claims:
        for request in _list(_map(claim.spec.get("devices")).get("requests")):
            wanted = _map(request.get("exactly")) or request
            name, count = wanted.get("deviceClassName"), wanted.get("count", 1)
            if isinstance(name, str) and isinstance(count, int):
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
        count = len(_list(one.spec.get("devices"))) * _UNIT
        amounts = nodes.setdefault(node, {})
        for name, allowed in drivers.items():
            if allowed is None or allowed == {driver}:
                amounts[PREFIX + name] = amounts.get(PREFIX + name, 0) + count
    return nodes


def _drivers(known: DeviceClass) -> set[str] | None:
    """Drivers that a class selects; None: any; an empty set: a selector that is not understood."""
    drivers: set[str] | None = None
    for selector in _list(known.spec.get("selectors")):
        match = _BY_DRIVER.match(str(_map(selector.get("cel")).get("expression", "")))
        found = {match["driver"]} if match else set()
        drivers = found if drivers is None else drivers & found
    return drivers


def _map(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
