"""Muster's objects as documents that a real API server takes, for plays that run on both clusters.

Loaded files and builders leave out what an installation or a workload controller adds: images, limits of devices, the
scheduler's name. A real server insists on some of it, and this is where it is filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.api import KubeObject, encode
from tests.kubernetes.kubectl import Json

SCHEDULER = "volcano"
_BORN_BY_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp")


def document_of(thing: KubeObject, classes: Mapping[int, str]) -> Json:
    """The document that a user would have applied; `classes` names priorities."""
    document: Json = encode(thing)
    meta = document["metadata"]
    document = {
        **document,
        "metadata": {name: value for name, value in meta.items() if name not in _BORN_BY_THE_SERVER},
    }
    if thing.kind == "Pod":
        return _pod(document, classes)
    if thing.kind == "Node":
        status = {name: value for name, value in document["status"].items() if name != "conditions"}
        return {**document, "status": {"capacity": status["allocatable"], **status}}
    return document


def made_anew(document: Json) -> Json:
    """What an owner makes in the place of a pod that is gone."""
    spec = {name: value for name, value in document["spec"].items() if name != "nodeName"}
    return {**document, "spec": spec}


def _pod(document: Json, classes: Mapping[int, str]) -> Json:
    spec = dict(document["spec"])
    if "priority" in spec:  # only the server writes it, from the class
        spec["priorityClassName"] = classes[spec.pop("priority")]
    spec["containers"] = [_container(each) for each in spec["containers"]]
    return {**document, "spec": {"schedulerName": SCHEDULER, **spec, "terminationGracePeriodSeconds": 1}}


def _container(container: Mapping[str, Any]) -> Json:
    """Devices cannot be over-committed: the server wants a limit that equals the request."""
    requests = container.get("resources", {}).get("requests", {})
    devices = {name: amount for name, amount in requests.items() if "/" in name}
    return {"image": "none", **container, "resources": {"requests": requests, "limits": devices}}
