"""Binpack: points worked out by hand, and arguments with resource names in them."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import UserError
from muster.framework import PluginOption
from muster.plugins.nodes.binpack import BinpackArguments
from muster.testing import builders
from tests.plugins.sessions import REGISTRY, all_scores, open_session, place

GPU = "nvidia.com/gpu"


def arguments(**given: Any) -> BinpackArguments:
    plugin = REGISTRY.make_plugin(PluginOption("binpack", arguments=given))
    assert isinstance(plugin.arguments, BinpackArguments)
    return plugin.arguments


def test_the_fuller_node_is_better() -> None:
    objects = [
        builders.node("empty", cpu=4, memory="8Gi"),
        builders.node("used", cpu=4, memory="8Gi"),
        builders.pod("r", cpu=2, memory="4Gi", node="used"),
        builders.pod("p", cpu=1, memory="2Gi"),
    ]
    session = open_session(objects, binpack={})
    assert all_scores(session, "p") == {"empty": 25, "used": 75}


def test_placements_of_the_session_count() -> None:
    objects = [builders.node("n", cpu=4), builders.pod("p", cpu=1), builders.pod("q", cpu=1)]
    session = open_session(objects, binpack={"binpack.weight": 2})
    assert all_scores(session, "q") == {"n": 50}
    place(session, "p", "n")
    assert all_scores(session, "q") == {"n": 100}


def test_only_listed_resources_count_by_their_weights() -> None:
    objects = [builders.node("n", cpu=8, memory="8Gi", gpu=4), builders.pod("p", cpu=2, memory="4Gi", gpu=1)]
    unlisted = {"binpack.cpu": 3, "binpack.memory": 1, f"binpack.resources.{GPU}": 6}
    # (3 x 1/4 + 1 x 1/2) / 4
    assert all_scores(open_session(objects, binpack=unlisted), "p") == {"n": pytest.approx(31.25)}
    listed = {**unlisted, "binpack.resources": f" {GPU},, example.com/foo"}
    # (3 x 1/4 + 1 x 1/2 + 6 x 1/4) / 10
    assert all_scores(open_session(objects, binpack=listed), "p") == {"n": pytest.approx(27.5)}


def test_a_resource_that_the_pod_does_not_ask_for_does_not_count() -> None:
    objects = [builders.node("n", cpu=8, memory="8Gi"), builders.pod("p", cpu=4)]
    assert all_scores(open_session(objects, binpack={"binpack.memory": 9}), "p") == {"n": 50}


def test_a_node_that_would_overflow_gets_nothing() -> None:
    objects = [builders.node("n", cpu=1, memory="8Gi"), builders.pod("p", cpu=2, memory="4Gi")]
    assert all_scores(open_session(objects, binpack={}), "p") == {"n": 0}


def test_weight_zero_turns_it_off() -> None:
    objects = [builders.node("n", cpu=4), builders.pod("p", cpu=1)]
    session = open_session(objects, binpack={"binpack.weight": 0})
    assert session.node_scores(0)[0].terms == ()


def test_defaults_are_one() -> None:
    assert arguments() == BinpackArguments(weight=1, cpu=1, memory=1, resources={})
    assert arguments(**{"binpack.resources": GPU}).resources == {GPU: 1}


def test_numbers_may_be_written_as_text() -> None:
    given = {"binpack.weight": "10", "binpack.resources": GPU, f"binpack.resources.{GPU}": "7", "binpack.cpu": None}
    assert arguments(**given) == BinpackArguments(weight=10, cpu=1, memory=1, resources={GPU: 7})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"binpack.weight": -1}, "binpack.weight"),
        ({"binpack.cpu": "heavy"}, "binpack.cpu"),
        ({"binpack.memory": 0.5}, "binpack.memory"),
        ({"binpack.resources": ["nvidia.com/gpu"]}, "binpack.resources: expected names separated by commas"),
        (
            {"binpack.resources": GPU, f"binpack.resources.{GPU}": -2},
            f"binpack.resources.{GPU}: expected a whole number",
        ),
        ({f"binpack.resources.{GPU}": "x"}, f"binpack.resources.{GPU}: expected a whole number"),
        ({"binpack.gpu": 1}, "there is no argument 'binpack.gpu'; did you mean 'binpack.cpu'?"),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match="plugin binpack: arguments: ") as error:
        arguments(**given)
    assert message in str(error.value)
