"""Where two versions of a document differ, and the JSON Patch that makes one of the other.

Lists are compared element by element only where they are equally long; otherwise they differ as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from muster.admission.model import Json

Path = tuple[str | int, ...]


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
