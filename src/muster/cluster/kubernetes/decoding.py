"""Objects from the bytes of lists and watches: only the fields that Muster reads are ever made.

The fast way decodes straight into the type. What does not fit at once (a null where a value belongs, a wrong field)
takes the way that files take, which knows nulls and explains what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from muster.api import KubeObject, UserError, decode, decode_hook
from muster.api.documents import CUT, MAX_DEPTH, TOO_DEEP, shallow
from muster.api.kinds import stub_of, with_defaults

_T = TypeVar("_T")
_CUT: Final = CUT.encode()


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


def decode_cut(decoder: msgspec.json.Decoder[_T], text: bytes, depth: int) -> _T:
    """Decode what may be nested so deep that readers give up on it, with `CUT` for the parts that are."""
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(shallow(text.decode(), depth=MAX_DEPTH + depth)[0])


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
