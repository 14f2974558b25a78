"""The configuration file: Volcano's is read as it is; every mistake is named with its place and what is expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.api import UserError
from muster.framework import PluginOption, SchedulerConfig, default_config, load_config, parse_config, points
from muster.framework.points import EVICTION_FLAGS, HIERARCHY_FLAG, OTHER_FLAGS, POINTS, Point

WHOLE = """
actions: "enqueue, allocate,backfill ,"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: drf
    enableHierarchy: true
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.cpu:
configurations:
- name: enqueue
  arguments: {overcommit-factor: 1.5}
- name: allocate
metrics: {type: prometheus}
"""


def test_a_whole_file() -> None:
    config = parse_config(WHOLE, "conf.yaml")
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert [[option.name for option in tier] for tier in config.tiers] == [["priority", "gang"], ["drf", "binpack"]]
    assert [option.name for option in config.plugin_options()] == ["priority", "gang", "drf", "binpack"]
    by_name = {option.name: option for option in config.plugin_options()}
    assert by_name["gang"].flags == {"enablePreemptable": False}
    assert by_name["binpack"].arguments == {"binpack.weight": 10, "binpack.cpu": None}
    assert by_name["drf"].hierarchy
    assert not by_name["gang"].hierarchy
    assert config.arguments_of("enqueue") == {"overcommit-factor": 1.5}
    assert config.arguments_of("allocate") == {}
    assert config.arguments_of("backfill") == {}
    assert config.sharding is None


def test_the_default_is_what_the_docs_say() -> None:
    config = default_config()
    assert config.actions == (
        "allocate",
        "backfill",
        "consolidation",
        "gangreclaim",
        "gangpreempt",
        "stalegangeviction",
    )
    assert config.tiers[0][:2] == (PluginOption("priority"), PluginOption("gang"))
    assert config.tiers[1][0] == PluginOption("fairshare")


# -- flags --------------------------------------------------------------------------------------------------------


AnyPoint = Point[..., Any, Any]
FLAGGED = [point for point in POINTS if point.flag]
FLAGS = {point.flag for point in FLAGGED}


@pytest.mark.parametrize("point", FLAGGED, ids=lambda point: point.name)
def test_a_flag_turns_its_point_off_and_no_point_of_another_flag(point: AnyPoint) -> None:
    option = PluginOption("any", flags={point.flag: False})
    assert not option.is_on(point)
    assert all(option.is_on(other) for other in POINTS if other.flag != point.flag)


@pytest.mark.parametrize("point", [points.JOB_VALID, points.QUEUE_DESERVED], ids=lambda point: point.name)
def test_points_without_a_flag_are_always_on(point: AnyPoint) -> None:
    assert PluginOption("any", absent=False).is_on(point)


def test_an_absent_flag_is_on_unless_the_option_says_otherwise() -> None:
    assert PluginOption("any").is_on(points.JOB_ORDER)
    assert not PluginOption("any", absent=False).is_on(points.JOB_ORDER)
    assert PluginOption("any", flags={"enableJobOrder": True}, absent=False).is_on(points.JOB_ORDER)


@pytest.mark.parametrize("flag", sorted({*FLAGS, HIERARCHY_FLAG, *EVICTION_FLAGS.values(), *OTHER_FLAGS}))
def test_every_flag_of_volcano_s_file_is_read(flag: str) -> None:
    config = parse_config(f"actions: allocate\ntiers: [{{plugins: [{{name: gang, {flag}: true}}]}}]", "c")
    assert config.tiers[0][0].flags == {flag: True}


# -- mistakes -----------------------------------------------------------------------------------------------------


def said(text: str) -> str:
    with pytest.raises(UserError) as raised:
        parse_config(text, "conf.yaml")
    return str(raised.value)


TIERS = "tiers: [{plugins: [{name: gang}]}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "conf.yaml: the file: expected a mapping, got nothing"),
        ("- a", "conf.yaml: the file: expected a mapping, got a list"),
        ("hello", "conf.yaml: the file: expected a mapping, got 'hello'"),
        (
            f"actions: allocate\n{TIERS}\nactons: x",
            "conf.yaml: the file: unknown field 'actons'; did you mean 'actions'?",
        ),
        (
            TIERS,
            'conf.yaml: actions: expected names separated by commas, such as "enqueue, allocate", got nothing',
        ),
        (
            f"actions: [allocate]\n{TIERS}",
            'conf.yaml: actions: expected names separated by commas, such as "enqueue, allocate", got a list',
        ),
        (f"actions: ' , '\n{TIERS}", "conf.yaml: actions: expected at least one action, got ' , '"),
        (
            f"actions: 'allocate, allocate'\n{TIERS}",
            "conf.yaml: actions: 'allocate' is listed twice; name each action once",
        ),
        ("actions: allocate", "conf.yaml: tiers: expected a list, got nothing"),
        ("actions: allocate\ntiers: {}", "conf.yaml: tiers: expected a list, got a mapping"),
        ("actions: allocate\ntiers: [gang]", "conf.yaml: tiers[0]: expected a mapping, got 'gang'"),
        (
            "actions: allocate\ntiers: [{plugin: []}]",
            "conf.yaml: tiers[0]: unknown field 'plugin'; did you mean 'plugins'?",
        ),
        ("actions: allocate\ntiers: [{}]", "conf.yaml: tiers[0].plugins: expected a list, got nothing"),
        (
            "actions: allocate\ntiers: [{plugins: [gang]}]",
            "conf.yaml: tiers[0].plugins[0]: expected a mapping, got 'gang'",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{}]}]",
            "conf.yaml: tiers[0].plugins[0].name: expected a name, got nothing",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: ''}]}]",
            "conf.yaml: tiers[0].plugins[0].name: expected a name, got ''",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: 'yes'}]}]",
            "conf.yaml: tiers[0].plugins[0].enableJobOrder: expected true or false, got 'yes'",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, arguments: [1]}]}]",
            "conf.yaml: tiers[0].plugins[0].arguments: expected a mapping, got a list",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang}]}, {plugins: [{name: gang}]}]",
            "conf.yaml: tiers[1].plugins[0]: plugin 'gang' is already at tiers[0].plugins[0]; list it once",
        ),
        (
            f"actions: allocate\n{TIERS}\nconfigurations: {{}}",
            "conf.yaml: configurations: expected a list, got a mapping",
        ),
        (
            f"actions: allocate\n{TIERS}\nconfigurations: [{{arguments: {{}}}}]",
            "conf.yaml: configurations[0].name: expected a name, got nothing",
        ),
        (
            f"actions: allocate\n{TIERS}\nconfigurations: [{{name: a, args: {{}}}}]",
            "conf.yaml: configurations[0]: unknown field 'args'; known: arguments, name",
        ),
        (
            f"actions: allocate\n{TIERS}\nconfigurations: [{{name: a, arguments: 3}}]",
            "conf.yaml: configurations[0].arguments: expected a mapping, got 3",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    assert said(text) == message


def test_an_unknown_flag_names_the_one_that_was_meant_or_all() -> None:
    place = "conf.yaml: tiers[0].plugins[0]"
    near = said("actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOder: true}]}]")
    assert near == f"{place}.enableJobOder: unknown field; did you mean 'enableJobOrder'?"
    far = said("actions: allocate\ntiers: [{plugins: [{name: gang, colour: true}]}]")
    assert far.startswith(f"{place}.colour: unknown field; known: arguments, enable")
    assert all(flag in far for flag in FLAGS)


def test_text_that_is_not_yaml_says_where() -> None:
    message = said("actions: allocate\ntiers: [")
    assert message.startswith("conf.yaml:")
    assert ": not YAML: " in message


def test_long_values_are_cut() -> None:
    message = said(f"actions: allocate\ntiers: [{{plugins: [{{name: gang, enableJobOrder: {'x' * 200}}}]}}]")
    assert message.endswith("...")
    assert len(message) < 160


# -- files --------------------------------------------------------------------------------------------------------


def test_a_file_is_read_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(WHOLE, encoding="utf-8")
    assert load_config(path) == parse_config(WHOLE, "elsewhere")
    path.write_text("3", encoding="utf-8")
    with pytest.raises(UserError, match=r"scheduler\.yaml: the file: expected a mapping, got 3"):
        load_config(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml: cannot read the configuration: No such file or directory"):
        load_config(tmp_path / "none.yaml")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00actions")
    with pytest.raises(UserError, match=r"binary\.yaml: cannot read the configuration"):
        load_config(path)


def test_a_configuration_without_arguments_has_none() -> None:
    assert SchedulerConfig(("allocate",), ()).arguments_of("allocate") == {}
