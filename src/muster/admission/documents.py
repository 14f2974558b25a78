"""Documents of requests: read as typed objects, looked at in part, and compared.

Where two versions of a document differ, lists are compared element by element only if they are equally long; otherwise
they differ as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, ParamSpec, TypeVar

from muster.admission.request import Json
from muster.api import KubeObject, Problem, UserError
from muster.api.errors import Problems
from muster.api.kinds import decode_as

_Kind = TypeVar("_Kind", bound=KubeObject)
_Asked = ParamSpec("_Asked")

#: What the server puts behind a prefix when it makes up a name.
_MADE_UP = "xxxxx"
Path = tuple[str | int, ...]


def read(document: Json, kind: type[_Kind]) -> _Kind:
    """Decode the object of a request. Raises UserError.

    An object that leaves its name to the server has none yet; one of the right length stands in for it.
    """
    thing = decode_as(document, kind)
    prefix = (document.get("metadata") or {}).get("generateName")
    if not thing.metadata.name and isinstance(prefix, str) and prefix:
        thing.metadata.name = prefix + _MADE_UP
    return thing


def spec_of(document: Json) -> Json:
    """Return the spec of a document, for changing; one that is not there is made."""
    spec: Json = document.get("spec") or {}
    document["spec"] = spec
    return spec


def checked(check: Callable[_Asked, None], *args: _Asked.args, **kwargs: _Asked.kwargs) -> Problems:
    """Ask a rule of the scheduler that raises UserError for what it would put aside."""
    try:
        check(*args, **kwargs)
    except UserError as fault:
        yield Problem(fault.field, fault.text)


# -- where two versions differ ---------------------------------------------------------------------------------


class Absent:
    """What a document does not have."""


ABSENT: Final = Absent()


class Difference(NamedTuple):
    """One place at which two versions differ; `ABSENT` where one has nothing there."""

    path: Path
    old: object
    new: object


def differences(old: object, new: object, path: Path = ()) -> Iterator[Difference]:
    """Yield the places at which two versions differ, as deep inside as possible."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, (*path, index))
    elif old != new:
        yield Difference(path, old, new)


def field_of(path: Path) -> str:
    """Write a path as users do: spec.tasks[0].name."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def json_patch(old: Json, new: Json) -> list[Json]:
    """Return the operations of RFC 6902 that turn one document into the other."""
    return [_operation(found) for found in differences(old, new)]


def _operation(found: Difference) -> Json:
    pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in found.path)
    if found.new is ABSENT:
        return {"op": "remove", "path": pointer}
    return {"op": "add" if found.old is ABSENT else "replace", "path": pointer, "value": found.new}
