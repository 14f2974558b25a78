"""The actions gangpreempt and gangreclaim: their arguments, and that each does its own kind of eviction."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from muster.actions.evictions import GangPreempt, GangReclaim
from muster.api import UserError
from muster.engine.evictions.options import GangOptions
from muster.framework import Eviction
from muster.testing import node
from tests.engine.evictions.eviction_stage import REGISTRY, configured, open_session, running, waiting


def options(action: str, arguments: dict[str, Any]) -> GangOptions:
    """What the action hands to the strategy."""
    objects = [node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, gpu=8)]
    session = open_session(objects, configured(action))
    with patch("muster.actions.evictions.GangStrategy") as made, patch("muster.actions.evictions.run"):
        REGISTRY.make_action(action, arguments).run(session)
    (_, kind, given, name), _ = made.call_args
    assert (kind, name) == (Eviction.PREEMPT if action == "gangpreempt" else Eviction.RECLAIM, action)
    assert isinstance(given, GangOptions)
    return given


@pytest.mark.parametrize("action", [GangPreempt.name, GangReclaim.name])
def test_the_defaults_are_volcano_s(action: str) -> None:
    assert options(action, {}) == GangOptions(max_domains=8, allow_whole=True)


def test_arguments_are_read_also_as_text() -> None:
    given = {
        "maxDomains": "3",
        "allowWholeBundle": "false",
        "evictRemainder": True,
        "roiThreshold": 0,
        "ignorePDB": "true",
        "maxDisruptionRatio": "1.5",
    }
    assert options("gangpreempt", given) == GangOptions(
        max_domains=3,
        allow_whole=False,
        evict_remainder=True,
        roi_threshold=0.0,
        ignore_pdb=True,
        max_disruption_ratio=1.5,
    )


@pytest.mark.parametrize("count", [0, -1])
def test_too_few_domains_mean_the_default(count: int) -> None:
    assert options("gangpreempt", {"maxDomains": count}).domains == 8


@pytest.mark.parametrize("arguments", [{"maxDomain": 3}, {"roiThreshold": -1}, {"allowWholeBundle": "perhaps"}])
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="action gangpreempt"):
        REGISTRY.make_action("gangpreempt", arguments)


def test_a_configuration_file_may_name_both() -> None:
    session = open_session(
        [node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, gpu=8)],
        configured("allocate, gangpreempt, gangreclaim"),
    )
    for name in session.config.actions:
        REGISTRY.make_action(name, {}).run(session)
    assert [committed.action for committed in session.committed] == ["gangpreempt"]


@pytest.mark.parametrize("action", [GangPreempt.name, GangReclaim.name])
def test_nobody_looks_for_victims_where_nobody_waits(action: str) -> None:
    session = open_session([node("n", gpu=8), *running("old", ["n"], gpu=8)], configured(action))
    with patch("muster.actions.evictions.GangStrategy") as made:
        REGISTRY.make_action(action, {}).run(session)
    assert not made.called
