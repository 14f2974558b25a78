"""The table that says which pods belong together: its rows as types, and how it is read.

Rows of the product stand in `table.yaml`, those of users under `grouping` in the configuration; both are read here, and
what nobody knows is refused by name. Paths are fields with dots in between; a key with dots stands in brackets:
`metadata.annotations[example.com/size]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from muster.api import UserError
from muster.api.documents import read_yaml
from muster.api.errors import explain
from muster.api.fields import unknown_fields

Share = Literal["owner", "child", "pod", "each"]
_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class Row(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """Base of all rows and their parts."""


class When(Row, frozen=True):
    """Whether a field of the owner has a value."""

    field: str
    value: str = msgspec.field(name="is")

    def holds(self, owner: object) -> bool:
        return bool(at(owner, self.field) == self.value)


class Shares(Row, frozen=True):
    """Who shares a PodGroup, for each family of them."""

    volcano: Share = "owner"
    kai: Share = "owner"


class Split(Row, frozen=True):
    """Pods with different values of a label have groups of their own."""

    label: str
    #: What stands between the name of the group and the value.
    infix: str = ""
    unless: When | None = None


class Segments(Row, frozen=True):
    """A role is cut into pieces of one size, each with its own place in the topology."""

    role: str
    size: Sequence[str]
    #: The label that has the number of the pod in its role.
    index: str
    #: Where the template of the pods is in the role.
    template: str = "template"
    #: A role of one pod that comes before the others, in the first piece or apart from all.
    leader: str = ""
    leader_apart: When | None = None


class Role(Row, frozen=True):
    """Pods that are alike, with a minimum of their own; or one role for each entry of a field."""

    #: The label of pods that has the role's name, or `value`; "*" is any that no role before has.
    label: str
    value: str = ""
    #: What it is called; with `each` on a list, the field of an entry that has the name.
    name: str = ""
    #: What a role is called whose entry has no name, before its number.
    unnamed: str = "role"
    #: Where its fields are; none: in the owner itself.
    at: str = ""
    #: A list or mapping, each entry of which is a role.
    each: str = ""
    #: Fields with the number of pods, the first that has one above zero; none of them: `otherwise`.
    count: Sequence[str] = ()
    otherwise: int = 1
    less: int = 0
    #: Fields to multiply by, and one that limits each of them.
    times: Sequence[str] = ()
    times_at_most: str = ""
    #: Fields that are true where the role has no pods now.
    absent_if: Sequence[str] = ()
    #: Whether the role counts only from its first pod on, since it is made when others run.
    late: When | None = None
    #: Where the template is of which annotations say the topology level of the role; none: nowhere.
    template: str = ""
    #: Where fields `required` and `preferred` say the topology level.
    levels: str = ""
    segments: Segments | None = None


class Within(Row, frozen=True):
    """Groups of roles, with a topology level for each."""

    each: str
    name: str
    #: Where an entry has the names of its roles.
    roles: str
    levels: str


class Fields(Row, frozen=True):
    """Another object, in the owner's place for everything that rows read."""

    #: Its kind, as `Kind`, which has the owner's version, or `Kind.group/version`.
    kind: str
    #: Fields of the owner with its name.
    names: Sequence[str] = ()
    #: The label of pods with its name.
    label: str = ""
    #: Where the owner has its spec, too, for as long as it is not there.
    inline: str = ""


class Rule(Row, frozen=True):
    """One row of the table: pods below an owner of this kind."""

    #: `Kind.group`, whatever the version; of the oldest group the kind alone.
    kind: str
    #: A row to take everything from that this one does not say.
    like: str = ""
    share: Share | Shares = "owner"
    #: Fields of the owner of which one that is there says that all its pods share a PodGroup after all.
    together: Sequence[str] = ()
    split: Split | None = None
    #: The owner does not count: what it made is the owner, with the labels and annotations of both.
    skip: bool = False
    #: Fields of the owner with the least number of pods to start with, the first that has one.
    minimum: Sequence[str] = ()
    #: The role that has what other roles leave of the minimum.
    rest: str = ""
    roles: Sequence[Role] = ()
    queue: Sequence[str] = ()
    priority_class: Sequence[str] = ()
    #: The class of KAI for those who name none.
    priority: str = "train"
    fields: Fields | None = None
    within: Within | None = None
    #: Where fields `required` and `preferred` say the topology level of all.
    levels: str = ""

    def share_of(self, family: str, owner: object) -> Share:
        """Who shares a PodGroup of a family (`volcano` or `kai`) below an owner, given as its document."""
        if any(at(owner, path) is not None for path in self.together):
            return "owner"
        if isinstance(self.share, Shares):
            return self.share.kai if family == "kai" else self.share.volcano
        return self.share


class Table:
    """Rows by kind."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules

    def rule_of(self, api_version: str, kind: str) -> Rule:
        """The row of a kind; one that the table does not have is like any other owner."""
        group = api_version.rpartition("/")[0]
        return self.rules.get(f"{kind}.{group}" if group else kind) or Rule(kind=kind)


@cache
def own_table() -> Table:
    """The rows of the product."""
    text = files("muster.controllers.grouping").joinpath("table.yaml").read_text()
    documents = [each.content for each in read_yaml(text, "table.yaml")]
    return Table(_read(documents[0], {}, "table.yaml"))


def table_with(rows: object, source: str) -> Table:
    """The rows of the product and those of a configuration. Raises UserError."""
    if rows is None:
        return own_table()
    known = own_table().rules
    return Table({**known, **_read(rows, known, f"{source}: grouping")})


def _read(rows: object, known: Mapping[str, Rule], source: str) -> dict[str, Rule]:
    if not isinstance(rows, list):
        raise UserError(f"{source}: expected a list of rows, each with a kind")
    found: dict[str, Rule] = {}
    for number, row in enumerate(rows, start=1):
        rule = _rule(row, {**known, **found}, f"{source}, row {number}")
        if rule.kind in found:
            raise UserError(f"{source}, row {number}: {rule.kind} has a row already")
        found[rule.kind] = rule
    return found


def _rule(row: object, known: Mapping[str, Rule], source: str) -> Rule:
    if not isinstance(row, dict):
        raise UserError(f"{source}: expected a mapping with a kind")
    for unknown in unknown_fields(row, Rule):
        raise UserError(f"{source}: {unknown.path}: {unknown.text}")
    try:
        rule = msgspec.convert(row, Rule)
    except msgspec.ValidationError as fault:
        known_words = "; one of owner, child, pod, each" if "Invalid enum value" in str(fault) else ""
        raise UserError(f"{source}: {explain(str(fault), row)}{known_words}") from None
    if not rule.like:
        return rule
    base = known.get(rule.like)
    if base is None:
        raise UserError(f"{source}: like: expected a kind that has a row before this one, got {rule.like!r}")
    spelt = zip(Rule.__struct_fields__, Rule.__struct_encode_fields__, strict=True)
    given = {name: getattr(rule, name) for name, as_written in spelt if as_written in row}
    return msgspec.structs.replace(base, **given)


# -- paths -----------------------------------------------------------------------------------------------------


def at(document: object, path: str) -> Any:  # noqa: ANN401  # a part of a document
    """What stands at a path, None where nothing does."""
    for key, name in _parts(path):
        if not isinstance(document, Mapping):
            return None
        document = document.get(key or name)
    return document


@cache
def _parts(path: str) -> tuple[tuple[str, str], ...]:
    return tuple((found[0], found[1]) for found in _PART.findall(path))


def number_at(document: object, paths: Sequence[str]) -> int | None:
    """The first number above zero at some paths; annotations have it as text."""
    for path in paths:
        found = at(document, path)
        if isinstance(found, str) and found.strip().isdecimal():
            found = int(found)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return None


def text_at(document: object, paths: Sequence[str]) -> str:
    """The first text at some paths, "" where there is none."""
    return next((found for path in paths if isinstance(found := at(document, path), str) and found), "")
