import json
from typing import Annotated, Literal

import pytest
from msgspec import Meta, field, inspect

from muster.cli.main import run
from muster.cli.plugins import argument_infos, inventory, type_text, value_text
from muster.framework import Action, Arguments, Plugin, Registry
from muster.scheduler import builtin_registry


class _Arguments(Arguments, frozen=True, kw_only=True):
    weight: Annotated[int, Meta(ge=1, description="How much it counts.")] = field(default=2, name="my.weight")
    mode: Annotated[Literal["hard", "soft"], Meta(description="How strict it is.")] = "soft"
    limits: Annotated[dict[str, float], Meta(description="Limits.")] = field(default_factory=dict)
    names: tuple[str, ...] | None = None


class _Mine(Plugin):
    """Does a thing."""

    name = "mine"
    Args = _Arguments

    def overused(self, queue: int) -> bool:
        return False


def test_a_plugin_is_described_from_its_class() -> None:
    [part] = inventory(Registry.of([_Mine], []))
    assert (part.kind, part.name, part.summary, part.points) == ("plugin", "mine", "Does a thing.", ("overused",))
    assert [(a.name, a.type, a.default, a.meaning) for a in part.arguments] == [
        ("my.weight", "whole number, at least 1", "2", "How much it counts."),
        ("mode", "hard or soft", "soft", "How strict it is."),
        ("limits", "mapping of text to number", "{}", "Limits."),
        ("names", "list of text", "not set", ""),
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (bool, "true or false"),
        (Annotated[int, Meta(ge=0, le=100)], "whole number, 0 to 100"),
        (Annotated[float, Meta(gt=0.5)], "number, more than 0.5"),
        (int | str, "whole number or text"),
        (list[bool], "list of true or false"),
    ],
)
def test_types_are_put_in_words(given: object, text: str) -> None:
    assert type_text(inspect.type_info(given)) == text


def test_values_are_written_as_in_the_configuration() -> None:
    values = [True, 1.0, 0.5, "", None, {"a": 1, "b": False}, ["x", 2]]
    assert [value_text(value) for value in values] == [
        "true",
        "1",
        "0.5",
        '""',
        "not set",
        "{a: 1, b: false}",
        "[x, 2]",
    ]


def test_every_built_in_part_says_what_it_is_for_and_every_argument_what_it_means() -> None:
    parts = inventory(builtin_registry(third_party=False))
    assert {part.name for part in parts} >= {"gang", "proportion", "allocate", "enqueue", "backfill"}
    for part in parts:
        assert part.summary, part.name
        assert part.package == "muster"
        for argument in part.arguments:
            assert argument.meaning, f"{part.name}: {argument.name}"
        assert (part.kind == "plugin") == bool(part.points), part.name


def test_actions_have_arguments_too() -> None:
    assert {info.name for info in argument_infos(Action.Args)} == set()
    allocate = builtin_registry(third_party=False).actions["allocate"]
    assert "predicateErrorCacheEnable" in {info.name for info in argument_infos(allocate.Args)}


def test_the_list_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Plugins") < shown.index("  gang") < shown.index("Actions") < shown.index("  allocate")
    assert "    binpack.weight  whole number" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "--output", "json"]) == 0
    parts = {part["name"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts["gang"]["kind"] == "plugin"
    assert "job_ready" in parts["gang"]["extensionPoints"]
    weight = next(a for a in parts["binpack"]["arguments"] if a["name"] == "binpack.weight")
    assert weight["default"] == "1"
