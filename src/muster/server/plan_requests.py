"""Requests to an API server that plans of controllers are made of, one method for each kind of action.

What a request answers is taken in at once, by `learn`. An object that stands already is no fault if it was made for the
same owner; one that is gone already is none either. Whatever else goes wrong is said in words, or raised.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from muster.api.names import OUT_OF_SYNC
from muster.api.objects.meta import DEFAULT_NAMESPACE
from muster.cluster.kubernetes.client.kinds import names_of, root_of
from muster.cluster.kubernetes.client.requests import FORBIDDEN, JSON, MERGE_PATCH, NOT_FOUND, ApiError, Client
from muster.controllers.contract import (
    Action,
    Apply,
    Ask,
    Create,
    Delete,
    Fetch,
    Json,
    Patch,
    Target,
    Tell,
    WriteStatus,
    stamp,
)
from muster.server.discovery import ask_outside

log = logging.getLogger("muster.controllers")

JSON_PATCH: Final = "application/json-patch+json"
CONFLICT: Final = 409
#: Seconds for which it is known how the kinds of an API group are called in paths.
_NAMES_SECONDS: Final = 60.0
#: How kinds are called in paths.
_PLURALS: Final = {
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Event": "events",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "NetworkPolicy": "networkpolicies",
    "PodGroup": "podgroups",
    "Job": "jobs",
    "Command": "commands",
    "Queue": "queues",
    "HyperNode": "hypernodes",
    "Topology": "topologies",
    "JobFlow": "jobflows",
    "JobTemplate": "jobtemplates",
    "CronJob": "cronjobs",
}


class Sender:
    """Carries out actions, one request or a few for each."""

    def __init__(self, client: Client, learn: Callable[[Target, bytes], None]) -> None:
        self._client = client
        self._learn = learn
        self._applied: dict[tuple[str, str], bytes] = {}
        #: Kinds whose status is written apart from the rest, as far as the server was asked.
        self.has_status: dict[str, bool] = {}
        #: How kinds are called in paths, by API version, and when that was asked.
        self._names: dict[str, tuple[float, dict[str, str]]] = {}

    def forget(self, kind: str, key: str) -> None:
        """An object is gone: what was applied to it is, too."""
        self._applied.pop((kind, key), None)

    async def do(self, action: Action, hear: Callable[[Ask, bytes], str]) -> str:
        """Carry out an action; say what went wrong. `hear` takes answers from outside. Raises BackendError."""
        match action:
            case Create(document):
                return await self._create(document)
            case Apply(document):
                return await self._apply(document)
            case Delete(target, mark):
                return await self._delete(target, mark=mark)
            case Patch(target, merge, of_status):
                return await self._patch(target, merge, of_status=of_status)
            case WriteStatus(target, status, version):
                return await self._write_status(target, status, version)
            case Tell():
                return await self._tell(action)
            case Ask():
                return hear(action, await ask_outside(self._client, action))
            case Fetch(target, answer):
                answer(*await self._fetch(target))
                return ""

    async def _create(self, document: Json) -> str:
        key = _key(document)
        kind = document["kind"]
        target = Target(document["apiVersion"], kind, key)
        try:
            answer = await self._client.send("POST", _collection(target), msgspec.json.encode(document))
        except ApiError as fault:
            if fault.status != CONFLICT:
                raise
            return await self._is_ours(target, document)
        self._learn(target, answer)
        return ""

    async def _is_ours(self, target: Target, document: Json) -> str:
        """Whether an object that stands already was made for the same owner; it may be on its way out."""
        answer = await self._get(target)
        if answer is None:
            return f"{target.kind} {target.key} was there a moment ago"
        stands = msgspec.json.decode(answer, type=dict[str, Any])["metadata"]
        owners = {each["uid"] for each in document["metadata"].get("ownerReferences") or ()}
        is_same = not owners or any(each.get("uid") in owners for each in stands.get("ownerReferences") or ())
        if not is_same or stands.get("deletionTimestamp"):
            return f"{target.kind} {target.key} exists already, and is another's or about to go"
        self._learn(target, answer)
        return ""

    async def _apply(self, document: Json) -> str:
        key = document["kind"], _key(document)
        body = msgspec.json.encode(document)
        digest = hashlib.sha256(body).digest()
        if self._applied.get(key) == digest:
            return ""
        target = Target(document["apiVersion"], document["kind"], key[1])
        try:
            await self._client.send("POST", _collection(target), body)
        except ApiError as fault:
            if fault.status != CONFLICT:
                raise
            await self._client.send("PATCH", _path(target), body, content_type=MERGE_PATCH)
        self._applied[key] = digest
        return ""

    async def _delete(self, target: Target, *, mark: bool) -> str:
        self._applied.pop((target.kind, target.key), None)
        if mark:
            await self._patch(target, {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}})
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if target.uid:
            options["preconditions"] = {"uid": target.uid}
        try:
            answer = await self._client.send("DELETE", _path(target), msgspec.json.encode(options))
        except ApiError as fault:
            if fault.status not in (NOT_FOUND, CONFLICT):
                raise
            return ""
        if b'"deletionTimestamp"' in answer:
            self._learn(target, answer)
        return ""

    async def _patch(self, target: Target, merge: Json, *, of_status: bool = False) -> str:
        # Of another object with the same name nothing is wanted.
        guarded = {**merge, "metadata": {**merge.get("metadata", {}), **({"uid": target.uid} if target.uid else {})}}
        path = self._status_path(target) if of_status else _path(target)
        return await self._change(path, msgspec.json.encode(guarded), MERGE_PATCH, target)

    async def _write_status(self, target: Target, status: Json, version: str) -> str:
        operations: list[Json] = [{"op": "add", "path": "/status", "value": status}]
        if version:
            operations.insert(0, {"op": "replace", "path": "/metadata/resourceVersion", "value": version})
        return await self._change(self._status_path(target), msgspec.json.encode(operations), JSON_PATCH, target)

    def _status_path(self, target: Target) -> str:
        is_own = target.api_version.startswith("scheduling.k8s.io/")  # of Kubernetes itself
        return f"{_path(target)}/status" if is_own or self.has_status.get(target.kind, True) else _path(target)

    async def _change(self, path: str, body: bytes, content_type: str, target: Target) -> str:
        try:
            answer = await self._client.send("PATCH", path, body, content_type=content_type)
        except ApiError as fault:
            if fault.status == NOT_FOUND:
                return ""
            if fault.status != CONFLICT:
                raise
            fresh = await self._get(target)
            if fresh is not None:
                self._learn(target, fresh)
            return f"{target.kind} {target.key} has changed meanwhile"
        self._learn(target, answer)
        return ""

    async def _get(self, target: Target) -> bytes | None:
        try:
            return await self._client.send("GET", _path(target))
        except ApiError as fault:
            if fault.status == NOT_FOUND:
                return None
            raise

    async def _fetch(self, target: Target) -> tuple[Json | None, str]:
        """Read an object of whatever kind; where there is none, why. Raises ApiError for what may pass."""
        plural = (await self._names_of(target.api_version)).get(target.kind)
        if plural is None:
            return None, f"is of a kind that the server does not have in {target.api_version}"
        namespace, _, name = target.key.rpartition("/")
        path = f"{root_of(target.api_version)}/namespaces/{namespace}/{plural}/{name}"
        try:
            body = await self._client.send("GET", path)
        except ApiError as fault:
            if fault.status not in (NOT_FOUND, FORBIDDEN):
                raise
            return None, "is not there" if fault.status == NOT_FOUND else "may not be read"
        return msgspec.json.decode(body, type=dict[str, Any]), ""

    async def _names_of(self, api_version: str) -> dict[str, str]:
        """How kinds are called in paths."""
        moment, names = self._names.get(api_version, (-math.inf, {}))
        if moment < time.monotonic() - _NAMES_SECONDS:
            found = await names_of(self._client, api_version)
            names = {kind: name for name, kind in found.items() if "/" not in name}
            self._names[api_version] = time.monotonic(), names
        return names

    async def _tell(self, told: Tell) -> str:
        """Make an event; nothing depends on it."""
        now = stamp(int(time.time())).strftime("%Y-%m-%dT%H:%M:%SZ")
        target = told.target
        namespace, _, name = target.key.rpartition("/")
        namespace = namespace or DEFAULT_NAMESPACE
        document = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": target.api_version,
                "kind": target.kind,
                "namespace": namespace,
                "name": name,
                "uid": target.uid,
            },
            "reason": told.reason,
            "message": told.message[:1024],
            "type": "Warning" if told.is_warning else "Normal",
            "source": {"component": "muster-controllers"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        log.info("event=%s object=%s message=%r", told.reason, target.key, told.message)
        try:
            path = _collection(Target("v1", "Event", f"{namespace}/{name}"))
            await self._client.send("POST", path, msgspec.json.encode(document), content_type=JSON, attempts=2)
        except ApiError as fault:
            log.warning("event=event-not-written object=%s error=%r", target.key, str(fault))
        return ""


def _key(document: Json) -> str:
    return "/".join(filter(None, (document["metadata"].get("namespace"), document["metadata"]["name"])))


def _collection(target: Target) -> str:
    namespace = target.key.rpartition("/")[0]
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{root_of(target.api_version)}{within}/{_PLURALS[target.kind]}"


def _path(target: Target) -> str:
    return f"{_collection(target)}/{target.key.rpartition('/')[2]}"
