"""Objects of JSON text, quickly: parts that stand in many objects are read and checked once.

Pods and nodes come by the ten thousand, and those of a job or a rack have the same spec to the letter. Such a part is
kept by its text and shared, since objects are not changed but copied. Only what is plainly in order is read here;
whatever is not (a field that nobody knows, a key that stands twice, a check that fails) is left to the careful reader,
which knows what to say of it. Both read the same things the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from muster.api.fields import has_unknown_field
from muster.api.kinds import with_defaults
from muster.api.objects.meta import KubeObject, ObjectMeta, decode_hook, encode_hook
from muster.api.objects.node import Node, NodeSpec, NodeStatus
from muster.api.objects.pod import Pod, PodSpec, PodStatus
from muster.api.objects.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from muster.api.validate import metadata_problems, own_problems

#: Kinds that come in numbers, with the types of their two parts. What is checked of them depends on those alone.
_PARTS: Final[Mapping[type[KubeObject], tuple[type, type]]] = {
    Pod: (PodSpec, PodStatus),
    Node: (NodeSpec, NodeStatus),
    PodGroup: (PodGroupSpec, PodGroupStatus),
}
_KINDS: Final = {(kind.api_version, kind.kind): kind for kind in _PARTS}
_COLON: Final = b":"
#: A colon that is written so (`\\u003a`) is none to those who count them.
_HIDDEN: Final = b"\\u003"
_MAX_PARTS: Final = 50_000
#: What stands in for a part that is not given.
_NOTHING: Final = b"{}"


_ABSENT: Final = Raw()


class _Document(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = ""
    metadata: Raw = _ABSENT
    spec: Raw = _ABSENT
    status: Raw = _ABSENT


class _List(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    items: list[Raw]
    metadata: Raw = _ABSENT


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_LIST: Final = msgspec.json.Decoder(_List)
_ANYTHING: Final = msgspec.json.Decoder()
_encode: Final = msgspec.json.Encoder(enc_hook=encode_hook).encode
_DECODERS: Final[Mapping[type, msgspec.json.Decoder[Any]]] = {
    part: msgspec.json.Decoder(part, dec_hook=decode_hook) for parts in _PARTS.values() for part in parts
}


class _NotPlainError(ValueError):
    """Something is out of the ordinary, and the careful reader has to look at it."""


class QuickReader:
    """Reads objects one by one, and remembers their parts."""

    def __init__(self) -> None:
        self._parts: dict[tuple[type, bytes], Any] = {}
        #: The same by what is read of it: nodes that differ in their provider's name alone share what they say.
        self._alike: dict[tuple[type, bytes], Any] = {}
        #: Pairs of parts that were checked together; all are kept above.
        self._in_order: set[tuple[int, int]] = set()

    def read(
        self, text: bytes | Raw, kind: tuple[str, str] = ("", ""), *, is_unique: bool = False
    ) -> KubeObject | None:
        """The object of a text, if all is in order, else None.

        `kind`: that of the object where it does not say; `is_unique`: it is known that no key stands twice.
        """
        try:
            return self._read(text, kind, is_unique=is_unique)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def _read(self, text: bytes | Raw, kind: tuple[str, str], *, is_unique: bool) -> KubeObject | None:
        given = _DOCUMENT.decode(text)
        wanted = _KINDS.get((given.api_version or kind[0], given.kind or kind[1]))
        if wanted is None:
            return None
        metadata, spec, status = bytes(given.metadata), bytes(given.spec), bytes(given.status)
        if not is_unique:
            _check_unique(bytes(text), given, (metadata, spec, status))
        spec_type, status_type = _PARTS[wanted]
        if len(self._parts) >= _MAX_PARTS:
            for book in (self._parts, self._alike, self._in_order):
                book.clear()
        made_of = self._part(spec_type, spec or _NOTHING, is_unique=is_unique)
        stands = self._part(status_type, status or _NOTHING, is_unique=is_unique)
        parts = id(made_of), id(stands)
        make: Callable[..., KubeObject] = wanted  # all three have both parts
        thing = make(metadata=self._metadata(metadata or _NOTHING, is_unique=is_unique), spec=made_of, status=stands)
        with_defaults(thing)
        if next(metadata_problems(thing), None) is not None:
            return None
        if parts not in self._in_order:
            if next(own_problems(thing), None) is not None:
                return None
            self._in_order.add(parts)
        return thing

    def _metadata(self, text: bytes, *, is_unique: bool) -> ObjectMeta:
        # Read once and converted, since no two are alike.
        return msgspec.convert(_checked(text, ObjectMeta, is_unique=is_unique), ObjectMeta)

    def _part(self, wanted: type, text: bytes, *, is_unique: bool) -> Any:  # noqa: ANN401 - of the type that is wanted
        known = self._parts.get((wanted, text))
        if known is None:
            _checked(text, wanted, is_unique=is_unique)
            read = _DECODERS[wanted].decode(text)
            known = self._parts[wanted, text] = self._alike.setdefault((wanted, _encode(read)), read)
        return known


def _checked(text: bytes, wanted: type, *, is_unique: bool) -> dict[str, Any]:  # Any: JSON
    """The content of a text. Raises _NotPlainError for fields that nobody knows, and keys that stand twice."""
    content = _ANYTHING.decode(text)
    if not isinstance(content, dict) or has_unknown_field(content, wanted):
        raise _NotPlainError
    # Who reads a key twice keeps one of the two, and writes fewer colons than there were.
    if not is_unique and text.count(_COLON) != _encode(content).count(_COLON):
        raise _NotPlainError
    return content


def _check_unique(text: bytes, given: _Document, parts: Sequence[bytes]) -> None:
    """Raise _NotPlainError where a key may stand twice at the top: then something would be in none of the parts."""
    if b"\\" in text and _HIDDEN in text:
        raise _NotPlainError
    metadata, spec, status = parts
    named = (given.api_version != "") + (given.kind != "") + given.api_version.count(":") + given.kind.count(":")
    given_parts = (metadata != b"") + (spec != b"") + (status != b"")
    colons = metadata.count(_COLON) + spec.count(_COLON) + status.count(_COLON)
    if text.count(_COLON) != named + given_parts + colons:
        raise _NotPlainError


def items_of(text: bytes) -> tuple[list[Raw], bytes] | None:
    """The items of a list in JSON, and what stands around them; None: it is no list, or an empty one."""
    try:
        given = _LIST.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not given.items:
        return None
    first, last = bytes(given.items[0]), bytes(given.items[-1])
    around = text[: text.find(first)] + text[text.rfind(last) + len(last) :]
    return given.items, around
