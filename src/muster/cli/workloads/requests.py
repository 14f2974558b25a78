"""One request after the other to a live cluster, with answers and errors as commands need them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from muster.api import BackendError, KubeObject, UserError
from muster.api.objects.batch import Command
from muster.api.quantity import Quantity
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.kinds import root_of
from muster.cluster.kubernetes.client.requests import FORBIDDEN, NOT_FOUND, ApiError, Client

Json = dict[str, Any]  # Any: documents
_T = TypeVar("_T")
_PLURALS: Final[dict[str, str]] = {"Job": "jobs", "Queue": "queues", "Command": "commands", "PodGroup": "podgroups"}
_CONFLICT: Final = 409
_INVALID: Final = frozenset({400, 422})


@dataclass(frozen=True, slots=True)
class Server:
    """An API server that is asked now and then. Everything here raises MusterError."""

    kubeconfig: Path | None = None
    context: str | None = None

    def get(self, kind: type[KubeObject], key: str) -> Json:
        return self._send("GET", kind, key)

    def list(self, path: str) -> list[Json]:
        """Objects under a path, with its query."""
        answer = self._ask(lambda client: client.send("GET", path))
        items: list[Json] = msgspec.json.decode(answer).get("items", [])
        return items

    def create(self, kind: type[KubeObject], document: Json) -> Json:
        metadata = document["metadata"]
        key = f"{metadata['namespace']}/{metadata.get('name', '')}" if kind.namespaced else str(metadata["name"])
        return self._send("POST", kind, key, document)

    def delete(self, kind: type[KubeObject], key: str) -> None:
        self._send(
            "DELETE", kind, key, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        )

    def tell(self, target: Json, namespace: str, action: str) -> None:
        """Leave a Command for a controller to find."""
        metadata = target["metadata"]
        reference = {
            "apiVersion": target["apiVersion"],
            "kind": target["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        head: Json = {"generateName": f"{metadata['name']}-{action.lower()}-", "namespace": namespace}
        # A Command that nobody takes goes with what it is about, where both are in one namespace.
        if metadata.get("namespace") == namespace:
            head["ownerReferences"] = [reference]
        kind = {"apiVersion": Command.api_version, "kind": Command.kind}
        self.create(Command, {**kind, "metadata": head, "action": action, "target": reference})

    def _send(self, method: str, kind: type[KubeObject], key: str, body: Json | None = None) -> Json:
        namespace, _, name = key.rpartition("/")
        within = f"/namespaces/{namespace}" if kind.namespaced else ""
        path = f"{root_of(kind.api_version)}{within}/{_PLURALS[kind.kind]}"
        if method != "POST":
            path = f"{path}/{name}"
        content = None if body is None else msgspec.json.encode(body)
        answer = self._ask(lambda client: client.send(method, path, content), f"{kind.kind} {key}")
        found: Json = msgspec.json.decode(answer)
        return found

    def _ask(self, request: Callable[[Client], Awaitable[_T]], subject: str = "") -> _T:
        async def run() -> _T:
            client = Client(await connect(self.kubeconfig, self.context))
            try:
                return await request(client)
            except ApiError as fault:
                raise _told(fault, subject) or client.explain(fault) from None
            finally:
                await client.close()

        return asyncio.run(run())


def _told(fault: ApiError, subject: str) -> UserError | BackendError | None:
    """What is wrong with the request, in a user's words; None: it is the server."""
    if fault.status == NOT_FOUND:
        hint = " (`muster crds install` makes the kinds)" if fault.reason != "NotFound" else ""
        return UserError(f"there is none on the cluster{hint}", subject=subject)
    if fault.status == _CONFLICT:
        return UserError("exists already", subject=subject)
    if fault.status in _INVALID or fault.status == FORBIDDEN:
        return UserError(str(fault), subject=subject)
    return None


def amounts(text: str, option: str) -> dict[str, str]:
    """Read "cpu=1,memory=1Gi". Raises UserError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, given, amount = part.partition("=")
        try:
            if not given or not name.strip():
                raise ValueError  # noqa: TRY301  # one error for both
            found[name.strip()] = str(Quantity(amount.strip()))
        except ValueError:
            raise UserError(f'{option}: expected amounts such as "cpu=1,memory=1Gi", got "{part}"') from None
    return found
