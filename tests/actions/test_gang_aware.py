"""`gangAwareEnable` in all its places: the gang strategy runs, and the other does not."""

from unittest.mock import patch

import pytest

from muster.api import UserError
from muster.framework import Eviction, SchedulerConfig, Session, parse_config
from muster.testing import node
from tests.engine.evictions.eviction_stage import REGISTRY, open_session, running, waiting

TIERS = "tiers: [{plugins: [{name: priority}, {name: gang}]}]\n"


@pytest.mark.parametrize(
    ("action", "kind", "text"),
    [
        ("preempt", Eviction.PREEMPT, TIERS + "configurations: [{name: preempt, arguments: {gangAwareEnable: true}}]"),
        (
            "preempt",
            Eviction.PREEMPT,
            TIERS + "configurations: [{name: preempt, arguments: {preempt.gangAwareEnable: 'true'}}]",
        ),
        (
            "preempt",
            Eviction.PREEMPT,
            "tiers: [{plugins: [{name: priority}], arguments: {preempt.gangAwareEnable: true}}]",
        ),
        (
            "reclaim",
            Eviction.RECLAIM,
            "tiers: [{plugins: [{name: priority}], arguments: {reclaim.gangAwareEnable: true}}]",
        ),
        (
            "reclaim",
            Eviction.RECLAIM,
            TIERS + "configurations: [{name: reclaim, arguments: {reclaim.gangAwareEnable: true}}]",
        ),
    ],
)
def test_the_gang_strategy_runs_alone(action: str, kind: Eviction, text: str) -> None:
    config = parse_config(f'actions: "{action}"\n{text}', "test")
    session = open_session([node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, gpu=8)], config)
    with (
        patch("muster.actions.evictions.GangStrategy") as whole,
        patch("muster.actions.evictions.TaskStrategy") as other,
        patch("muster.actions.evictions.run"),
    ):
        _run(session, config)
    assert whole.call_args.args[:2] == (session, kind)
    assert not other.called


def test_without_the_flag_it_does_not_run() -> None:
    config = parse_config(f'actions: "preempt"\n{TIERS}', "test")
    session = open_session([node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, gpu=8)], config)
    with patch("muster.actions.evictions.GangStrategy") as whole:
        _run(session, config)
    assert not whole.called


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"maxDomains": 3}, "maxDomains: belongs to the strategy gang, and this action uses task"),
        ({"strategy": "gang", "maxTrialsPerJob": 3}, "maxTrialsPerJob: belongs to the strategy solver"),
        ({"strategy": "solver", "roiThreshold": 0.1}, "roiThreshold: belongs to the strategy gang"),
    ],
)
def test_arguments_of_another_strategy_are_refused_by_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        REGISTRY.make_action("reclaim", arguments)


def test_what_the_action_says_itself_counts_before_what_a_tier_says() -> None:
    text = (
        'actions: "preempt"\n'
        "tiers: [{plugins: [{name: priority}], arguments: {preempt.gangAwareEnable: true, preempt.maxDomains: 3}}]\n"
        "configurations: [{name: preempt, arguments: {gangAwareEnable: false}}]"
    )
    assert parse_config(text, "test").arguments_of("preempt") == {"gangAwareEnable": False, "maxDomains": 3}


def test_an_argument_in_a_tier_names_its_action() -> None:
    text = 'actions: "preempt"\ntiers: [{plugins: [{name: priority}], arguments: {gangAwareEnable: true}}]'
    with pytest.raises(UserError, match=r"tiers\[0\].arguments.gangAwareEnable: expected the name of an action"):
        parse_config(text, "test")


def test_an_argument_in_a_tier_for_an_action_that_is_not_there_is_an_error() -> None:
    text = 'actions: "preempt"\ntiers: [{plugins: [{name: priority}], arguments: {preemt.gangAwareEnable: true}}]'
    with pytest.raises(UserError, match="preemt"):
        REGISTRY.check(parse_config(text, "test"))


def _run(session: Session, config: SchedulerConfig) -> None:
    for name in config.actions:
        REGISTRY.make_action(name, config.arguments_of(name)).run(session)
