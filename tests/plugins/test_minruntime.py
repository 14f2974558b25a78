"""Guaranteed runtimes: who may be a victim, which scenarios are passed over, and what explanations say."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from muster.api import KubeObject, UserError
from muster.framework import Eviction
from muster.framework.points import PROTECTIONS
from muster.plugins.protection.minruntime import MinRuntime, MinRuntimes
from muster.testing import check_plugin
from tests.plugins.queue_stage import leaving
from tests.plugins.runtime_stage import NOW, RuntimeStage, running, runtime_queue, with_role

PREEMPT, RECLAIM, CONSOLIDATE = Eviction.PREEMPT, Eviction.RECLAIM, Eviction.CONSOLIDATE
QUEUES: list[KubeObject] = [
    runtime_queue("mine"),
    runtime_queue("other", preempt=300, reclaim=60),
    runtime_queue("third", preempt="5m", reclaim="1m"),
]


def stage(*more: KubeObject, **arguments: object) -> RuntimeStage:
    return RuntimeStage([*QUEUES, *more], **arguments)


# -- gangs that have exactly what they need -----------------------------------------------------------------------


def test_a_gang_is_protected_until_its_time_is_over_and_not_a_moment_longer() -> None:
    found = stage(*running("young", "other", age=59), *running("old", "other", age=60))
    assert found.may_evict(RECLAIM, "mine", "young", "old") == [False, True]


def test_inside_a_queue_the_other_value_counts() -> None:
    found = stage(*running("young", "other", age=100), *running("old", "other", age=300))
    assert found.may_evict(PREEMPT, "other", "young", "old") == [False, True]
    assert found.may_evict(RECLAIM, "mine", "young", "old") == [True, True]


def test_a_gang_without_a_stamp_is_not_protected() -> None:
    assert stage(*running("job", "other", age=None)).may_evict(RECLAIM, "mine", "job") == [True]


def test_one_evictor_may_have_to_wait_while_another_does_not() -> None:
    queues = [runtime_queue("top"), runtime_queue("a", "top", reclaim=600), runtime_queue("b", "top"), *QUEUES]
    found = RuntimeStage([*queues, *running("job", "a", age=10)])
    assert found.may_evict(RECLAIM, "b", "job") == [False]
    assert found.may_evict(RECLAIM, "mine", "job") == [True]


def test_defaults_hold_where_queues_say_nothing() -> None:
    job = running("job", "mine", age=50)
    assert stage(*job, defaultReclaimMinRuntime="1m").may_evict(RECLAIM, "other", "job") == [False]
    assert stage(*job, defaultReclaimMinRuntime=40).may_evict(RECLAIM, "other", "job") == [True]
    assert stage(*job, defaultPreemptMinRuntime="100").may_evict(PREEMPT, "mine", "job") == [False]


def test_the_leafs_own_value_counts_if_so_configured() -> None:
    queues = [runtime_queue("top", reclaim=5), runtime_queue("leaf", "top", reclaim=500), *QUEUES]
    job = running("job", "leaf", age=100)
    assert RuntimeStage([*queues, *job]).may_evict(RECLAIM, "mine", "job") == [True]
    assert RuntimeStage([*queues, *job], reclaimResolveMethod="queue").may_evict(RECLAIM, "mine", "job") == [False]


def test_protected_gangs_are_not_moved_unless_that_is_turned_off() -> None:
    job = [*running("near", "other", age=100), *running("far", "third", age=50)]
    assert stage(*job).may_evict(CONSOLIDATE, "other", "near", "far") == [False, False]
    assert stage(*job).may_evict(CONSOLIDATE, "mine", "near", "far") == [True, False]
    free = stage(*job, protectFromConsolidation=False)
    assert free.may_evict(CONSOLIDATE, "other", "near", "far") == [True, True]


# -- elastic gangs ------------------------------------------------------------------------------------------------


def test_an_elastic_gang_may_be_a_victim_for_what_is_beyond_its_minimum() -> None:
    found = stage(*running("job", "other", age=10, minimum=2, pods=3))
    assert found.may_evict(RECLAIM, "mine", "job") == [True]
    assert found.passes(RECLAIM, "mine", "job-0")
    assert not found.passes(RECLAIM, "mine", "job-0", "job-1")
    assert found.validates(RECLAIM, "mine", ["job-0"])
    assert not found.validates(RECLAIM, "mine", ["job-0", "job-1"])


def test_when_its_time_is_over_it_may_be_broken() -> None:
    found = stage(*running("job", "other", age=60, minimum=2, pods=3))
    assert found.passes(RECLAIM, "mine", "job-0", "job-1", "job-2")
    assert found.validates(RECLAIM, "mine", ["job-0", "job-1"])


def test_pods_that_find_another_place_do_not_make_the_gang_smaller() -> None:
    found = stage(*running("job", "other", age=10, minimum=2, pods=3))
    assert found.validates(RECLAIM, "mine", ["job-0"], moved=["job-1", "job-2"])
    assert not found.validates(RECLAIM, "mine", ["job-0", "job-1"], moved=["job-2"])


def test_the_validator_says_the_same_when_the_statement_has_done_its_work() -> None:
    found = stage(*running("job", "other", age=10, minimum=2, pods=3))
    found.session.statement().evict(found.tasks("job-0", "job-1"))
    assert not found.validates(RECLAIM, "mine", ["job-0", "job-1"])
    assert found.validates(RECLAIM, "mine", ["job-0"], moved=["job-1"])


def test_consolidation_does_not_move_the_protected_part() -> None:
    found = stage(*running("job", "other", age=10, minimum=2, pods=3))
    assert found.validates(CONSOLIDATE, "mine", [], moved=["job-0"])
    assert not found.validates(CONSOLIDATE, "mine", [], moved=["job-0", "job-1"])


def test_every_role_keeps_its_own_minimum() -> None:
    group, *pods = running("job", "other", age=10, minimum=3, pods=4, roles={"lead": 1, "work": 2})
    members = [with_role(pod, "lead" if k == 0 else "work") for k, pod in enumerate(pods)]
    found = stage(group, *members)
    assert found.may_evict(RECLAIM, "mine", "job") == [True]
    assert found.passes(RECLAIM, "mine", "job-1")
    assert not found.passes(RECLAIM, "mine", "job-0")


def test_terminating_pods_are_no_survivors() -> None:
    group, first, *rest = running("job", "other", age=10, minimum=2, pods=3)
    found = stage(group, leaving(first), *rest)  # type: ignore[arg-type]  # a pod, as `running` makes it
    assert not found.passes(RECLAIM, "mine", "job-1")
    assert not found.validates(RECLAIM, "mine", ["job-1"])


def test_a_protected_gang_that_is_broken_loses_nothing_more() -> None:
    found = stage(*running("job", "other", age=10, minimum=4, pods=3))
    assert not found.validates(RECLAIM, "mine", ["job-1"])
    assert found.validates(RECLAIM, "mine", [], moved=["job-1"])


def test_scenarios_are_not_looked_at_where_no_runtime_is_set() -> None:
    found = RuntimeStage([runtime_queue("mine"), runtime_queue("other"), *running("job", "other", age=1)])
    assert found.plugin.scenario_filters(RECLAIM, found.job("new-mine")) == ()


# -- what is asked, and what is said -------------------------------------------------------------------------------


def test_the_end_of_the_first_protection_is_a_moment_to_look_again() -> None:
    found = stage(*running("a", "other", age=20), *running("b", "other", age=50))
    found.may_evict(RECLAIM, "mine", "a", "b")
    assert found.session.due == NOW + 10


def test_durations_are_resolved_once_per_pair_of_queues() -> None:
    found = stage(*running("a", "other", age=20), *running("b", "other", age=50))
    with patch.object(MinRuntimes, "for_reclaim", autospec=True, side_effect=MinRuntimes.for_reclaim) as resolve:
        for _ in range(3):
            found.may_evict(RECLAIM, "mine", "a", "b")
            found.may_evict(RECLAIM, "third", "a", "b")
    assert [call.args[1] for call in resolve.call_args_list] == [found.queue("mine"), found.queue("third")]


def test_an_explanation_groups_queues_that_have_to_wait_equally_long() -> None:
    queues = [
        runtime_queue("top", reclaim=600),
        runtime_queue("a", "top", reclaim=100, preempt=40),
        runtime_queue("b", "top"),
        runtime_queue("b1", "b"),
        runtime_queue("c", "top"),
        runtime_queue("far"),
    ]
    found = RuntimeStage([*queues, *running("job", "a", age=30)])
    said = [(each.kind, each.queues, each.seconds) for each in found.session.ask(PROTECTIONS, found.job("job"), NOW)]
    assert said == [(PREEMPT, (), 10.0), (RECLAIM, ("b", "c"), 70.0), (RECLAIM, ("far",), 570.0)]
    later = found.session.ask(PROTECTIONS, found.job("job"), NOW + 300)
    assert [each.queues for each in later] == [("far",)]
    assert found.session.ask(PROTECTIONS, found.job("new-a"), NOW) == []


@pytest.mark.parametrize("name", ["defaultReclaimMinRuntime", "defaultPreemptMinRuntime"])
@pytest.mark.parametrize("value", ["soon", "1h2", "-5s", -5])
def test_a_default_that_makes_no_sense_is_an_error_that_names_it(name: str, value: object) -> None:
    with pytest.raises(UserError, match=rf"plugin minruntime: arguments: {name}: expected a duration"):
        stage(**{name: value})


def test_an_unknown_method_is_an_error() -> None:
    with pytest.raises(UserError, match="reclaimResolveMethod"):
        stage(reclaimResolveMethod="root")


def test_it_keeps_the_contract_of_plugins() -> None:
    check_plugin(MinRuntime, {"defaultReclaimMinRuntime": "1h"})


def test_nobody_to_judge_is_no_trouble() -> None:
    found = stage()
    assert len(found.evictable(RECLAIM, found.task("new-mine-0"), np.empty(0, np.intp))) == 0
    assert found.validates(RECLAIM, "mine", [])
