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
A change that names what does not exist is the user's mistake, too, and found when its moment comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from muster.api import (
    KINDS,
    WORKLOADS,
    Condition,
    KubeObject,
    Node,
    UserError,
    decode,
    encode,
    load_files,
    parse_duration,
)
from muster.api.documents import read_yaml
from muster.api.errors import describe_value
from muster.api.fields import UNKNOWN, UnknownField, unknown_fields
from muster.api.kinds import subject_of
from muster.api.validate import check
from muster.cluster.memory import MemoryCluster

Json = Mapping[str, object]
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
    #: What was left out of the files and objects that it names, for their author.
    notes: tuple[str, ...] = ()

    def schedule(self, cluster: MemoryCluster) -> None:
        """Put all entries on the cluster's agenda."""
        for entry in self.entries:
            cluster.at(cluster.start + entry.at, partial(_happen, entry, cluster))

    def added(self) -> list[KubeObject]:
        """The objects that will be made."""
        return [thing for entry in self.entries if isinstance(entry.change, Add) for thing in entry.change.objects]


def _happen(entry: Entry, cluster: MemoryCluster) -> None:
    try:
        entry.change.apply(cluster)
    except UserError as error:
        raise error.located(place=entry.place) from None


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object by kind and key, as users write it: ``Pod/team-a/train-0``, ``Node/n1``."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"

    def find(self, cluster: MemoryCluster) -> KubeObject:
        found = cluster.store.find(self.kind, self.key)
        if found is None:
            raise UserError(f"there is no {self} at that time")
        return found


@dataclass(frozen=True, slots=True)
class Add:
    """Make objects."""

    objects: tuple[KubeObject, ...]

    def apply(self, cluster: MemoryCluster) -> None:
        cluster.add(self.objects)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete objects for good."""

    targets: tuple[ObjectName, ...]

    def apply(self, cluster: MemoryCluster) -> None:
        for target in self.targets:
            cluster.delete(target.find(cluster))


@dataclass(frozen=True, slots=True)
class Cordon:
    """Keep new pods off nodes, or let them on again."""

    nodes: tuple[str, ...]
    unschedulable: bool

    def apply(self, cluster: MemoryCluster) -> None:
        for name in self.nodes:
            node = _node(cluster, name)
            cluster.replace_object(replace(node, spec=replace(node.spec, unschedulable=self.unschedulable)))


@dataclass(frozen=True, slots=True)
class SetReady:
    """Make nodes ready or not ready; pods on a node that is not ready stay there."""

    nodes: tuple[str, ...]
    ready: bool

    def apply(self, cluster: MemoryCluster) -> None:
        for name in self.nodes:
            node = _node(cluster, name)
            others = [known for known in node.status.conditions if known.type != "Ready"]
            condition = Condition(type="Ready", status="True" if self.ready else "False")
            status = replace(node.status, conditions=[*others, condition])
            cluster.replace_object(replace(node, status=status))


@dataclass(frozen=True, slots=True)
class Patch:
    """Change fields of an object: mappings are merged, a null removes a field, all else replaces it."""

    target: ObjectName
    merge: Json

    def apply(self, cluster: MemoryCluster) -> None:
        present = self.target.find(cluster)
        changed = decode(merged(encode(present), self.merge))
        if (type(changed), changed.key) != (type(present), present.key):
            raise UserError("a patch cannot change apiVersion, kind, name or namespace")
        cluster.replace_object(changed)


Change = Add | Delete | Cordon | SetReady | Patch


def _node(cluster: MemoryCluster, name: str) -> Node:
    node = cluster.store.get(Node, name)
    if node is None:
        raise UserError(f"there is no node {name} at that time")
    return node


def merged(document: Json, patch: Json) -> dict[str, object]:
    """Return the document with a JSON merge patch applied."""
    result = dict(document)
    for name, value in patch.items():
        before = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def load_timeline(path: Path, *, allow_unknown: bool = False) -> Timeline:
    """Read a timeline file. `allow_unknown`: fields of objects that nobody knows are noted. Raises UserError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read the timeline: {error.strerror}", place=str(path)) from None
    except UnicodeDecodeError:
        raise UserError("expected text in UTF-8", place=str(path)) from None
    timeline = parse_timeline(text, str(path), path.parent, allow_unknown=allow_unknown)
    if not timeline.entries:
        raise UserError("expected at least one entry such as {at: 5m, cordon: n1}, got none", place=str(path))
    return timeline


def parse_timeline(
    text: str, source: str = "timeline", folder: Path = Path(), *, allow_unknown: bool = False
) -> Timeline:
    """Read a timeline; file names in it are relative to `folder`. Raises UserError."""
    documents = [known.content for known in read_yaml(text, source) if known.content is not None]
    if not documents:
        return Timeline()
    if len(documents) > 1 or not isinstance(documents[0], list):
        given = "several documents" if len(documents) > 1 else describe_value(documents[0])
        raise UserError(f"expected one list of entries, each with a time and a change, got {given}", place=source)
    reader = _Reader(folder, allow_unknown=allow_unknown)
    entries = tuple(reader.entries(documents[0], source))
    return Timeline(entries, tuple(reader.notes))


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


class _Reader:
    """Reads the entries of one timeline, and keeps what is to be told besides."""

    def __init__(self, folder: Path, *, allow_unknown: bool) -> None:
        self._folder = folder
        self._allow_unknown = allow_unknown
        self.notes: list[str] = []

    def entries(self, items: list[object], source: str) -> Iterator[Entry]:
        for number, item in enumerate(items, start=1):
            place = f"{source}: entry {number}"
            try:
                fields = _mapping(item, "")
                yield Entry(_moment(fields.get("at")), self._change(fields, place), place)
            except UserError as error:
                raise error.located(place=place) from None

    def _change(self, fields: dict[str, object], place: str) -> Change:
        verbs = [name for name in fields if name != "at"]
        unknown = [name for name in verbs if name not in _VERBS]
        if unknown:
            raise UserError(f"unknown field; known: at, {', '.join(_VERBS)}", field=str(unknown[0]))
        if len(verbs) != 1:
            raise UserError(f"expected exactly one of {', '.join(_VERBS)}, got {', '.join(verbs) or 'none'}")
        verb = verbs[0]
        value = fields[verb]
        if verb == "add":
            return Add(tuple(self._objects(value, place)))
        if verb == "delete":
            return Delete(tuple(_object_name(name, verb) for name in _names(value, verb)))
        if verb == "patch":
            return self._patch(_mapping(value, verb), place)
        names = tuple(_names(value, verb))
        if verb in ("cordon", "uncordon"):
            return Cordon(names, unschedulable=verb == "cordon")
        return SetReady(names, ready=verb == "ready")

    def _objects(self, value: object, place: str) -> Iterator[KubeObject]:
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(item, str):
                loaded = load_files([self._folder / item], allow_unknown=self._allow_unknown)
                self.notes += [f"{place}: {note}" for note in loaded.not_read]
                yield from loaded.objects
            else:
                field = f"add[{index}]" if isinstance(value, list) else "add"
                document = _mapping(item, field)
                made = decode(document)
                self._tell(unknown_fields(document, type(made), f"{field}."), place, subject_of(document))
                check(made)
                yield made

    def _patch(self, fields: dict[str, object], place: str) -> Patch:
        if set(fields) != {"target", "merge"}:
            raise UserError('expected "target" (such as Node/n1) and "merge" (the changed fields)', field="patch")
        target = _object_name(_text(fields["target"], "patch.target"), "patch.target")
        merge = _mapping(fields["merge"], "patch.merge")
        # Volcano, KAI and Kubernetes have kinds of the same name: a field is misspelt that none of them has.
        found = [list(unknown_fields(merge, known, "patch.merge.")) for known in _kinds(target.kind)]
        fewest = min(found, key=len)
        self._tell(fewest, place, str(target))
        return Patch(target, merge)

    def _tell(self, fields: Iterable[UnknownField], place: str, subject: str) -> None:
        """Refuse fields that nobody knows, or note them. Raises UserError."""
        for path, text in fields:
            advice = f"{text}; --allow-unknown leaves it out" if text == UNKNOWN else text
            problem = UserError(advice, field=path, subject=subject)
            if not self._allow_unknown:
                raise problem
            self.notes.append(str(problem.located(place=place)))


def _object_name(text: str, field: str) -> ObjectName:
    kind, slash, key = text.partition("/")
    known = _kinds(kind)
    if not slash or not key or not known:
        raise UserError(f'expected an object such as "Pod/team-a/train-0" or "Node/n1", got "{text}"', field=field)
    if known[0].namespaced and "/" not in key:
        key = f"default/{key}"
    return ObjectName(known[0].kind, key)


def _kinds(kind: str) -> list[type[KubeObject]]:
    return [found for found in (*KINDS.values(), *WORKLOADS.values()) if found.kind.lower() == kind.lower()]


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
