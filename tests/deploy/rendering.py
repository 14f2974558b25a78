"""Helm's templates without Helm, as far as the chart uses them: `if`, `else`, `define`, `include` and a few functions.

Tests render the chart with it; `manifests` writes what it renders. Anything else in a template is an error here, so the
chart stays within what this module can read. Its answers were compared with those of Helm itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Values = dict[str, Any]
Scope = Mapping[str, Any]

_ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
_WORD = re.compile(r'"[^"]*"|[^\s"]+')
_QUOTED = re.compile(r'"([^"]*)"')


@dataclass
class Block:
    """A part of a template: texts, actions, and conditions with two branches."""

    parts: list[str | Action | Condition] = field(default_factory=list)


@dataclass(frozen=True)
class Action:
    """Something that is replaced by its value."""

    pipeline: str


@dataclass(frozen=True)
class Condition:
    """One of two blocks."""

    pipeline: str
    then: Block
    otherwise: Block


class Chart:
    """A chart with its default values."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.about: Values = yaml.safe_load((directory / "Chart.yaml").read_text())
        self.values: Values = yaml.safe_load((directory / "values.yaml").read_text())
        #: Groups that the cluster has beside Kubernetes's own.
        self.api_versions = {"monitoring.coreos.com/v1"}
        self._named: dict[str, Block] = {}
        self._templates = {
            path.name: _parse(path.read_text(), self._named) for path in sorted((directory / "templates").iterdir())
        }

    def render(self, values: Values | None = None, *, name: str = "muster", namespace: str = "muster-system") -> str:
        """Return all objects as one YAML text, in the order of the templates' names."""
        texts = (self.render_file(file, values, name=name, namespace=namespace) for file in self._templates)
        return "---\n".join(text for text in texts if text)

    def render_file(self, file: str, values: Values | None = None, *, name: str, namespace: str) -> str:
        """Return what one template gives; nothing for those that only define names, and for notes."""
        if not file.endswith(".yaml"):
            return ""
        scope = {
            "Values": _merged(self.values, values or {}),
            "Chart": {"AppVersion": self.about["appVersion"]},
            "Release": {"Name": name, "Namespace": namespace},
        }
        text = self._render(self._templates[file], scope).strip("\n")
        return f"{text}\n" if text else ""

    def _render(self, block: Block, scope: Scope) -> str:
        return "".join(self._part(part, scope) for part in block.parts)

    def _part(self, part: str | Action | Condition, scope: Scope) -> str:
        match part:
            case str():
                return part
            case Action():
                value = self._value(part.pipeline, scope)
                return value if isinstance(value, str) else _scalar(value)
            case Condition():
                return self._render(part.then if self._value(part.pipeline, scope) else part.otherwise, scope)

    def _value(self, pipeline: str, scope: Scope) -> object:
        first, *steps = pipeline.split("|")
        value = self._call(_WORD.findall(first), scope)
        for step in steps:
            name, *arguments = _WORD.findall(step)
            value = _FUNCTIONS[name](value, *(self._call([argument], scope) for argument in arguments))
        return value

    def _call(self, words: list[str], scope: Scope) -> object:
        match words:
            case ["include", name, "."]:
                return self._render(self._named[name.strip('"')], scope)
            case [".Files.Get", path]:
                return (self.directory / path.strip('"')).read_text()
            case [".Capabilities.APIVersions.Has", version]:
                return version.strip('"') in self.api_versions
            case ["toYaml", path]:
                return yaml.safe_dump(_look_up(path, scope), sort_keys=False).rstrip("\n")
            case [word]:
                return _literal(word) if not word.startswith(".") else _look_up(word, scope)
        raise ValueError(f"the chart uses what is not known here: {' '.join(words)}")


def _parse(text: str, named: dict[str, Block]) -> Block:
    pieces = _pieces(text)
    block, end = _block(pieces, named)
    assert not end, f"{{{{ {end} }}}} without a beginning"
    return block


def _pieces(text: str) -> Iterator[str | Action]:
    """Yield texts and actions in turn; a dash takes the white space on its side away."""
    at, trim = 0, False
    for found in _ACTION.finditer(text):
        before = text[at : found.start()]
        before = before.lstrip() if trim else before
        yield before.rstrip() if found[1] else before
        yield Action(found[2])
        at, trim = found.end(), bool(found[3])
    yield text[at:].lstrip() if trim else text[at:]


def _block(pieces: Iterator[str | Action], named: dict[str, Block]) -> tuple[Block, str]:
    """Read up to the end of a block; return it and the word that ended it."""
    block = Block()
    for piece in pieces:
        if isinstance(piece, str):
            block.parts.append(piece)
            continue
        word, _, rest = piece.pipeline.partition(" ")
        if word in {"end", "else"}:
            return block, word
        if word == "if":
            then, end = _block(pieces, named)
            otherwise = _block(pieces, named)[0] if end == "else" else Block()
            block.parts.append(Condition(rest, then, otherwise))
        elif word == "define":
            named[rest.strip('"')], _ = _block(pieces, named)
        else:
            block.parts.append(piece)
    return block, ""


def _look_up(path: str, scope: Scope) -> object:
    found: object = scope
    for name in path.strip(".").split("."):
        assert isinstance(found, Mapping), f"{path}: nothing of that name in the values"
        found = found[name]
    return found


def _literal(word: str) -> object:
    quoted = _QUOTED.fullmatch(word)
    return quoted[1] if quoted else int(word)


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _indent(value: object, by: object) -> str:
    assert isinstance(by, int)
    return "\n".join(" " * by + line for line in str(value).split("\n"))


def _quote(value: object) -> str:
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "quote": _quote,
    "default": lambda value, other: value or other,
    "trim": lambda value: str(value).strip(),
    "nindent": lambda value, by: "\n" + _indent(value, by),
}


def _merged(base: Values, over: Values) -> Values:
    """Values with others laid over them, key by key."""
    both = {
        key: _merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in over.items()
    }
    return {**base, **both}
