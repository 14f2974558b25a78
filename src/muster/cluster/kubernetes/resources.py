"""Which of the kinds that Muster knows an API server has, and under which paths.

Kinds whose definitions are not installed are simply not there: Muster runs with Volcano's objects, with KAI's, with
both, or with plain pods alone. A kind that several projects have (Topology) is wanted from each of them, in the first
of its versions that the server has. Asked at the start, and from time to time for what was missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.api import KINDS, KubeObject, Node, Pod
from muster.api.kinds import ALSO_IN
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client import ApiError, Client


class _Served(msgspec.Struct):
    name: str
    kind: str


class _ServedList(msgspec.Struct):
    resources: list[_Served] = []


_SERVED = msgspec.json.Decoder(_ServedList)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind on one server."""

    type: type[KubeObject]
    #: The part of the path that names group and version.
    root: str
    plural: str
    #: Whether the status is written apart from the rest; Volcano's own definition of PodGroup has it not.
    has_status: bool = True

    @property
    def name(self) -> str:
        """What roles call it: the plural, with the API group where there is one."""
        group = self.root.removeprefix("/apis/").rpartition("/")[0] if self.root.startswith("/apis/") else ""
        return f"{self.plural}.{group}" if group else self.plural

    @property
    def path(self) -> str:
        """Where all objects of the kind are listed, of all namespaces."""
        return f"{self.root}/{self.plural}"

    def path_of(self, key: str) -> str:
        """Where one object is; names of objects need no escaping."""
        namespace, _, name = key.rpartition("/")
        return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}" if namespace else f"{self.path}/{name}"

    def status_path_of(self, key: str) -> str:
        """Where the status of one object is written."""
        return f"{self.path_of(key)}/status" if self.has_status else self.path_of(key)


def root_of(api_version: str) -> str:
    """The path of a group and version; the oldest group has none."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A kind of one API group, and the versions that will do, best first."""

    type: type[KubeObject]
    api_versions: tuple[str, ...]


def wanted_of(kind: type[KubeObject]) -> list[Wanted]:
    """Where a kind may be found, one entry per API group."""
    versions: dict[str, list[str]] = {}
    for api_version in (kind.api_version, *ALSO_IN.get(kind, ())):
        versions.setdefault(api_version.rpartition("/")[0], []).append(api_version)
    return [Wanted(kind, tuple(known)) for known in versions.values()]


#: What there is no scheduling without; a NodeShard only where somebody asks for one.
REQUIRED: Final[frozenset[type[KubeObject]]] = frozenset({Pod, Node, NodeShard})
#: Everything that scheduling reads.
EVERYTHING: Final = tuple(wanted for kind in KINDS.values() for wanted in wanted_of(kind))


#: A kind that only Volcano's own installation has: where it is, its controllers are.
_OF_VOLCANOS_CONTROLLERS: Final = ("bus.volcano.sh/v1alpha1", "Command")


async def has_volcanos_controllers(client: Client) -> bool:
    """Whether Volcano's controllers are installed. Raises ApiError."""
    api_version, kind = _OF_VOLCANOS_CONTROLLERS
    return kind in (await _names(client, api_version)).values()


async def served(client: Client, wanted: Iterable[Wanted] = EVERYTHING) -> dict[Wanted, Resource]:
    """Return those of the wanted kinds that the server has, in the order given. Raises ApiError."""
    names: dict[str, dict[str, str]] = {}
    found = {}
    for each in wanted:
        for api_version in each.api_versions:
            if api_version not in names:
                names[api_version] = await _names(client, api_version)
            resource = _resource(each.type, api_version, names[api_version])
            if resource is not None:
                found[each] = resource
                break
    return found


def _resource(kind: type[KubeObject], api_version: str, names: Mapping[str, str]) -> Resource | None:
    plural = next((name for name, of in names.items() if of == kind.kind and "/" not in name), None)
    if plural is None:
        return None
    return Resource(kind, root_of(api_version), plural, has_status=f"{plural}/status" in names)


async def _names(client: Client, api_version: str) -> dict[str, str]:
    """The kinds under a group and version by their names in paths, parts of objects ("pods/status") included."""
    try:
        answer = await client.send("GET", root_of(api_version))
    except ApiError as fault:
        if fault.status == 404:
            return {}
        raise
    return {known.name: known.kind for known in _SERVED.decode(answer).resources}
