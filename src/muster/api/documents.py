"""Documents in YAML and JSON text, with the line each starts on.

Scalars are read as `kubectl` reads them where PyYAML does not: times stay text,
``12:30`` is text and not a number in base sixty, ``1e3`` is a number. A key that stands twice in one
mapping is an error, because one of the two would silently be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from muster.api.errors import UserError
from muster.api.yaml_shapes import Shapes

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML without libyaml: slower, same result
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]  # same interface

_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
MAX_DEPTH: Final = 100
#: What is wrong with a document that is nested deeper, and what stands in it where it was cut off.
TOO_DEEP: Final = f"expected a document nested at most {MAX_DEPTH} levels deep"
_MAX_DIGITS: Final = 400
CUT: Final = "muster.sh/nested-too-deep"
_TEXT_MAPS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})

#: Half of a character that takes two escapes in JSON: no text can hold it. API servers read it as U+FFFD.
_HALF: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u(?:[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u)[dD][c-fC-F][0-9a-fA-F]{2})"
)
_BRACKETS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class TextDocument(NamedTuple):
    """One document of a file; ``line`` counts from one."""

    content: object
    line: int
    #: Why the content is not all that was written; "": it is.
    fault: str = ""


class _Loader(_BaseLoader):
    """Safe YAML with the scalars of Kubernetes, no duplicate keys, and a limit on nesting."""

    depth = 0

    # The parser of libyaml calls these two around each node; it has no limit of its own and would
    # run out of stack.
    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(TOO_DEEP)
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        self.depth -= 1
        super().ascend_resolver()

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # PyYAML's signature; Any: keys are checked later
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                if key_node.value in seen:
                    problem = f'the key "{key_node.value}" stands twice in the same mapping'
                    raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
                seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    replaced = {_INT, _FLOAT, _TIMESTAMP}
    table = {
        first: [(tag, pattern) for tag, pattern in entries if tag not in replaced]
        for first, entries in _BaseLoader.yaml_implicit_resolvers.items()
    }
    numbers = (
        (_INT, re.compile(r"[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+|0o?[0-7]+|0b[01]+)\Z")),
        (_FLOAT, re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z")),
        (_FLOAT, re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")),
    )
    for first in "-+.0123456789":
        table[first] = [*table.get(first, ()), *numbers]
    return table


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    digits = text.lstrip("+-")
    if digits.startswith("0") and digits.isdigit() and len(digits) > 1:
        return int(text, 8)
    return int(text, 0)


_Loader.yaml_implicit_resolvers = _resolvers()
_Loader.add_constructor(_INT, _construct_int)


#: Aliases may make a document so many times larger, and small ones as large as this.
_MAX_GROWTH: Final = 10
_SMALL: Final = 100_000


def yaml_shapes() -> Shapes:
    """A reader of YAML that meets the same shapes again and again; it knows what `read_yaml` knows."""
    return Shapes(_single, _Loader.yaml_implicit_resolvers)


def _single(text: str) -> object:
    """The content of a text with one document. Raises all that PyYAML raises."""
    [document] = _yaml_documents(text)
    return document.content


def read_yaml(text: str, file: str, lines_before: int = 0) -> Iterator[TextDocument]:
    """Yield the documents of a YAML text, which `lines_before` other lines precede. Raises UserError with its place."""
    text = "\n" * lines_before + text
    try:
        yield from _yaml_documents(text)
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(error, file, text) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else 1
        problem = f"not YAML: the character #x{error.character:04x} is not allowed"
        raise UserError(problem, place=f"{file}:{line}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"not YAML: {error}", place=file) from None


def _yaml_documents(text: str) -> Iterator[TextDocument]:
    loader = _Loader(text)
    has_aliases = "&" in text and "*" in text
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                if has_aliases:
                    _check_size(node)
                # Depth first, so that an alias to a mapping around it is an error and not a cycle.
                loader.deep_construct = True
                yield TextDocument(loader.construct_document(node), node.start_mark.line + 1)
    finally:
        loader.dispose()


def _check_size(document: yaml.Node) -> None:
    """Refuse a document that is small only because it names its own parts again and again. Raises ValueError."""
    sizes: dict[int, int] = {}
    todo = [document]
    while todo:
        node = todo[-1]
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else ()
        parts = node.value if isinstance(node, yaml.SequenceNode) else parts
        new = [part for part in parts if id(part) not in sizes]
        if new and id(node) not in sizes:
            sizes[id(node)] = 1  # a cycle comes back here; it is told when the document is made
            todo += new
            continue
        sizes[id(node)] = 1 + sum(sizes.get(id(part), 1) for part in parts)
        todo.pop()
    if sizes[id(document)] > _MAX_GROWTH * len(sizes) + _SMALL:
        raise ValueError(f"its aliases make {sizes[id(document)]:,} values of {len(sizes):,}")


def _yaml_error(error: yaml.MarkedYAMLError, file: str, text: str) -> UserError:
    mark = error.problem_mark or error.context_mark
    place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
    problem = error.problem or "the text ends too early"
    context = f" ({error.context})" if error.context else ""
    here = "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else ""  # "": at the end of the text
    if mark and "cannot start any token" in problem and here[mark.column :].startswith("\t"):
        return UserError("not YAML: a tab stands where YAML wants spaces", place=place)
    if "{{" in here:
        return UserError('not YAML: "{{" begins a template; give what `helm template` makes of it', place=place)
    return UserError(f"not YAML: {problem}{context}", place=place)


def read_json(text: str, file: str) -> Iterator[TextDocument]:
    """Yield the documents of a JSON text, one after the other. Raises UserError with file:line:column."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique_pairs)
    if "\\u" in text:
        text = _HALF.sub(r"\1\\ufffd", text)
    at, line, counted = _skip_space(text, 0), 1, 0
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        try:
            content, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            place = f"{file}:{error.lineno}:{error.colno}"
            raise UserError(f"not JSON: {error.msg}", place=place) from None
        except (ValueError, RecursionError) as error:
            content, end = _rough(text, at, UserError(f"not JSON: {error}", place=f"{file}:{line}"))
            yield TextDocument(content, line, TOO_DEEP if isinstance(error, RecursionError) else str(error))
        else:
            yield TextDocument(content, line)
        at = _skip_space(text, end)


def shallow(text: str, at: int = 0, depth: int = MAX_DEPTH) -> tuple[str, int]:
    """Return one JSON document with `CUT` for all that is nested deeper, and where it ends. Raises ValueError.

    Readers of JSON give up on such documents as a whole, and those of many objects must not be lost for one of them.
    """
    kept: list[str] = []
    start, level = at, 0
    for bracket in _BRACKETS.finditer(text, at):
        if bracket[0] in ("{", "["):
            level += 1
            if level == depth + 1:
                kept.append(text[start : bracket.start()] + f'"{CUT}"')
        elif bracket[0] in ("}", "]"):
            if level == depth + 1:
                start = bracket.end()
            level -= 1
            if level == 0:
                return "".join((*kept, text[start : bracket.end()])), bracket.end()
    raise ValueError("the text ends too early")


def _rough(text: str, at: int, error: UserError) -> tuple[object, int]:
    """A document of which not everything can be read, for those who want to know what it is; raises `error` if not."""
    try:
        cut, end = shallow(text, at)
        return json.loads(cut, parse_int=lambda digits: int(digits[:_MAX_DIGITS])), end
    except (ValueError, RecursionError):
        raise error from None


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _unique_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f'the key "{twice}" stands twice in the same mapping')
    return result


def without_nulls(value: object, parent: str = "", depth: int = 0) -> object:
    """Return the document without null fields, which mean "absent" in Kubernetes."""
    if depth > MAX_DEPTH:
        raise UserError(TOO_DEEP)
    if isinstance(value, dict):
        if parent in _TEXT_MAPS:
            return {key: "" if item is None else item for key, item in value.items()}
        return {
            key: without_nulls(item, key if isinstance(key, str) else "", depth + 1)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item, "", depth + 1) for item in value]
    return value
