"""Objects from the bytes of lists and watches: only the fields that Muster reads are ever made.

The fast way decodes straight into the type. What does not fit at once (a null where a value belongs, a wrong field)
takes the way that files take, which knows nulls and explains what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from muster.api import KubeObject, UserError, decode, decode_hook
from muster.api.kinds import with_defaults


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


class ObjectDecoder:
    """Decodes objects of one type."""

    def __init__(self, wanted: type[KubeObject]) -> None:
        self._wanted = wanted
        self._decoder = msgspec.json.Decoder(wanted, dec_hook=decode_hook)

    def decode(self, body: bytes | msgspec.Raw) -> KubeObject:
        """Decode one object. Raises UserError."""
        try:
            return with_defaults(self._decoder.decode(body))
        except msgspec.DecodeError:
            pass
        try:
            document = msgspec.json.decode(body, type=dict[str, object])
        except msgspec.DecodeError as fault:
            raise UserError(f"expected an object of kind {self._wanted.kind}: {fault}") from None
        # Items of lists name neither.
        return decode({"apiVersion": self._wanted.api_version, "kind": self._wanted.kind, **document})


def key_of(wanted: type[KubeObject], meta: ListedMeta) -> str:
    """``namespace/name`` or the name, as `KubeObject.key` has it."""
    return f"{meta.namespace}/{meta.name}" if wanted.namespaced else meta.name


def is_same(old: KubeObject, new: KubeObject) -> bool:
    """Whether two versions of an object differ in nothing that Muster reads: most heartbeats do not."""
    new_meta = msgspec.structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return new_meta == old.metadata and all(
        getattr(old, name) == getattr(new, name) for name in _fields(type(old)) if name != "metadata"
    )


def _fields(kind: type[KubeObject]) -> Iterable[str]:
    return kind.__struct_fields__
