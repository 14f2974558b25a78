"""The registry: names and arguments are checked, third parties come by entry point, and errors say what to do."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from msgspec import Meta

from muster.api import UserError
from muster.framework import Action, Arguments, Plugin, PluginOption, Registry, SchedulerConfig, registry


class KnobArguments(Arguments, frozen=True, kw_only=True):
    weight: Annotated[int, Meta(ge=0)] = msgspec.field(default=1, name="knob.weight")
    loud: bool = False


class Knob(Plugin):
    name: ClassVar[str] = "knob"
    Args: ClassVar[type[Arguments]] = KnobArguments


class Stubborn(Plugin):
    """Reads its arguments itself."""

    name: ClassVar[str] = "stubborn"

    @staticmethod
    def read_arguments(raw: dict[str, Any]) -> Arguments:
        if raw:
            raise ValueError("takes nothing")
        return Arguments()


class Walk(Action):
    name: ClassVar[str] = "walk"


def known() -> Registry:
    return Registry.of([Knob, Stubborn], [Walk])


def config(*options: PluginOption, actions: tuple[str, ...] = ("walk",), **arguments: Any) -> SchedulerConfig:
    return SchedulerConfig(actions, (options,), arguments)


def said(of: SchedulerConfig) -> str:
    with pytest.raises(UserError) as raised:
        known().check(of, "conf.yaml")
    return str(raised.value)


# -- names --------------------------------------------------------------------------------------------------------


def test_a_configuration_that_is_right_passes() -> None:
    known().check(config(PluginOption("knob", arguments={"knob.weight": 3}), walk={}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            config(PluginOption("gong")),
            "conf.yaml: tiers: unknown plugin 'gong'; known: knob, stubborn; own ones are installed beside muster",
        ),
        (
            config(PluginOption("numa-aware")),
            "conf.yaml: tiers: plugin 'numa-aware' is not supported yet; remove it from the configuration",
        ),
        (config(actions=("run",)), "conf.yaml: actions: unknown action 'run'; known: walk"),
        (
            config(actions=("shuffle",)),
            "conf.yaml: actions: action 'shuffle' is not supported yet; remove it from the configuration",
        ),
        (config(run={}), "conf.yaml: configurations: unknown action 'run'; known: walk"),
    ],
)
def test_a_name_that_is_not_known(wrong: SchedulerConfig, message: str) -> None:
    assert said(wrong) == message


# -- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, KnobArguments()),
        ({"knob.weight": "7", "loud": "true"}, KnobArguments(weight=7, loud=True)),
        ({"knob.weight": None}, KnobArguments()),
    ],
)
def test_arguments_are_read_as_files_have_them(raw: dict[str, Any], expected: KnobArguments) -> None:
    assert known().make_plugin(PluginOption("knob", arguments=raw)).arguments == expected


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        ({"knob.weight": -1}, "knob.weight: expected an integer of at least 0, got -1"),
        ({"knob.weight": "heavy"}, 'knob.weight: expected an integer, got "heavy"'),
        ({"weigth": 1}, "there is no argument 'weigth'; known: knob.weight, loud"),
        ({"knob.weigth": 1}, "there is no argument 'knob.weigth'; did you mean 'knob.weight'?"),
    ],
)
def test_an_argument_that_is_wrong(raw: dict[str, Any], part: str) -> None:
    message = said(config(PluginOption("knob", arguments=raw)))
    assert message == f"conf.yaml: plugin knob: arguments: {part}"


def test_a_plugin_may_read_its_arguments_itself() -> None:
    assert known().make_plugin(PluginOption("stubborn")).arguments == Arguments()
    message = said(config(PluginOption("stubborn", arguments={"a": 1})))
    assert message == "conf.yaml: plugin stubborn: arguments: takes nothing"


def test_arguments_of_an_action() -> None:
    message = said(config(walk={"pace": 1}))
    assert message == "conf.yaml: action walk: arguments: there is no argument 'pace'; there are none"


def test_an_action_that_does_nothing_says_so() -> None:
    with pytest.raises(AssertionError, match=r"actions override run\(\)"):
        known().make_action("walk", {}).run(None)  # type: ignore[arg-type]


# -- entry points -------------------------------------------------------------------------------------------------


class Other(Plugin):
    name: ClassVar[str] = "other"


class Nameless(Plugin):
    pass


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """What packages register in this test; fill it."""
    entries: list[EntryPoint] = []

    monkeypatch.setattr(registry, "entry_points", lambda: EntryPoints(entries))
    return entries


def entry(name: str, value: str, group: str = registry.PLUGIN_GROUP) -> EntryPoint:
    return EntryPoint(name, value, group)


HERE = __name__


def test_plugins_and_actions_of_packages_are_added(
    installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda one: {"other": Other, "walk2": Walk2}[one.name])
    installed += [entry("other", "pack:Other"), entry("walk2", "pack:Walk2", registry.ACTION_GROUP)]
    made = known()
    made.load_entry_points()
    assert made.plugins["other"] is Other
    assert made.actions["walk2"] is Walk2


class Walk2(Action):
    name: ClassVar[str] = "walk2"


def broken(installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, name: str, loaded: object) -> str:
    def load(_: EntryPoint) -> object:
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    monkeypatch.setattr(EntryPoint, "load", load)
    installed.append(entry(name, "pack:Thing"))
    with pytest.raises(UserError) as raised:
        known().load_entry_points()
    return str(raised.value)


def test_a_name_that_is_taken(installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    message = broken(installed, monkeypatch, "knob", Knob)
    assert message == (
        f"entry point 'knob' of group muster.plugins (pack:Thing): the name is taken by {HERE}; choose another name"
    )


def test_a_package_that_cannot_be_loaded(installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    message = broken(installed, monkeypatch, "other", ImportError("no module named torch"))
    assert message == "entry point 'other' (pack:Thing): cannot be loaded: no module named torch"


def test_something_that_is_no_plugin(installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    message = broken(installed, monkeypatch, "other", Walk)
    assert message.startswith("entry point 'other' (pack:Thing): expected a subclass of Plugin, got <class ")
    installed.clear()
    assert "got 3" in broken(installed, monkeypatch, "other", 3)


def test_a_plugin_that_calls_itself_otherwise(installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    message = broken(installed, monkeypatch, "another", Other)
    assert message == "entry point 'another' (pack:Thing): its class calls itself 'other'"
    installed.clear()
    message = broken(installed, monkeypatch, "nameless", Nameless)
    assert message == "entry point 'nameless' (pack:Thing): its class calls itself None"


# -- what is checked once -----------------------------------------------------------------------------------------


def test_one_entry_of_a_configuration_is_read_once_and_another_like_it_for_itself() -> None:
    reads: list[Any] = []

    class Counting(Plugin):
        name: ClassVar[str] = "counting"

        @staticmethod
        def read_arguments(raw: dict[str, Any]) -> Arguments:
            reads.append(raw)
            return Arguments()

    here = Registry.of([Counting], [])
    first, second = PluginOption("counting"), PluginOption("counting", arguments={"a": 1})
    made = [here.make_plugin(option) for option in (first, first, second)]
    assert reads == [{}, {"a": 1}]
    assert made[0] is not made[1], "every session has an instance of its own"


def test_actions_get_the_arguments_that_they_are_given_each_time() -> None:
    here = Registry.of([], [Walk])
    same: dict[str, Any] = {}
    assert here.make_action("walk", same) is not here.make_action("walk", same)
    with pytest.raises(UserError):
        here.make_action("walk", {"fast": True})
