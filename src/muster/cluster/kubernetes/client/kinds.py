"""The kinds that Muster knows, on one API server: where each is, whether it may be read, and objects made from bytes.

Kinds whose definitions are not installed are simply not there: Muster runs with Volcano's objects, with KAI's, with
both, or with plain pods alone. A kind that several projects have (Topology) is wanted from each of them, in the first
of its versions that the server has. Asked at the start, and from time to time for what was missing.
Pods and nodes are what scheduling is about, and a NodeShard that somebody asked for: without the right to read them
there is an error that says which right is missing. Any other kind is left out with one line in the log and asked for
again, less and less often. A right may come a moment late, when account and role have just been made, so nothing is
said before a few seconds have passed.
Decoding makes only the fields that Muster reads. The fast way goes straight into the type; what does not fit at once (a
null where a value belongs, a wrong field) takes the way that files take, which knows nulls and explains what is wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.api import KINDS, BackendError, KubeObject, Node, Pod, UserError, decode, decode_hook
from muster.api.documents import CUT, TOO_DEEP, shallow
from muster.api.kinds import ALSO_IN, stub_of, with_defaults
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client.requests import ApiError, Backoff, Client

log = logging.getLogger("muster.kubernetes")

#: What there is no scheduling without; a NodeShard only where somebody asks for one.
REQUIRED: Final[frozenset[type[KubeObject]]] = frozenset({Pod, Node, NodeShard})
#: A kind that only Volcano's own installation has: where it is, its controllers are.
_OF_VOLCANOS_CONTROLLERS: Final = ("nodeinfo.volcano.sh/v1alpha1", "Numatopology")
#: Seconds that a right has to come.
_PATIENCE_SECONDS: Final = 3.0
#: Seconds between attempts afterwards, at first and in the long run.
_AGAIN_SECONDS: Final = 4.0
_AT_LAST_SECONDS: Final = 60.0
_CUT: Final = CUT.encode()


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


#: Everything that scheduling reads.
EVERYTHING: Final = tuple(wanted for kind in KINDS.values() for wanted in wanted_of(kind))


async def served(client: Client, wanted: Iterable[Wanted] = EVERYTHING) -> dict[Wanted, Resource]:
    """Return those of the wanted kinds that the server has, in the order given. Raises ApiError."""
    kinds = list(wanted)
    versions = list(dict.fromkeys(version for each in kinds for version in each.api_versions))
    answers = await asyncio.gather(*(names_of(client, version) for version in versions))
    names = dict(zip(versions, answers, strict=True))
    found = {}
    for each in kinds:
        resources = (_resource(each.type, version, names[version]) for version in each.api_versions)
        if (resource := next(filter(None, resources), None)) is not None:
            found[each] = resource
    return found


async def has_volcanos_controllers(client: Client) -> bool:
    """Whether Volcano's controllers are installed. Raises ApiError."""
    api_version, kind = _OF_VOLCANOS_CONTROLLERS
    return kind in (await names_of(client, api_version)).values()


def _resource(kind: type[KubeObject], api_version: str, names: Mapping[str, str]) -> Resource | None:
    plural = next((name for name, of in names.items() if of == kind.kind and "/" not in name), None)
    if plural is None:
        return None
    return Resource(kind, root_of(api_version), plural, has_status=f"{plural}/status" in names)


class _Served(msgspec.Struct):
    name: str
    kind: str


class _ServedList(msgspec.Struct):
    resources: list[_Served] = []


_SERVED = msgspec.json.Decoder(_ServedList)


async def names_of(client: Client, api_version: str) -> dict[str, str]:
    """The kinds under a group and version by their names in paths, parts of objects ("pods/status") included."""
    try:
        answer = await client.send("GET", root_of(api_version))
    except ApiError as fault:
        if fault.status == 404:
            return {}
        raise
    return {known.name: known.kind for known in _SERVED.decode(answer).resources}


def root_of(api_version: str) -> str:
    """The path of a group and version; the oldest group has none."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Rights:
    """Those on one kind."""

    def __init__(self, resource: Resource, clock: Callable[[], float]) -> None:
        self._resource = resource
        self._clock = clock
        self._since: float | None = None
        #: The verb that was refused for longer than patience, "" if none is.
        self._told = ""
        self._soon, self._later = _waits()

    @property
    def is_left_out(self) -> bool:
        """Whether nothing can be read, and scheduling goes on without."""
        return self._told == "list" and self._resource.type not in REQUIRED

    def refuse(self, verb: str, fault: ApiError, *, is_start: bool) -> float:
        """Take in a refusal; return how long to wait. Raises BackendError for what nothing can start without."""
        now = self._clock()
        if self._since is None:
            self._since = now
        if not self._told and now - self._since < _PATIENCE_SECONDS:
            return self._soon.next_s()
        if is_start and self._resource.type in REQUIRED:
            raise BackendError(missing_right(verb, self._resource, fault), retryable=False)
        if self._told != verb:
            self._told = verb
            what = "read again now and then" if verb == "watch" else "left out"
            log.warning(
                "event=right-missing verb=%s resource=%s effect=%r error=%r",
                verb,
                self._resource.name,
                what,
                str(fault),
            )
        return self._later.next_s()

    def grant(self) -> None:
        """Take in that everything works."""
        if self._since is None:
            return
        if self._told:
            log.info("event=right-given resource=%s", self._resource.name)
        self._since, self._told = None, ""
        self._soon, self._later = _waits()


def missing_right(verb: str, resource: Resource, fault: ApiError) -> str:
    """What may not be done, and what would be right."""
    needed = f"list and watch {resource.name} everywhere, as the ClusterRole of deploy/ says"
    return f"may not {verb} {resource.name}: the scheduler's account has to be allowed to {needed} ({fault})"


def _waits() -> tuple[Backoff, Backoff]:
    return Backoff(0.2, 1.0), Backoff(_AGAIN_SECONDS, _AT_LAST_SECONDS)


class ObjectDecoder:
    """Decodes objects of one type."""

    def __init__(self, wanted: type[KubeObject]) -> None:
        self._wanted = wanted
        self._decoder = msgspec.json.Decoder(wanted, dec_hook=decode_hook)

    def decode(self, body: bytes | msgspec.Raw) -> KubeObject:
        """Decode one object. Raises UserError."""
        try:
            if _CUT in bytes(body):
                raise UserError(TOO_DEEP)
            return with_defaults(self._decoder.decode(body))
        except (msgspec.DecodeError, RecursionError):
            pass
        try:
            document = msgspec.json.decode(body, type=dict[str, object])
        except RecursionError:
            raise UserError(TOO_DEEP) from None
        except msgspec.DecodeError as fault:
            raise UserError(f"expected an object of kind {self._wanted.kind}: {fault}") from None
        # Items of lists name neither.
        return decode({"apiVersion": self._wanted.api_version, "kind": self._wanted.kind, **document})

    def decode_or_stub(self, body: bytes | msgspec.Raw) -> tuple[KubeObject, str]:
        """Decode one object; of one that cannot be read what is left of it, and what is wrong."""
        try:
            return self.decode(body), ""
        except UserError as fault:
            text = f"{fault.field}: {fault.text}" if fault.field else fault.text
        except Exception as fault:  # noqa: BLE001  # whatever it is, the other objects are not to blame
            text = f"cannot be read ({type(fault).__name__}: {fault})"
        return stub_of(_rough(body), self._wanted, text), text


def _rough(body: bytes | msgspec.Raw) -> dict[str, object]:
    """As much of an object as can be read."""
    try:
        return msgspec.json.decode(shallow(bytes(body).decode())[0], type=dict[str, object])
    except (ValueError, msgspec.DecodeError, RecursionError):
        return {}


def is_same(old: KubeObject, new: KubeObject) -> bool:
    """Whether two versions of an object differ in nothing that Muster reads: most heartbeats do not."""
    new_meta = msgspec.structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return new_meta == old.metadata and all(
        getattr(old, name) == getattr(new, name) for name in _fields(type(old)) if name != "metadata"
    )


def _fields(kind: type[KubeObject]) -> Iterable[str]:
    return kind.__struct_fields__


class WatchLine(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class ListedMeta(msgspec.Struct):
    """What every object has, however wrong the rest may be."""

    name: str = ""
    namespace: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class Listed(msgspec.Struct):
    """An object of which only the metadata is wanted; also a bookmark."""

    metadata: ListedMeta = msgspec.field(default_factory=ListedMeta)


WATCH_LINE = msgspec.json.Decoder(WatchLine)
LISTED = msgspec.json.Decoder(Listed)
