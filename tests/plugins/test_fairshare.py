from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from muster.api import UserError
from muster.framework import Eviction, Scenario, Vote
from muster.snapshot import NO_ROW, UNLIMITED, Rows
from muster.testing.builders import gang, pod_group, queue
from tests.plugins.fair_queues import fair, job, kai_queue
from tests.plugins.queue_stage import GPU, Stage, closed

NOBODY: Rows = np.empty(0, np.intp)


def two_queues(*, borrowed: int, waiting: int = 4, **arguments: Any) -> Stage:
    """Queue `a` waits for its share of 4 GPUs while `b` holds `borrowed` of the 8 there are."""
    return fair(
        kai_queue("a", gpu=(4, -1, 1)),
        kai_queue("b", gpu=(4, -1, 1)),
        *job("ja", "a", pending=waiting),
        *job("jb", "b", running=borrowed, pending=2),
        **arguments,
    )


# -- arguments and reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value"),
    [("reclaimerUtilizationMultiplier", 0.5), ("kValue", -1), ("windowSeconds", -1), ("halfLifeSeconds", "inf")],
)
def test_wrong_arguments_are_named(argument: str, value: Any) -> None:
    with pytest.raises(UserError, match=argument):
        fair(**{argument: value})


def test_a_window_asks_for_a_history_of_usage() -> None:
    assert fair().plugin.history is None
    asked = fair(windowSeconds=3600, halfLifeSeconds=600).plugin.history
    assert (asked.window_s, asked.half_life_s) == (3600, 600)


def test_reports_show_quota_and_fair_share() -> None:
    stage = two_queues(borrowed=8)
    column = stage.snapshot.axis.index[GPU]
    assert stage.plugin.queue_deserved(stage.queue("a"))[column] == 4000
    assert stage.plugin.queue_fair_share(stage.queue("a"))[column] == 4000
    assert stage.plugin.queue_deserved(stage.queue("a"))[stage.snapshot.axis.index["cpu"]] == UNLIMITED


# -- order -----------------------------------------------------------------------------------------------------


def turn(stage: Stage, queue_name: str, job_name: str = "", leaving: tuple[str, ...] = ()) -> Any:
    row = NO_ROW if not job_name else stage.job(job_name)
    gone = stage.snapshot.jobs.allocated[[stage.job(name) for name in leaving]].sum(axis=0) if leaving else None
    return stage.session.queue_turn_key(stage.queue(queue_name), row, gone)


def test_the_queue_with_less_of_its_share_has_the_turn() -> None:
    stage = two_queues(borrowed=6)
    assert turn(stage, "a", "ja") < turn(stage, "b", "jb")


def test_the_turn_is_judged_by_the_next_chunk_of_the_job() -> None:
    """With its gang of four the queue would be beyond its quota."""
    stage = fair(
        kai_queue("a", gpu=(2, -1, 1)),
        kai_queue("b", gpu=(2, -1, 1)),
        *job("whole", "a", pending=4, minimum=4),
        *job("single", "b", pending=4, minimum=1),
    )
    assert turn(stage, "b", "single") < turn(stage, "a", "whole")


def test_the_turn_follows_what_is_placed() -> None:
    stage = two_queues(borrowed=0)
    before = turn(stage, "a", "ja")
    stage.place("ja-0")
    assert before < turn(stage, "a", "ja")


def test_a_job_that_a_dry_run_evicts_wants_its_places_back() -> None:
    stage = two_queues(borrowed=2)
    statement = stage.session.statement()
    statement.evict(stage.tasks("jb-0", "jb-1"))
    assert turn(stage, "b", "jb")[0][4] == pytest.approx(1 / 4)
    statement.rollback()
    assert turn(stage, "b", "jb")[0][4] == pytest.approx(3 / 4)


def test_victims_that_leave_lower_the_share() -> None:
    stage = two_queues(borrowed=4)
    assert turn(stage, "b", leaving=("jb",)) < turn(stage, "b")


@pytest.mark.parametrize("kind", [Eviction.RECLAIM, Eviction.CONSOLIDATE])
def test_victims_are_put_in_order_as_of_the_beginning_of_their_search(kind: Eviction) -> None:
    stage = two_queues(borrowed=4)
    stage.session.start_solution(kind, stage.job("ja"))
    before = turn(stage, "b", leaving=("ja",)), turn(stage, "b")
    stage.session.statement().evict(stage.tasks("jb-0", "jb-1"))
    assert turn(stage, "b", leaving=("ja",)) == before[0]
    assert turn(stage, "b") < before[1]


def test_leaves_in_one_line_are_compared_from_the_top() -> None:
    stage = fair(
        kai_queue("rich", gpu=(4, -1, 1)),
        kai_queue("poor", gpu=(4, -1, 1)),
        kai_queue("r1", parent="rich"),
        kai_queue("r2", parent="rich"),
        kai_queue("p1", parent="poor"),
        *job("j1", "r1", running=3),
        *job("j2", "r2", pending=1),
        *job("j3", "p1", running=1, pending=1),
    )
    line = sorted(("r1", "r2", "p1"), key=lambda name: stage.session.queue_key(stage.queue(name)))
    assert line == ["p1", "r2", "r1"]


def test_queues_that_have_most_of_their_share_give_first() -> None:
    stage = two_queues(borrowed=6)
    asked = [stage.session.victim_queue_key(stage.queue(name), stage.queue("a")) for name in "ab"]
    assert asked[1] < asked[0]


# -- who may reclaim -------------------------------------------------------------------------------------------


def code(rejection: Any) -> str:
    return "" if rejection is None else str(rejection.reason.code)


def test_a_job_may_reclaim_within_its_queues_fair_share() -> None:
    stage = two_queues(borrowed=8, waiting=5)
    four, five = (stage.tasks(*(f"ja-{index}" for index in range(count))) for count in (4, 5))
    assert code(stage.session.can_reclaim(stage.job("ja"), four)) == ""
    assert code(stage.session.can_reclaim(stage.job("ja"), five)) == "over-fair-share"
    assert stage.session.preemptive(stage.queue("a"), four)
    assert not stage.session.preemptive(stage.queue("a"), five)


def test_a_firm_job_may_reclaim_within_its_queues_quota_only() -> None:
    stage = fair(
        kai_queue("a", gpu=(1, -1, 1)),
        kai_queue("b", gpu=(1, -1, 1)),
        *job("firm", "a", pending=2, firm=True),
        *job("jb", "b", running=8),
    )
    assert code(stage.session.can_reclaim(stage.job("firm"), stage.tasks("firm-0"))) == ""
    assert code(stage.session.can_reclaim(stage.job("firm"), stage.tasks("firm-0", "firm-1"))) == "over-quota"


# -- scenarios -------------------------------------------------------------------------------------------------


def judge(
    stage: Stage, pending: list[str], evicted: list[str], moved: list[str] | None = None, *, kind: int = 1
) -> bool:
    """Let victims go as a dry run would, and ask."""
    action = Eviction(kind)
    evictor = stage.job(pending[0].rpartition("-")[0])
    stage.session.start_solution(action, evictor)
    gone, elsewhere = stage.tasks(*evicted), stage.tasks(*(moved or []))
    victims = np.concatenate((gone, elsewhere))
    statement = stage.session.statement()
    statement.evict(victims)
    scenario = Scenario(action, evictor, stage.tasks(*pending), victims, gone, elsewhere)
    answer = stage.session.is_valid_scenario(scenario)
    statement.rollback()
    return answer


def test_victims_are_taken_from_what_is_beyond_the_share() -> None:
    stage = two_queues(borrowed=6)
    assert judge(stage, ["ja-0", "ja-1"], ["jb-5", "jb-4"])
    assert not judge(stage, ["ja-0", "ja-1", "ja-2"], ["jb-5", "jb-4", "jb-3"])


def test_a_gang_is_charged_as_one() -> None:
    stage = fair(
        kai_queue("a", gpu=(4, -1, 1)),
        kai_queue("b", gpu=(4, -1, 1)),
        *job("ja", "a", pending=4),
        *job("rigid", "b", running=5, minimum=5),
    )
    assert judge(stage, ["ja-0"], [f"rigid-{index}" for index in range(5)])


def test_other_evictions_are_not_judged_by_shares() -> None:
    stage = two_queues(borrowed=2)
    assert not judge(stage, ["ja-0"], ["jb-0"])
    assert judge(stage, ["ja-0"], ["jb-0"], kind=Eviction.PREEMPT)


@pytest.mark.parametrize("charged", [True, False])
def test_moved_victims_are_charged_unless_told_otherwise(*, charged: bool) -> None:
    stage = two_queues(borrowed=3, chargeMovedVictims=charged)
    assert judge(stage, ["ja-0"], [], ["jb-0"]) is not charged


def test_a_firm_evictor_stays_within_the_quota_of_every_queue_above() -> None:
    objects = [
        kai_queue("top", gpu=(1, -1, 1)),
        kai_queue("a", gpu=(4, -1, 1), parent="top"),
        kai_queue("b", gpu=(0, -1, 1)),
        *job("jb", "b", running=8),
    ]
    assert judge(fair(*objects, *job("firm", "a", pending=1, firm=True)), ["firm-0"], ["jb-0"])
    stage = fair(*objects, *job("firm", "a", pending=2, firm=True))
    assert not judge(stage, ["firm-0", "firm-1"], ["jb-0", "jb-1"])


# -- with Volcano's actions ------------------------------------------------------------------------------------


def test_candidates_are_named_while_their_queue_has_more_than_it_may_keep() -> None:
    stage = two_queues(borrowed=6)
    asked = stage.victims(Eviction.RECLAIM, stage.task("ja-0"), stage.tasks(*(f"jb-{index}" for index in range(6))))
    assert stage.names(asked) == ["jb-0", "jb-1"]


def test_gangs_are_named_as_a_whole() -> None:
    rigid = job("rigid", "b", running=3, minimum=3)
    stage = fair(kai_queue("a", gpu=(4, -1, 1)), kai_queue("b", gpu=(2, -1, 0)), *job("ja", "a", pending=4), *rigid)
    candidates = stage.tasks("rigid-2", "rigid-1", "rigid-0")
    named = stage.victims(Eviction.RECLAIM, stage.task("ja-0"), candidates, breaks_gangs=True)
    assert stage.names(named) == ["rigid-2", "rigid-1", "rigid-0"]
    assert len(stage.victims(Eviction.PREEMPT, stage.task("ja-0"), candidates, breaks_gangs=True)) == 0


def test_nothing_is_named_in_a_queue_within_its_share() -> None:
    stage = two_queues(borrowed=4)
    candidates = stage.tasks("jb-0", "jb-1")
    assert len(stage.victims(Eviction.RECLAIM, stage.task("ja-0"), candidates)) == 0


def test_admission_is_bound_by_limits() -> None:
    stage = fair(
        kai_queue("a", gpu=(0, 2, 1)),
        pod_group("small", queue="a", min_resources={"gpu": 2}),
        pod_group("large", queue="a", min_resources={"gpu": 3}),
    )
    assert stage.vote("small") == Vote.ABSTAIN
    assert stage.vote("large") == Vote.REJECT


def test_a_closed_queue_takes_nothing() -> None:
    stage = fair(closed(queue("a")), *gang("j", 1, queue="a", gpu=1))
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(gpu=1)) == 0
    assert stage.vote("j") == Vote.REJECT


def test_a_job_without_a_queue_gets_nothing_and_breaks_nothing() -> None:
    stage = fair(*gang("j", 1, queue="missing", gpu=1))
    tasks = stage.tasks("j-0")
    assert code(stage.session.can_reclaim(stage.job("j"), tasks)) == "queue-missing"
    assert code(stage.session.over_capacity(stage.job("j"), tasks)) == "queue-missing"
    assert len(stage.victims(Eviction.RECLAIM, stage.task("j-0"), NOBODY)) == 0
