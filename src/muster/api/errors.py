"""What is wrong, in the user's words: the errors that Muster raises on purpose, and the problems that checks find.

    MusterError
    ├── UserError       the input is wrong; exit code 2, no traceback
    ├── BackendError    the cluster or the disk did not answer; may be retryable
    ├── PluginError     a plugin broke its contract; who made it has to mend it
    └── InternalError   a bug in Muster; exit code 1, worth a report

Everything in the product raises one of the leaves; only the command line catches the root.
A ``UserError`` names the place, the object, the field, and what would be right. Where a document does not fit its type,
`explain` makes it of msgspec's message: that tells the path (``$.spec.minMember``) and the types, but not the key in a
mapping (``[...]``), so the key is found by looking for the first value that could have caused the message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import ClassVar, Final, NamedTuple

from muster.api.quantity import Quantity, parse_seconds


class MusterError(Exception):
    """Root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1


class UserError(MusterError):
    """The input is wrong, and the message says where and what would be right.

    The parts are kept apart so that an outer layer can add the place it alone knows:
    ``jobs.yaml: document 3 (PodGroup team-a/train): spec.minMember: expected an integer, got "eight"``
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, text: str, *, place: str = "", subject: str = "", field: str = "") -> None:
        self.text = text
        self.place = place
        self.subject = subject
        self.field = field
        super().__init__(self._render())

    def _render(self) -> str:
        if self.place and self.subject:
            head = f"{self.place} ({self.subject})"
        else:
            head = self.place or self.subject
        return ": ".join(part for part in (head, self.field, self.text) if part)

    def located(self, *, place: str = "", subject: str = "") -> UserError:
        """Return the same error with the place and the object filled in where they were unknown."""
        return UserError(self.text, place=self.place or place, subject=self.subject or subject, field=self.field)


class BackendError(MusterError):
    """Something outside Muster failed; ``retryable`` says whether trying again can help."""

    def __init__(self, text: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(text)


class PluginError(MusterError):
    """A plugin did what its contract does not allow."""


class InternalError(MusterError):
    """A promise inside Muster was broken: this is a bug."""


class Problem(NamedTuple):
    """A field, and what would be right."""

    field: str
    text: str
    #: The phrase by which Volcano's users, and their scripts, know this mistake; "" if they know none.
    known_as: str = ""


Problems = Iterator[Problem]


def one_of(field: str, value: str | None, allowed: Collection[str], *, known_as: str = "") -> Problems:
    """Nothing, or one of a few words."""
    if value and value not in allowed:
        yield Problem(field, f'expected {choices(allowed)}, got "{value}"', known_as)


def choices(allowed: Collection[str]) -> str:
    """Return words as a sentence lists them."""
    quoted = [f'"{word}"' for word in allowed]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def at_least(field: str, value: float | None, least: int, *, known_as: str = "") -> Problems:
    """Not set, or not too small."""
    if value is not None and value < least:
        yield Problem(field, f"expected a number of at least {least}, got {value:g}", known_as)


_TAIL: Final = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>.*)`$")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_EXPECTED: Final = re.compile(r"Expected `(?P<types>[^`]+)`(?P<rest>.*)")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]+)`")
_WORDS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "datetime": 'a time such as "2026-01-31T12:00:00Z"',
}
_MAX_SHOWN: Final = 60
_MISSING_VALUE: Final = object()


def describe_value(value: object) -> str:
    """Return a value of a document as an error message shows it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            text = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
            return f'"{text}"'
    return str(value)


def explain(message: str, document: object) -> UserError:
    """Return the error for msgspec's message about a document."""
    tail = _TAIL.search(message)
    path = tail["path"] if tail else ""
    text = message[: tail.start()] if tail else message
    field, value = _locate(path, document, text)
    if tail and tail["key"]:
        value = next((key for key in value if not isinstance(key, str)), None) if isinstance(value, dict) else None
        return UserError(f"expected a string as key, got {describe_value(value)}; put it in quotes", field=field)
    return UserError(_sentence(text, value), field=field)


def _sentence(text: str, value: object) -> str:
    if (missing := _MISSING.fullmatch(text)) is not None:
        return f"{missing['name']} is missing"
    if text.startswith("Invalid RFC3339"):
        return f"expected {_WORDS['datetime']}, got {describe_value(value)}"
    if (expected := _EXPECTED.fullmatch(text)) is None:
        return text  # a sentence of ours already, raised by the decoding hook
    types = [_WORDS.get(name, name) for name in expected["types"].split(" | ") if name != "null"]
    wanted = " or ".join(types)
    if (limit := re.match(r" (?P<sign><=|>=) (?P<number>-?\d+)", expected["rest"])) is not None:
        wanted += f" of at {'most' if limit['sign'] == '<=' else 'least'} {limit['number']}"
    hint = "; put it in quotes" if types == ["a string"] and isinstance(value, bool | int | float) else ""
    return f"expected {wanted}, got {describe_value(value)}{hint}"


def _locate(path: str, document: object, text: str) -> tuple[str, object]:
    """Return the path as the user knows it, and the value there."""
    value, shown = document, ""
    steps = list(_STEP.finditer(path))
    for position, step in enumerate(steps):
        if step["any"]:
            key = _guilty_key(value, path[step.end() :], text, is_last=position == len(steps) - 1)
            shown += f'["{key}"]' if key is not None else "[...]"
        elif step["name"] is not None:
            key = step["name"]
            shown += f".{key}"
        else:
            key = int(step["index"])
            shown += f"[{key}]"
        value = _get(value, key)
    return shown.removeprefix("."), None if value is _MISSING_VALUE else value


def _get(value: object, key: object) -> object:
    if isinstance(value, dict):
        return value.get(key, _MISSING_VALUE)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return _MISSING_VALUE


def _guilty_key(mapping: object, rest: str, text: str, *, is_last: bool) -> object:
    """Return the first key whose value could have caused the message."""
    if not isinstance(mapping, dict):
        return None
    for key, value in mapping.items():
        if is_last and _could_cause(value, text):
            return key
        if not is_last and _locate(rest, value, text)[1] is not None:
            return key
    return None


def _could_cause(value: object, text: str) -> bool:
    if (expected := _EXPECTED.fullmatch(text)) is None:
        try:
            Quantity.of(value)
        except ValueError as error:
            return str(error) == text
        return False
    if (got := re.search(r"got `(\w+)`", expected["rest"])) is not None:
        return _type_name(value) == got[1]
    limit = re.search(r"(<=|>=) (-?\d+)", expected["rest"])
    if limit is None or not isinstance(value, int):
        return False
    return value > int(limit[2]) if limit[1] == "<=" else value < int(limit[2])


def _type_name(value: object) -> str:
    names = {dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def seconds_of(option: str, text: str) -> float:
    """The value of an option that takes a time from 0 on: a duration, or a plain number. Raises UserError."""
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if seconds < 0:
        raise UserError(f'{option}: expected a time from 0 on, such as "10m", got "{text}"')
    return seconds
