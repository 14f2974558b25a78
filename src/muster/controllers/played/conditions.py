"""Two small languages of Argo's: conditions on the fields of an object, and on which tasks are over and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from muster.api import UserError
from muster.controllers.contract import Json
from muster.controllers.grouping.table import at

_REQUIREMENT: Final = re.compile(
    r"\s*(?P<path>[\w.\[\]\-/]+)"
    r"(?:\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^,()]*?)|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))\s*"
)
#: Commas between requirements, not those inside of a set of values.
_BETWEEN: Final = re.compile(r",(?![^()]*\))")
_TOKEN: Final = re.compile(r"\s*(&&|\|\||!|\(|\)|[\w-]+(?:\.\w+)?)")
#: How a task is over, by the word behind its name.
_ENDS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("Succeeded", "Skipped"),
    "Succeeded": ("Succeeded",),
    "Failed": ("Failed",),
    "Skipped": ("Skipped",),
    "Omitted": ("Omitted",),
    "Daemoned": ("Succeeded",),
    "Errored": (),
    "AnySucceeded": ("Succeeded",),
    "AllFailed": ("Failed",),
}


def holds(condition: str, document: Json) -> bool:
    """Whether all requirements on fields are met, such as "status.succeeded > 0"; none is never. Raises UserError."""
    return bool(condition) and all(_is_so(each, document) for each in _BETWEEN.split(condition))


def _is_so(requirement: str, document: Json) -> bool:
    found = _REQUIREMENT.fullmatch(requirement)
    if found is None:
        raise UserError(f'expected a requirement such as "status.phase = Completed", got "{requirement}"')
    value = at(document, found["path"])
    if found["set"]:
        is_one = _text(value) in [each.strip("\"' ") for each in found["values"].split(",")]
        return value is not None and is_one == (found["set"] == "in")
    wanted = found["value"].strip("\"'")
    match found["operator"]:
        case "!=":
            return value is not None and _text(value) != wanted
        case ">" | "<" as operator:
            there, limit = _number(value), _number(wanted)
            if there is None or limit is None:
                return False
            return there > limit if operator == ">" else there < limit
    return value is not None and _text(value) == wanted


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def is_met(expression: str, states: Mapping[str, str]) -> bool:
    """Whether tasks are over as an expression wants it, such as "a && (b.Failed || !c)". Raises UserError."""
    if not expression.strip():
        return True
    tokens = _TOKEN.findall(expression)
    if "".join(tokens) != re.sub(r"\s", "", expression):
        raise UserError(f'expected names of tasks with &&, || and !, got "{expression}"', field="depends")
    reader = _Reader(tokens, states)
    result = reader.either()
    if reader.place != len(tokens):
        raise UserError(f'expected names of tasks with &&, || and !, got "{expression}"', field="depends")
    return result


class _Reader:
    """Goes through the tokens once; && binds closer than ||."""

    def __init__(self, tokens: list[str], states: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._states = states
        self.place = 0

    def either(self) -> bool:
        result = self._both()
        while self._takes("||"):
            result = self._both() or result
        return result

    def _both(self) -> bool:
        result = self._one()
        while self._takes("&&"):
            result = self._one() and result
        return result

    def _one(self) -> bool:
        if self._takes("!"):
            return not self._one()
        if self._takes("("):
            result = self.either()
            self._takes(")")
            return result
        if self.place >= len(self._tokens):
            return False
        name, _, end = self._tokens[self.place].partition(".")
        self.place += 1
        return self._states.get(name, "") in _ENDS.get(end, ())

    def _takes(self, token: str) -> bool:
        is_next = self.place < len(self._tokens) and self._tokens[self.place] == token
        self.place += is_next
        return is_next
