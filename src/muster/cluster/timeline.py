"""The timeline file: what happens to the embedded cluster, and when.

    - at: 5m                      # or a number of seconds, from the start
      add: [more-nodes.yaml]      # file names (relative to the timeline) or whole objects
    - at: 10m
      cordon: n1                  # one of: add, delete, cordon, uncordon, ready, notReady, patch
    - at: 15m
      delete: [Node/n2, Pod/team-a/train-0]
    - at: 20m
      patch: {target: Queue/research, merge: {spec: {weight: 4}}}

Every error names the file, the entry (counted from one), the field and what would be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import KINDS, KubeObject, UserError, decode, load_files, parse_duration
from muster.api.documents import read_yaml
from muster.api.errors import describe_value
from muster.api.validate import check
from muster.cluster.changes import Add, Change, Cordon, Delete, Patch, SetReady, Target
from muster.cluster.memory import MemoryCluster

_VERBS: Final = ("add", "delete", "cordon", "uncordon", "ready", "notReady", "patch")


@dataclass(frozen=True, slots=True)
class Entry:
    """One change at one moment, in seconds from the start."""

    at: float
    change: Change
    #: Where it was written, for errors.
    place: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Changes in the order of the file; those of one moment happen in that order."""

    entries: tuple[Entry, ...] = ()

    def schedule(self, cluster: MemoryCluster) -> None:
        """Put all entries on the cluster's agenda."""
        for entry in self.entries:
            cluster.at(cluster.start + entry.at, _happening(entry, cluster))


def _happening(entry: Entry, cluster: MemoryCluster) -> Callable[[], None]:
    def happen() -> None:
        try:
            entry.change.apply(cluster)
        except UserError as error:
            raise error.located(place=entry.place) from None

    return happen


def load_timeline(path: Path) -> Timeline:
    """Read a timeline file. Raises UserError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read the timeline: {error.strerror}", place=str(path)) from None
    except UnicodeDecodeError:
        raise UserError("expected text in UTF-8", place=str(path)) from None
    return parse_timeline(text, str(path), path.parent)


def parse_timeline(text: str, source: str = "timeline", folder: Path = Path()) -> Timeline:
    """Read a timeline; file names in it are relative to `folder`. Raises UserError."""
    documents = [known.content for known in read_yaml(text, source) if known.content is not None]
    if not documents:
        return Timeline()
    if len(documents) > 1 or not isinstance(documents[0], list):
        raise UserError("expected one list of entries, each with a time and a change", place=source)
    return Timeline(tuple(_entries(documents[0], source, folder)))


def _entries(items: list[object], source: str, folder: Path) -> Iterator[Entry]:
    for number, item in enumerate(items, start=1):
        place = f"{source}: entry {number}"
        try:
            fields = _mapping(item, "")
            yield Entry(_moment(fields.get("at")), _change(fields, folder), place)
        except UserError as error:
            raise error.located(place=place) from None


def _moment(value: object) -> float:
    moment = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        moment = float(value)
    elif isinstance(value, str):
        try:
            moment = parse_duration(value)
        except ValueError as error:
            raise UserError(str(error), field="at") from None
    if not (0 <= moment < math.inf):
        expected = 'expected a time from the start such as "5m" or 300'
        raise UserError(f"{expected}, got {describe_value(value)}", field="at")
    return moment


def _change(fields: dict[str, object], folder: Path) -> Change:
    verbs = [name for name in fields if name != "at"]
    unknown = [name for name in verbs if name not in _VERBS]
    if unknown:
        raise UserError(f"unknown field; known: at, {', '.join(_VERBS)}", field=str(unknown[0]))
    if len(verbs) != 1:
        raise UserError(f"expected exactly one of {', '.join(_VERBS)}, got {', '.join(verbs) or 'none'}")
    verb = verbs[0]
    value = fields[verb]
    if verb == "add":
        return Add(tuple(_objects(value, folder)))
    if verb == "delete":
        return Delete(tuple(_target(name, verb) for name in _names(value, verb)))
    if verb == "patch":
        return _patch(_mapping(value, verb))
    names = tuple(_names(value, verb))
    if verb in ("cordon", "uncordon"):
        return Cordon(names, unschedulable=verb == "cordon")
    return SetReady(names, ready=verb == "ready")


def _patch(fields: dict[str, object]) -> Patch:
    if set(fields) != {"target", "merge"}:
        raise UserError('expected "target" (such as Node/n1) and "merge" (the changed fields)', field="patch")
    target = _text(fields["target"], "patch.target")
    return Patch(_target(target, "patch.target"), _mapping(fields["merge"], "patch.merge"))


def _objects(value: object, folder: Path) -> Iterator[KubeObject]:
    for place, item in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(item, str):
            yield from load_files([folder / item]).objects
        else:
            field = f"add[{place}]" if isinstance(value, list) else "add"
            made = decode(_mapping(item, field))
            check(made)
            yield made


def _target(text: str, field: str) -> Target:
    kind, slash, key = text.partition("/")
    known = [found for found in KINDS.values() if found.kind.lower() == kind.lower()]
    if not slash or not key or not known:
        raise UserError(f'expected an object such as "Pod/team-a/train-0" or "Node/n1", got "{text}"', field=field)
    if known[0].namespaced and "/" not in key:
        key = f"default/{key}"
    return Target(known[0].kind, key)


def _names(value: object, field: str) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [_text(item, field) for item in items]


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"expected a name, got {describe_value(value)}", field=field)
    return value


def _mapping(value: object, field: str) -> dict[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UserError(f"expected a mapping, got {describe_value(value)}", field=field)
    return value
