"""Which plugins and actions exist: the built-in ones, and third parties' by entry point.

A third party registers a `Plugin` subclass under the entry-point group `muster.plugins` (the entry point's name
is the plugin's name) or an `Action` under `muster.actions`; a built-in name cannot be taken.
Arguments are checked here, so that every plugin gives the same kind of error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from muster.api import UserError
from muster.api.errors import choices, describe_value, explain
from muster.framework.config import PluginOption, SchedulerConfig
from muster.framework.config_files import hint
from muster.framework.plugin import Arguments, Plugin
from muster.framework.points import DIVIDE_CLASSES, Point, implemented

if TYPE_CHECKING:
    from muster.framework.session import Session

T = TypeVar("T")

#: Of a resource, in arguments.
Weight = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.+?)`(?: - at `.*`)?")
PLUGIN_GROUP = "muster.plugins"
ACTION_GROUP = "muster.actions"

#: Plugins and actions of Volcano's that a configuration may name but that Muster does not have (yet).
NOT_YET_PLUGINS = frozenset(
    {
        "numa-aware",
        "deviceshare",
        "task-topology",
        "rescheduling",
        "usage",
        "extender",
        "ascend310p-fix",
    }
)
NOT_YET_ACTIONS = frozenset({"shuffle"})


class Action:
    """A step of the cycle: reads the session, builds statements, commits them."""

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    Args: ClassVar[type[Arguments]] = Arguments

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def run(self, session: Session) -> None:
        """Do the step."""
        raise AssertionError("actions override run()")


#: So many checked arguments are kept; a scheduler has a dozen.
_MANY: Final = 1024


@dataclass(frozen=True, slots=True)
class Seat:
    """A plugin of a configuration, checked: what every session makes its instance from."""

    option: PluginOption
    plugin: type[Plugin]
    arguments: Arguments
    #: The extension points that it answers and that are on.
    points: tuple[Point[..., Any, Any], ...]


#: By extension point: the places of who answers it, tier by tier, without tiers in which nobody does.
Answering: TypeAlias = dict[Point[..., Any, Any], list[list[tuple[int, int]]]]


@dataclass(frozen=True, slots=True)
class Seating:
    """The plugins of a configuration, tier by tier, and what follows from who they are."""

    seats: list[list[Seat]]
    answering: Answering
    #: Labels and annotations of pods that some of them look at.
    labels: tuple[str, ...]
    annotations: tuple[str, ...]
    #: Places of those that tell tasks of one class apart.
    dividing: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, seats: list[list[Seat]]) -> Seating:
        placed = [
            ((number, place), seat.points, seat.plugin)
            for number, tier in enumerate(seats)
            for place, seat in enumerate(tier)
        ]
        return cls(
            seats,
            _answering(seats),
            tuple(label for _, _, plugin in placed for label in plugin.pod_labels),
            tuple(annotation for _, _, plugin in placed for annotation in plugin.pod_annotations),
            tuple(
                where
                for where, points, plugin in placed
                if DIVIDE_CLASSES in points or plugin.pod_labels or plugin.pod_annotations
            ),
        )


@dataclass(slots=True)
class Registry:
    """Plugins and actions by name."""

    plugins: dict[str, type[Plugin]] = field(default_factory=dict)
    actions: dict[str, type[Action]] = field(default_factory=dict)
    #: What was checked once, by the identity of what was given, which is kept beside it: no other can take its place.
    _seats: dict[int, Seat] = field(default_factory=dict, repr=False, compare=False)
    _read: dict[tuple[str, int], tuple[Mapping[str, Any], Arguments]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _seatings: dict[tuple[int, frozenset[str]], tuple[Sequence[Sequence[PluginOption]], Seating]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(cls, plugins: Iterable[type[Plugin]], actions: Iterable[type[Action]]) -> Registry:
        return cls({known.name: known for known in plugins}, {known.name: known for known in actions})

    def load_entry_points(self) -> None:
        """Add what installed packages register; a package that cannot be loaded is an error that names it."""
        installed = entry_points()  # asked once, since every package is looked into
        _add_entry_points(installed.select(group=PLUGIN_GROUP), self.plugins, Plugin)
        _add_entry_points(installed.select(group=ACTION_GROUP), self.actions, Action)

    def check(self, config: SchedulerConfig, source: str = "configuration") -> None:
        """Raise `UserError` unless every plugin, action and argument of `config` is known and valid."""
        for option in config.plugin_options():
            self.make_plugin(option, source)
        for name in config.actions:
            self.make_action(name, config.arguments_of(name), source)
        for name in config.configurations:
            if name not in self.actions:
                raise UserError(f"{source}: configurations: {self._unknown_action(name)}")

    def seat(self, option: PluginOption, source: str = "configuration") -> Seat:
        """Check an entry of a configuration; one and the same entry is checked once."""
        known = self._seats.get(id(option))
        plugin = self.plugins.get(option.name)
        if plugin is None:
            raise UserError(f"{source}: tiers: {self._unknown_plugin(option.name)}")
        if known is None or known.plugin is not plugin:
            arguments = read_arguments(plugin, option.arguments, f"{source}: plugin {option.name}")
            on = tuple(point for point in implemented(plugin) if option.is_on(point))
            if len(self._seats) >= _MANY:
                self._seats.clear()
            known = self._seats[id(option)] = Seat(option, plugin, arguments, on)
        return known

    def seating(self, tiers: Sequence[Sequence[PluginOption]], out: frozenset[str] = frozenset()) -> Seating:
        """The seats of all plugins that are not `out`; found out once for the same tiers."""
        key = id(tiers), out
        _, known = self._seatings.get(key, (None, None))
        if known is None or any(
            self.plugins.get(seat.option.name) is not seat.plugin for tier in known.seats for seat in tier
        ):
            if len(self._seatings) >= _MANY:
                self._seatings.clear()
            known = Seating.of([[self.seat(option) for option in tier if option.name not in out] for tier in tiers])
            self._seatings[key] = tiers, known
        return known

    def make_plugin(self, option: PluginOption, source: str = "configuration") -> Plugin:
        seat = self.seat(option, source)
        return seat.plugin(seat.arguments)

    def make_plugins(self, config: SchedulerConfig) -> list[Plugin]:
        """Every plugin of a configuration, not opened."""
        return [self.make_plugin(option) for option in config.plugin_options()]

    def make_action(self, name: str, arguments: Mapping[str, Any], source: str = "configuration") -> Action:
        known = self.actions.get(name)
        if known is None:
            raise UserError(f"{source}: actions: {self._unknown_action(name)}")
        read = self._read.get((name, id(arguments)))
        if read is None:
            if len(self._read) >= _MANY:
                self._read.clear()
            read = arguments, read_arguments(known, arguments, f"{source}: action {name}")
            self._read[name, id(arguments)] = read
        return known(read[1])

    def understood(self, config: SchedulerConfig, source: str = "configuration") -> dict[str, Any]:  # Any: JSON
        """What a configuration says, with defaults filled in. Raises UserError."""
        actions = [self.make_action(name, config.arguments_of(name), source) for name in config.actions]
        tiers = [[(option, self.make_plugin(option, source)) for option in tier] for tier in config.tiers]
        return {
            "source": source,
            "actions": [{"name": action.name, "arguments": _values(action)} for action in actions],
            "tiers": [
                [
                    {"name": option.name, "flags": dict(option.flags), "arguments": _values(plugin)}
                    for option, plugin in tier
                ]
                for tier in tiers
            ],
        }

    def _unknown_plugin(self, name: str) -> str:
        if name in NOT_YET_PLUGINS:
            return f"plugin {name!r} is not supported yet; remove it from the configuration"
        known = ", ".join(sorted(self.plugins))
        others = f"known: {known}; own ones are installed beside muster"
        return f"unknown plugin {name!r}; {hint(name, self.plugins, others)}"

    def _unknown_action(self, name: str) -> str:
        if name in NOT_YET_ACTIONS:
            return f"action {name!r} is not supported yet; remove it from the configuration"
        return f"unknown action {name!r}; {hint(name, self.actions)}"


def _answering(tiers: list[list[Seat]]) -> Answering:
    found: Answering = {}
    for number, tier in enumerate(tiers):
        for place, seat in enumerate(tier):
            for point in seat.points:
                there = found.setdefault(point, [])
                if not there or there[-1][0][0] != number:
                    there.append([])
                there[-1].append((number, place))
    return found


def _values(part: Plugin | Action) -> dict[str, Any]:  # Any: a JSON document
    """Arguments as a configuration names them."""
    values: dict[str, Any] = msgspec.to_builtins(part.arguments, str_keys=True)
    return values


def read_arguments(owner: type[Plugin] | type[Action], raw: Mapping[str, Any], place: str) -> Arguments:
    """Check arguments against the owner's `Args`; an owner with open-ended names defines `read_arguments`."""
    own = getattr(owner, "read_arguments", None)
    try:
        if own is not None:
            arguments: Arguments = own(raw)
            return arguments
        return msgspec.convert(_without_none(raw), owner.Args, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"{place}: arguments: {in_words(str(error), raw, owner.Args)}") from error
    except ValueError as error:
        raise UserError(f"{place}: arguments: {error}") from error


def in_words(message: str, raw: Mapping[str, Any], wanted: type[msgspec.Struct]) -> str:
    """What is wrong with arguments, in words of ours; `message` is msgspec's."""
    fields = {known.encode_name: known for known in inspect.type_info(wanted).fields}  # type: ignore[attr-defined]
    if (unknown := _UNKNOWN.fullmatch(message)) is not None:
        name = unknown["name"]
        return f"there is no argument {name!r}; {hint(name, fields, '' if fields else 'there are none')}"
    text, _, path = message.partition(" - at `$.")
    path = path.removesuffix("`")
    # Names may hold dots.
    name = max((known for known in fields if path == known or path.startswith((f"{known}.", f"{known}["))), default="")
    if not name:
        return message
    allowed = _choices(fields[name].type)
    if allowed and text.startswith("Invalid enum value"):
        return f"{name}: expected {choices(allowed)}, got {describe_value(raw.get(name))}"
    found = explain(f"{text} - at `$.value{path.removeprefix(name)}`", {"value": raw.get(name)})
    return f"{name}{found.field.removeprefix('value')}: {found.text}"


def _choices(given: inspect.Type) -> list[str]:
    """The words that an argument may be; none: it is no choice."""
    while isinstance(given, inspect.Metadata):
        given = given.type
    if isinstance(given, inspect.EnumType):
        return [str(member.value) for member in given.cls]
    return [str(value) for value in given.values] if isinstance(given, inspect.LiteralType) else []


def _without_none(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A key with no value in YAML means the default, as in Volcano."""
    return {key: value for key, value in raw.items() if value is not None}


def take_weights(given: dict[str, Any], key: str) -> dict[str, int]:  # Any: values as YAML gave them
    """Take weights of resources out of `given`: `<key>: a, b` lists them, `<key>.a: 3` is a weight; without, it is 1.

    A weight for a resource that is not listed has no effect, as in Volcano. Raises ValueError that names the argument.
    """
    prefix = f"{key}."
    listed = listed_names(key, given.pop(key, ""))
    weights = {name[len(prefix) :]: given.pop(name) for name in sorted(given) if name.startswith(prefix)}
    checked = {resource: _weight(f"{prefix}{resource}", weight) for resource, weight in weights.items()}
    return {resource: checked.get(resource, 1) for resource in listed}


def listed_names(key: str, given: object) -> list[str]:
    """Read names separated by commas; each counts once. Raises ValueError that names the argument."""
    if not isinstance(given, str):
        # A ValueError like every other wrong argument: the registry names plugin and file.
        raise ValueError(  # noqa: TRY004
            f'{key}: expected names separated by commas, such as "nvidia.com/gpu", got {given!r}'
        )
    names = (name.strip() for name in given.split(","))
    return list(dict.fromkeys(name for name in names if name))


def _weight(argument: str, given: object) -> int:
    try:
        return msgspec.convert(given, Weight, strict=False)
    except msgspec.ValidationError:
        raise ValueError(f"{argument}: expected a whole number from 0 to 1000000, got {given!r}") from None


def _add_entry_points(found: Iterable[EntryPoint], known: dict[str, type[T]], base: type[T]) -> None:
    for entry in sorted(found, key=lambda one: one.name):
        if entry.name in known:
            raise UserError(
                f"entry point {entry.name!r} of group {entry.group} ({entry.value}): the name is taken by "
                f"{known[entry.name].__module__}; choose another name"
            )
        known[entry.name] = _load(entry, base)


def _load(entry: EntryPoint, base: type[T]) -> type[T]:
    try:
        loaded = entry.load()
    except Exception as error:  # a broken third-party package must not take the scheduler down with a traceback
        raise UserError(f"entry point {entry.name!r} ({entry.value}): cannot be loaded: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise UserError(
            f"entry point {entry.name!r} ({entry.value}): expected a subclass of {base.__name__}, got {loaded!r}"
        )
    if getattr(loaded, "name", None) != entry.name:
        raise UserError(
            f"entry point {entry.name!r} ({entry.value}): its class calls itself {getattr(loaded, 'name', None)!r}"
        )
    return loaded
