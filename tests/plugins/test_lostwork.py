"""What jobs lose by moving is weighed against what was lost by waiting."""

from __future__ import annotations

import pytest

from muster.api import KubeObject
from muster.framework import Eviction, Scenario
from muster.plugins.protection.lostwork import LostWork
from muster.testing import builders, check_plugin
from tests.plugins.queue_stage import Stage
from tests.plugins.runtime_stage import NOW, running

MOVE = Eviction.CONSOLIDATE


def waiting(seconds: float, cpu: int = 2) -> list[KubeObject]:
    """A job of one pod that came a while ago."""
    came = NOW - seconds
    group = builders.pod_group("new", minimum=1, created=came)
    return [group, builders.pod("new-0", group="new", cpu=cpu, created=came)]


class Weighing:
    """The plugin, a job `new` that waits, and jobs of one pod and one CPU each that run."""

    def __init__(self, *objects: KubeObject, factor: float = 1.0, now: float = NOW) -> None:
        node = builders.node("n1", cpu=100)
        self.stage = Stage("lostwork", [node, *objects], arguments={"factor": factor}, now=now)

    def passes(self, *moved: str, kind: Eviction = MOVE) -> bool:
        """Whether pods may go for the one that waits, before and after the dry run."""
        rows, stage = self.stage.tasks(*moved), self.stage
        scenario = Scenario(kind, stage.job("new"), stage.tasks("new-0"), rows, rows[:0], rows)
        before = all(check(scenario) for check in stage.plugin.scenario_filters(kind, scenario.evictor))
        after = stage.plugin.scenario_validator(kind, scenario)
        assert before == after
        return before


@pytest.mark.parametrize(("ran", "may_move"), [(0, True), (200, True), (201, False)])
def test_a_job_moves_if_it_has_done_no_more_than_the_other_has_waited_for(ran: int, may_move: bool) -> None:
    found = Weighing(*waiting(100), *running("job", "default", age=ran))
    assert found.passes("job-0") is may_move


def test_what_several_lose_is_added_up() -> None:
    found = Weighing(*waiting(100), *running("one", "default", age=120), *running("two", "default", age=120))
    assert found.passes("one-0")
    assert not found.passes("one-0", "two-0")


def test_a_gang_that_loses_one_pod_has_to_begin_again_as_a_whole() -> None:
    found = Weighing(*waiting(100), *running("gang", "default", age=80, minimum=3, pods=3))
    assert not found.passes("gang-0")


def test_a_job_of_which_nobody_knows_when_it_started_loses_nothing() -> None:
    assert Weighing(*waiting(0), *running("job", "default", age=None)).passes("job-0")


def test_the_factor_says_how_much_more_may_be_lost() -> None:
    job = running("job", "default", age=150)
    assert not Weighing(*waiting(100), *job, factor=0.5).passes("job-0")
    assert Weighing(*waiting(100), *job, factor=0.75).passes("job-0")
    assert not Weighing(*waiting(10_000), *running("young", "default", age=1), factor=0).passes("young-0")


def test_evictions_that_move_nobody_are_others_to_judge() -> None:
    found = Weighing(*waiting(0), *running("job", "default", age=1000))
    assert found.passes("job-0", kind=Eviction.PREEMPT)
    assert found.passes("job-0", kind=Eviction.RECLAIM)


def test_who_has_done_more_than_anybody_has_waited_for_is_no_candidate() -> None:
    found = Weighing(*waiting(100), *running("young", "default", age=200), *running("old", "default", age=201)).stage
    rows = found.tasks("young-0", "old-0")
    assert found.names(found.evictable(MOVE, found.task("new-0"), rows)) == ["young-0"]
    assert found.names(found.evictable(Eviction.PREEMPT, found.task("new-0"), rows)) == ["young-0", "old-0"]


def test_it_is_looked_at_again_when_waiting_has_made_up_for_it() -> None:
    found = Weighing(*waiting(100), *running("job", "default", age=300))
    assert not found.passes("job-0")
    # Lost: 300 CPU-seconds, one more in a second; by waiting: 200, two more in a second.
    assert found.stage.session.due == pytest.approx(NOW + 100)
    never = Weighing(*waiting(100, cpu=1), *running("job", "default", age=300))
    assert not never.passes("job-0")
    assert never.stage.session.due is None


def test_the_moment_that_is_told_does_not_move_while_nothing_changes() -> None:
    """Else conditions are written in every cycle, and every one of them makes the next."""
    told = set()
    for later in (0.0, 0.1, 1.0, 7.3):
        found = Weighing(*waiting(1000), *running("job", "default", age=2500), now=NOW + later)
        with found.stage.session.hearing_until() as moments:
            assert not found.passes("job-0")
        told.update(moments)
    assert told == {NOW + 500}


def test_it_keeps_the_contract_of_plugins() -> None:
    check_plugin(LostWork, {"factor": 0.5})
