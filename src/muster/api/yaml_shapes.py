"""YAML read by its shape: the full parser reads each form of a document once, and values are filled into it.

The documents of a cluster look alike: the pods of a job differ in a name and a number. A document is therefore taken
apart into its values and the text around them, its shape. The shape is given to the full parser, with a word in the
place of each value; where every word comes back as a value, the shape becomes a template of JSON that later documents
of the same shape only fill in. Whatever is out of the ordinary (comments, texts of several lines, anchors) leaves a
word somewhere else, and the document is read by the full parser as ever: it alone says what YAML means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

# A value stands behind ": ", "- ", ", " or "[", before the end of the line or of its part of a list in brackets. Plain
# ones have no character that could mean anything else, quoted ones nothing that is escaped.
_PLAIN: Final = r"[A-Za-z0-9_./+](?:[A-Za-z0-9_./@%+=~:-]*[A-Za-z0-9_./@%+=~-])?"
_QUOTED: Final = r'"[ !#-\[\]-~]*"' + r"|'[ -&(-~]*'"
_VALUE: Final = re.compile(rf"((?:[:,-] |\[)(?:{_PLAIN}|{_QUOTED}))(?=[\n,\]}}]|\Z)")
#: A word that no document should hold, with a number for each value.
_STEM: Final = "musterValue"
_WORD: Final = re.compile(rf"{_STEM}([0-9]+)x")
_WORD_ALONE: Final = re.compile(rf'(?<=[:\[,])"{_STEM}([0-9]+)x"(?=[,\]}}])')
_MAX_SHAPES: Final = 2000
_MAX_VALUES: Final = 200_000
_INT64: Final = 2**63

#: The tags that plain values may have, by their first character, as PyYAML keeps them.
Resolvers = Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]
_encode: Final = msgspec.json.Encoder().encode


class _Shape(NamedTuple):
    """A template of JSON with a %s for each value; None: the full parser has to read each such document."""

    template: str | None
    #: Whether there are values in brackets, where a colon may have a meaning of its own.
    has_brackets: bool = False


_UNUSABLE: Final = _Shape(None)


class Shapes:
    """The shapes that were met so far. `parse` is the full parser: a text becomes the content of its one document."""

    def __init__(self, parse: Callable[[str], object], resolvers: Resolvers) -> None:
        self._parse = parse
        self._shapes: dict[str, _Shape] = {}
        self._values = _Values(parse, resolvers)

    def json_of(self, text: str) -> bytes | None:
        """The document as JSON; None: the full parser has to read it."""
        parts = _VALUE.split(text)
        values = parts[1::2]
        outline = "\0".join([*parts[::2], *[value[0] for value in values]])
        shape = self._shapes.get(outline)
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[outline] = _UNUSABLE if "\0" in text else self._learned(parts)
        if shape.template is None or (shape.has_brackets and any(map(_is_plain_with_colon, values))):
            return None
        try:
            return (shape.template % tuple(map(self._values.__getitem__, values))).encode()
        except _NotJsonError:
            return None

    def _learned(self, parts: list[str]) -> _Shape:
        n_values = len(parts) // 2
        if not n_values or _STEM in "".join(parts):
            return _UNUSABLE
        words = [part if place % 2 == 0 else f"{_mark(part)}{_STEM}{place // 2}x" for place, part in enumerate(parts)]
        try:
            content = self._parse("".join(words))
            text = _encode(_checked(content)).decode()
        except Exception:  # noqa: BLE001  # whatever is wrong, the full parser says it of the document itself
            return _UNUSABLE
        alone = list(map(int, _WORD_ALONE.findall(text)))
        if alone != list(range(n_values)) or len(_WORD.findall(text)) != n_values:
            return _UNUSABLE
        around = "".join(parts[::2]).replace("{}", "").replace("[]", "")
        template = re.sub(rf'"{_STEM}[0-9]+x"', "%s", text.replace("%", "%%"))
        return _Shape(
            template, has_brackets="{" in around or "[" in around or any(part[0] == "[" for part in parts[1::2])
        )


def _mark(value: str) -> str:
    return "[" if value[0] == "[" else value[:2]


def _is_plain_with_colon(value: str) -> bool:
    return ":" in value[2:] and value[len(_mark(value))] not in "\"'"


class _NotJsonError(Exception):
    """A value that JSON does not hold as it is."""


def _checked(content: object) -> object:
    """The content, if JSON holds it as it is: keys are texts, numbers fit."""
    if isinstance(content, dict):
        for key, value in content.items():
            _checked(value)
            if not isinstance(key, str):
                raise _NotJsonError
    elif isinstance(content, list):
        for item in content:
            _checked(item)
    elif isinstance(content, float | int) and not (math.isfinite(content) and -_INT64 <= content < _INT64):
        raise _NotJsonError
    return content


class _Values(dict[str, str]):
    """What values are in JSON, by what stands in the text."""

    def __init__(self, parse: Callable[[str], object], resolvers: Resolvers) -> None:
        super().__init__()
        self._parse = parse
        self._resolvers = resolvers

    def __missing__(self, value: str) -> str:
        if len(self) >= _MAX_VALUES:
            self.clear()
        made = self[value] = self._made(value[len(_mark(value)) :])
        return made

    def _made(self, written: str) -> str:
        if written[0] in "\"'":
            return _encode(written[1:-1]).decode()
        if not any(pattern.match(written) for _, pattern in self._resolvers.get(written[0], ())):
            return f'"{written}"'  # a text, and nothing in it is escaped in JSON
        return _encode(_checked(self._parse(written))).decode()
