"""What a row of the table says about the pods of one owner: how many start together, in which parts, and where.

Pure: documents in, a `Gang` out. Numbers that make no sense count as not given, since the operator whose object it is
says what is wrong with it, and pods that wait for nobody help more than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster.api import Pod
from muster.controllers.grouping.table import Role, Rule, Segments, at, number_at, text_at

Document = Mapping[str, Any]  # Any: documents of others
TOPOLOGY: Final = "kai.scheduler/topology"
_REQUIRED: Final = "kai.scheduler/topology-required-placement"
_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
_SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
_SEGMENT_REQUIRED: Final = "kai.scheduler/segment-topology-required-placement"
_SEGMENT_PREFERRED: Final = "kai.scheduler/segment-topology-preferred-placement"
_GROVE_TOPOLOGY: Final = "grove.io/topology-name"
#: What says how many pods of an owner start together, as Volcano reads it.
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a topology that pods must, or would rather, stay within."""

    topology: str
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of a gang with a minimum of their own, or a group of such parts."""

    name: str
    minimum: int
    parent: str = ""
    level: Level | None = None
    #: The label and value by which pods belong to it; none: it only has parts.
    label: str = ""
    value: str = ""
    #: Of the numbers of pods in a label, those that it has: the label, the first, and the one after the last.
    numbers: tuple[str, int, int] | None = None

    def holds(self, pod: Pod) -> bool:
        """Whether a pod is of this part."""
        labels = pod.metadata.labels
        if not self.label or self.label not in labels:
            return False
        if self.value not in (_ANY, labels[self.label].lower()):
            return False
        if self.numbers is None:
            return True
        label, first, end = self.numbers
        return labels.get(label, "").isdecimal() and first <= int(labels[label]) < end


@dataclass(frozen=True, slots=True)
class Gang:
    """What belongs together below one owner."""

    minimum: int
    parts: tuple[Part, ...] = ()
    level: Level | None = None
    #: Of whom it is: the end of the name where one owner has several.
    suffix: str = ""

    def part_of(self, pod: Pod) -> str:
        """The part that a pod is of, "" for none."""
        return _part_of(self.parts, pod)


def _part_of(parts: Iterable[Part], pod: Pod) -> str:
    return next((part.name for part in parts if part.holds(pod)), "")


@dataclass(frozen=True, slots=True)
class Owner:
    """An object above a pod; what cannot be read of it is empty."""

    api_version: str
    kind: str
    name: str
    uid: str
    document: Document = field(default_factory=dict)

    @property
    def labels(self) -> Mapping[str, str]:
        return at(self.document, "metadata.labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        return at(self.document, "metadata.annotations") or {}

    def under(self, other: Owner) -> Owner:
        """The same, with the labels and annotations of one above it that it has not itself."""
        marks = {
            "labels": {**other.labels, **self.labels},
            "annotations": {**other.annotations, **self.annotations},
        }
        return replace(self, document={**self.document, "metadata": marks})


def gang_of(rule: Rule, owner: Owner, source: Document, pod: Pod, pods: Iterable[Pod]) -> Gang:
    """The gang of a pod. `source`: the object that has the fields; `pods`: all of the owner."""
    topology = _topology_of(owner, source)
    suffix, found = _split(rule, source, pod, list(_all_parts(rule, source, owner, pod, topology)))
    by_name: dict[str, Part] = {}
    for part, _ in found:
        # A leader that is in a piece is not also beside it.
        if part.name not in by_name or part.parent:
            by_name[part.name] = part
    there = {_part_of(by_name.values(), pod) for pod in pods}
    late = {part.name for part, role in found if role.late is not None and role.late.holds(owner.document)}
    parts = [part for part in by_name.values() if part.name not in late or part.name in there]
    named = number_at(source, rule.minimum)
    if named is not None:
        parts = list(_with_rest(parts, rule.rest, named))
        minimum = named
    else:
        minimum = _annotated_minimum(owner) or sum(part.minimum for part in parts if part.label) or 1
    level = _level(topology, owner.annotations) or _fields_level(source, rule.levels, topology)
    return Gang(minimum, tuple(_within(rule, source, topology, parts)), level, suffix)


def _topology_of(owner: Owner, source: Document) -> str:
    of_source = at(source, "metadata.annotations") or {}
    return str(of_source.get(_GROVE_TOPOLOGY) or of_source.get(TOPOLOGY) or owner.annotations.get(TOPOLOGY) or "")


def _annotated_minimum(owner: Owner) -> int | None:
    return number_at({"annotations": owner.annotations}, [f"annotations[{MIN_MEMBER}]"])


def _level(topology: str, annotations: Mapping[str, str]) -> Level | None:
    return _made(topology, annotations.get(_REQUIRED, ""), annotations.get(_PREFERRED, ""))


def _fields_level(document: object, path: str, topology: str) -> Level | None:
    found = at(document, path) if path else None
    return _made(topology, text_at(found, ["required"]), text_at(found, ["preferred"]))


def _made(topology: str, required: str, preferred: str) -> Level | None:
    return Level(topology, required, preferred) if required or preferred else None


# -- roles -----------------------------------------------------------------------------------------------------

_Found = tuple[Part, Role]


def _all_parts(rule: Rule, source: Document, owner: Owner, pod: Pod, topology: str) -> Iterator[_Found]:
    for role in rule.roles:
        for name, entry in _entries(role, source):
            count = _count(role, entry)
            if count <= 0:
                continue
            level = _role_level(role, entry, topology)
            part = Part(name, count, level=level, label=role.label, value=(role.value or name).lower())
            segments = role.segments
            if segments is not None and name == segments.role:
                yield from ((cut, role) for cut in _segments(segments, part, entry, owner, pod))
            else:
                yield part, role


def _entries(role: Role, source: Document) -> Iterator[tuple[str, Document]]:
    """Roles by name, each with its fields."""
    if not role.each:
        entry = at(source, role.at) if role.at else source
        if isinstance(entry, Mapping):
            yield role.name, entry
        return
    found = at(source, role.each)
    if isinstance(found, Mapping):
        yield from ((str(name).lower(), entry) for name, entry in found.items() if isinstance(entry, Mapping))
    elif isinstance(found, Sequence) and not isinstance(found, str):
        for number, entry in enumerate(found):
            if isinstance(entry, Mapping):
                yield text_at(entry, [role.name]) or f"{role.unnamed}-{number}", entry


def _count(role: Role, entry: Document) -> int:
    if any(at(entry, path) is True for path in role.absent_if):
        return 0
    found = number_at(entry, role.count)
    count = role.otherwise if found is None else found - role.less
    for path in role.times:
        times = number_at(entry, [path]) or 1
        most = number_at(entry, [role.times_at_most]) if role.times_at_most else None
        count *= times if most is None else min(times, most)
    return count


def _role_level(role: Role, entry: Document, topology: str) -> Level | None:
    if role.levels:
        return _fields_level(entry, role.levels, topology)
    if not role.template:
        return None
    annotations = at(entry, f"{role.template}.metadata.annotations") or {}
    return _level(str(annotations.get(TOPOLOGY) or topology), annotations)


def _split(rule: Rule, source: Document, pod: Pod, parts: list[_Found]) -> tuple[str, list[_Found]]:
    """What the gang's name ends with, and the parts that are in it."""
    split = rule.split
    if split is None or (split.unless is not None and split.unless.holds(source)):
        return "", parts
    value = pod.metadata.labels.get(split.label)
    if value is None:
        return "", parts
    own = [(part, role) for part, role in parts if role.label != split.label or part.value == value.lower()]
    return f"-{split.infix}{value}", own


def _with_rest(parts: Iterable[Part], rest: str, minimum: int) -> Iterator[Part]:
    """Parts that add up to the minimum: the one called `rest` has what others leave of it."""
    known = list(parts)
    others = sum(part.minimum for part in known if rest not in (part.name, part.parent))
    for part in known:
        left = max(0, minimum - others) if part.name == rest else part.minimum
        if left > 0:
            yield replace(part, minimum=left)


def _within(rule: Rule, source: Document, topology: str, parts: Sequence[Part]) -> Iterator[Part]:
    """Groups of parts, and the parts with the names of their groups."""
    parents: dict[str, str] = {}
    if (within := rule.within) is not None:
        for entry in at(source, within.each) or ():
            name, members = text_at(entry, [within.name]), at(entry, within.roles)
            if name and isinstance(members, Sequence) and members:
                parents.update(dict.fromkeys(map(str, members), name))
                yield Part(name, 0, level=_fields_level(entry, within.levels, topology))
    for part in parts:
        yield replace(part, parent=parents[part.name]) if part.name in parents else part


# -- segments --------------------------------------------------------------------------------------------------


def _segments(rule: Segments, part: Part, entry: Document, owner: Owner, pod: Pod) -> Iterator[Part]:
    """A part cut into pieces of one size, where somebody asks for it."""
    asked = {"pod": pod.metadata.annotations, "owner": owner.annotations, "entry": entry}
    paths = [f"pod[{_SEGMENT_SIZE}]", *(f"entry.{path}" for path in rule.size), f"owner[{_SEGMENT_SIZE}]"]
    size = number_at(asked, paths)
    if size is None:
        yield part
        return
    template = at(entry, f"{rule.template}.metadata.annotations") or {}
    marks = {**template, **{key: text for key, text in pod.metadata.annotations.items() if text}}
    topology = str(marks.get(TOPOLOGY) or owner.annotations.get(TOPOLOGY) or "")
    level = _made(topology, marks.get(_SEGMENT_REQUIRED, ""), marks.get(_SEGMENT_PREFERRED, "")) if topology else None
    if not rule.leader:
        yield Part(part.name, part.minimum)
        for number, first in enumerate(range(0, part.minimum, size)):
            end = min(first + size, part.minimum)
            yield _piece(f"{part.name}-{number}", part, rule, (first, end), level, part.name)
        return
    yield from _led_segments(rule, part, size, level, owner)


def _piece(
    name: str, part: Part, rule: Segments, numbers: tuple[int, int], level: Level | None, parent: str = ""
) -> Part:
    first, end = numbers
    return Part(name, end - first, parent, level, part.label, part.value, (rule.index, first, end))


def _led_segments(rule: Segments, part: Part, size: int, level: Level | None, owner: Owner) -> Iterator[Part]:
    """Pieces of pods that have a leader, number 0: with the first piece, beyond its size where all others fill up."""
    n_pods = part.minimum + 1
    is_apart = rule.leader_apart is not None and rule.leader_apart.holds(owner.document)
    offset = 1 if part.minimum % size == 0 else 0
    bounds = [(max(1, first + offset), min(first + offset + size, n_pods)) for first in range(0, n_pods - offset, size)]
    for number, numbers in enumerate(bounds):
        name = f"segment-{number}"
        if number == 0 and not is_apart:
            yield Part(name, 0, level=level)
            yield Part(rule.leader, 1, name, None, part.label, "0")
            if numbers[1] > numbers[0]:
                yield _piece(part.name, part, rule, numbers, None, name)
        else:
            yield _piece(name, part, rule, numbers, level)
