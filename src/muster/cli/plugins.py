"""Every plugin and action as data, `muster plugins`, and what a configuration that names them was understood to say.

The data (summary, arguments, extension points, package) is made from the classes themselves, so that it cannot drift
from them.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from msgspec import inspect as types
from rich.console import Console
from rich.text import Text

from muster.api import UserError
from muster.cli.screen import heading, make_console, plain_table, print_document
from muster.cli.sources import say_notes
from muster.controllers.grouping.table import own_table, table_with
from muster.framework import (
    PROFILES,
    Action,
    Plugin,
    PluginOption,
    Registry,
    SchedulerConfig,
    find_config,
    profile_yaml,
)
from muster.framework.plugin import Arguments
from muster.framework.points import implemented
from muster.framework.registry import ACTION_GROUP, PLUGIN_GROUP
from muster.scheduler import builtin_registry

OWN_PACKAGE = "muster"


#: Of a plugin, in configurations.
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """One argument as the configuration file names it."""

    name: str
    type: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A plugin or an action."""

    kind: str
    name: str
    summary: str
    package: str
    arguments: tuple[ArgumentInfo, ...]
    #: Extension points that a plugin answers; empty for actions.
    points: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:  # Any: a JSON document
        return {
            "kind": self.kind,
            "name": self.name,
            "summary": self.summary,
            "package": self.package,
            "extensionPoints": list(self.points),
            "arguments": [
                {"name": a.name, "type": a.type, "default": a.default, "meaning": a.meaning} for a in self.arguments
            ],
        }


def inventory(registry: Registry) -> list[PartInfo]:
    """Describe everything that a registry holds: plugins by name, then actions by name."""
    plugins = [_describe("plugin", known) for _, known in sorted(registry.plugins.items())]
    actions = [_describe("action", known) for _, known in sorted(registry.actions.items())]
    return plugins + actions


def _describe(kind: str, known: type[Plugin] | type[Action]) -> PartInfo:
    points: tuple[str, ...] = ()
    if issubclass(known, Plugin):
        points = tuple(point.name for point in implemented(known))
    return PartInfo(
        kind=kind,
        name=known.name,
        summary=known.summary or _first_line(known),
        package=_package_of(known),
        arguments=tuple(argument_infos(known.Args)),
        points=points,
    )


def argument_infos(arguments: type[Arguments]) -> Iterator[ArgumentInfo]:
    """Describe the fields of an `Args` class."""
    described = types.type_info(arguments)
    assert isinstance(described, types.StructType)
    for field in described.fields:
        bare, meaning = _without_meaning(field.type)
        yield ArgumentInfo(field.encode_name, type_text(bare), _default_text(field), meaning)


def _without_meaning(given: types.Type) -> tuple[types.Type, str]:
    meaning = ""
    while isinstance(given, types.Metadata):
        meaning = str((given.extra_json_schema or {}).get("description", meaning))
        given = given.type
    return given, meaning


def type_text(given: types.Type) -> str:
    """Return a type in words, with its limits: "whole number, at least 1"."""
    given, _ = _without_meaning(given)
    if isinstance(given, types.IntType | types.FloatType):
        return ", ".join(["whole number" if isinstance(given, types.IntType) else "number", *_limits(given)])
    if isinstance(given, types.BoolType):
        return "true or false"
    if isinstance(given, types.StrType):
        return "text"
    return _compound_text(given)


def _compound_text(given: types.Type) -> str:
    match given:
        case types.LiteralType():
            return " or ".join(str(value) for value in given.values)
        case types.EnumType():
            return " or ".join(str(member.value) for member in given.cls)
        case types.DictType():
            return f"mapping of {type_text(given.key_type)} to {type_text(given.value_type)}"
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            return f"list of {type_text(given.item_type)}"
        case types.UnionType():
            parts = [part for part in given.types if not isinstance(part, types.NoneType)]
            return " or ".join(type_text(part) for part in parts)
        case types.StructType():
            return f"mapping with {', '.join(field.encode_name for field in given.fields)}"
        case _:
            return "any value"


def _limits(given: types.IntType | types.FloatType) -> list[str]:
    if given.ge is not None and given.le is not None:
        return [f"{_number(given.ge)} to {_number(given.le)}"]
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    return [
        f"{word} {_number(getattr(given, limit))}" for limit, word in words.items() if getattr(given, limit) is not None
    ]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _default_text(field: types.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return value_text(value)


def value_text(value: object) -> str:
    """Return a value as one would write it in the configuration; nothing for what is not set."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value or '""'
    plain = msgspec.to_builtins(value, str_keys=True)
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{key}: {value_text(item)}" for key, item in plain.items()) + "}"
    if isinstance(plain, list):
        return "[" + ", ".join(value_text(item) for item in plain) + "]"
    return _number(plain) if isinstance(plain, int | float) else str(plain)


def _first_line(known: type) -> str:
    return (inspect.getdoc(known) or "").partition("\n")[0]


def _package_of(known: type) -> str:
    """Return the distribution that registered a class by entry point, "muster" for built-in ones."""
    if known.__module__.partition(".")[0] == OWN_PACKAGE:
        return OWN_PACKAGE
    for group in (PLUGIN_GROUP, ACTION_GROUP):
        for entry in entry_points(group=group):
            if entry.value == f"{known.__module__}:{known.__qualname__}" and entry.dist is not None:
                return entry.dist.name
    return known.__module__.partition(".")[0]


# -- `muster plugins` ------------------------------------------------------------------------------------------


def print_plugins(output: str) -> None:
    """Print the inventory as a list for people, or as JSON."""
    parts = inventory(builtin_registry())
    if print_document([part.to_json() for part in parts], output):
        return
    console = make_console(wide=output == "wide")
    for kind in ("plugin", "action"):
        console.print(heading(f"{kind.capitalize()}s"))
        for part in parts:
            if part.kind == kind:
                _print_part(console, part)
        console.print()


def _print_part(console: Console, part: PartInfo) -> None:
    origin = "" if part.package == OWN_PACKAGE else f" (from package {part.package})"
    console.print()
    console.print(Text.assemble("  ", (part.name, "bold cyan"), origin))
    _print_wrapped(console, part.summary)
    if part.points:
        _print_wrapped(console, f"answers {', '.join(part.points)}", style="dim")
    for argument in part.arguments:
        kind = f"{argument.name}  {argument.type}; default {argument.default}"
        first, *more = textwrap.wrap(kind, console.width - 4, subsequent_indent=" " * 4)
        console.print(Text.assemble("    ", (argument.name, "bold"), (first[len(argument.name) :], "dim")))
        for line in more:
            console.print(Text(f"    {line}", style="dim"))
        _print_wrapped(console, argument.meaning, indent=8)


def _print_wrapped(console: Console, text: str, *, indent: int = 4, style: str = "") -> None:
    for line in textwrap.wrap(text, console.width - indent):
        console.print(Text(" " * indent + line, style=style))


# -- `muster config` -------------------------------------------------------------------------------------------


def print_profiles(name: str | None, output: str) -> None:
    """Print the list of profiles, or one as the file that it stands for."""
    if name is not None:
        typer.echo(profile_yaml(name), nl=False)
        return
    if print_document([{"name": known.name, "summary": known.summary} for known in PROFILES.values()], output):
        return
    table = plain_table("profile", "what it is")
    for known in PROFILES.values():
        table.add_row(Text(known.name, style="cyan"), Text(known.summary))
    make_console().print(table)


def print_checked(file: str, output: str) -> None:
    """Read and check a file or profile; print actions, tiers and plugins with their effective arguments."""
    config = find_config(file)
    say_notes(config.notes)
    registry = builtin_registry()
    registry.check(config, file)
    table = table_with(config.grouping, file)
    own = [kind for kind, rule in table.rules.items() if rule is not own_table().rules.get(kind)]
    if print_document(registry.understood(config, file), output):
        return
    console = make_console(wide=output == "wide")
    console.print(f"{file}: valid")
    console.print()
    _print_actions(console, config, registry, file)
    for number, tier in enumerate(config.tiers, start=1):
        console.print()
        console.print(heading(f"Tier {number}"))
        for option in tier:
            _print_plugin(console, option, registry, file)
    if own:
        console.print()
        console.print(heading("Grouping, rows of this file"))
        for kind in own:
            console.print(Text(f"  {kind}", style="cyan"))


def _print_actions(console: Console, config: SchedulerConfig, registry: Registry, source: str) -> None:
    console.print(heading("Actions, in order"))
    for name in config.actions:
        given = config.arguments_of(name)
        console.print(Text(f"  {name}", style="cyan"))
        _print_arguments(console, registry.make_action(name, given, source), given)


def _print_plugin(console: Console, option: PluginOption, registry: Registry, source: str) -> None:
    flags = "".join(f"  {flag}: {value_text(value)}" for flag, value in sorted(option.flags.items()))
    console.print(Text.assemble("  ", (option.name, "cyan"), flags))
    _print_arguments(console, registry.make_plugin(option, source), option.arguments)


def _print_arguments(console: Console, part: Plugin | Action, given: Mapping[str, object]) -> None:
    """Print each argument's value, and whether the file or the default gave it."""
    values = msgspec.structs.asdict(part.arguments)
    fields = {known.encode_name: known.name for known in msgspec.structs.fields(part.arguments)}
    for info in argument_infos(type(part.arguments)):
        shown = value_text(values[fields[info.name]])
        origin = "" if given.get(info.name) is not None or shown != info.default else "  (default)"
        console.print(Text(f"    {info.name}: {shown}{origin}"))


# -- a plugin to begin with ------------------------------------------------------------------------------------------


def write_plugin(name: str, directory: Path) -> None:
    """Make a folder with a plugin, its test and a configuration. Raises UserError."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name}: expected small letters and digits, with dashes between, such as cheap-power")
    if name in builtin_registry(third_party=False).plugins:
        raise UserError(f"{name}: a built-in plugin has this name; choose another")
    folder = directory / name
    if folder.exists():
        raise UserError(f"{folder}: is there already; choose another name or --directory")
    for path, text in _skeleton(name).items():
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{folder / path}: cannot be written: {error.strerror}") from error
        typer.echo(f"wrote {folder / path}")
    typer.echo(
        f"Next, in the environment that has muster: cd {folder}, python -m pip install -e ., python -m pytest,\n"
        "then muster simulate cluster.yaml --config scheduler.yaml"
    )


def _skeleton(name: str) -> dict[str, str]:
    """The files of a new plugin, by path."""
    short = name.replace("-", "_")
    kind = "".join(part.capitalize() for part in name.split("-"))
    paths = {
        "pyproject.toml": "pyproject.toml",
        "cluster.yaml": "cluster.yaml",
        "scheduler.yaml": "scheduler.yaml",
        f"src/muster_{short}/__init__.py": "plugin.py",
        f"tests/test_{short}.py": "test.py",
    }
    templates = files("muster.cli") / "skeleton"
    texts = {path: (templates / f"{given}.txt").read_text(encoding="utf-8") for path, given in paths.items()}
    return {
        path: text.replace("<NAME>", name).replace("<MODULE>", f"muster_{short}").replace("<KIND>", kind)
        for path, text in texts.items()
    }
