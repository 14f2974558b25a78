"""Carrying decisions out: what to do with each answer of the API server.

Each coroutine sends one decision and returns "" when it holds, else what is wrong; none raises. They run inside the
backend's event loop, many at once (`lanes`). A request without an answer may have been carried out, so the pod is
looked at before anything is given back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from muster.api import KubeObject, Pod
from muster.cluster.kubernetes import calls
from muster.cluster.kubernetes.calls import Call
from muster.cluster.kubernetes.client import ApiError, Client
from muster.cluster.kubernetes.decoding import ObjectDecoder

GONE: Final = "the pod is gone"
REPLACED: Final = "the object is gone, or was made anew"


class Race(str):
    """What is wrong where somebody else was faster: the next decision may well hold."""

    __slots__ = ()


class Unheard(str):
    """What is wrong where the server gave no answer, or none that says no: trying again may well help."""

    __slots__ = ()


class _Meta(msgspec.Struct):
    uid: str = ""


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Seen(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


_SEEN = msgspec.json.Decoder(_Seen)
_POD = ObjectDecoder(Pod)


async def bind(client: Client, pod: Pod, node: str) -> str:
    """Put a pod on a node."""
    try:
        await _send(client, calls.bind(pod, node))
    except ApiError as fault:
        if fault.status == 404:
            return GONE
        # A conflict may be our own earlier attempt that got through although its answer was lost.
        if fault.status == 409 or fault.retryable:
            return await _where(client, pod, node, _said(fault))
        return _said(fault)
    return ""


async def _where(client: Client, pod: Pod, node: str, error: str) -> str:
    """Return "" when the pod turns out to be on the node after all."""
    try:
        seen = _SEEN.decode(await _send(client, calls.read(pod)))
    except ApiError as fault:
        return GONE if fault.status == 404 else error
    if seen.metadata.uid != pod.metadata.uid:
        return GONE
    if seen.spec.node_name == node:
        return ""
    return Race(f"the pod is on node {seen.spec.node_name} already") if seen.spec.node_name else error


async def tell(client: Client, call: Call) -> str:
    """Send what is good to know but changes nothing."""
    with contextlib.suppress(ApiError):
        await client.send(call.method, call.path, call.body, content_type=call.content_type, attempts=1)
    return ""


async def confirm(client: Client, pod: Pod, is_confirmed_by: Callable[[KubeObject], bool]) -> str:
    """Look whether a change that no watch has shown has been made; "" as well when that cannot be found out."""
    try:
        found = _POD.decode(await _send(client, calls.read(pod)))
    except ApiError as fault:
        return GONE if fault.status == 404 else ""
    if found.metadata.uid != pod.metadata.uid:
        return GONE
    return "" if is_confirmed_by(found) else "the server accepted it, but it was not done"


async def write(client: Client, *wanted: Call) -> str:
    """Send calls that may be repeated without harm, one after the other."""
    try:
        for call in wanted:
            await _send(client, call)
    except ApiError as fault:
        return _said(fault)
    return ""


def _said(fault: ApiError) -> str:
    if fault.status == 409:
        return Race(fault)
    return Unheard(fault) if fault.retryable else str(fault)


async def _send(client: Client, call: Call) -> bytes:
    return await client.send(call.method, call.path, call.body, content_type=call.content_type)
