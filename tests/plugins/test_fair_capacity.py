from __future__ import annotations

from muster.framework import NO_LIMIT
from muster.plugins.queues.fairshare.tree import Bounds, Excess
from muster.snapshot import NO_ROW
from muster.testing.builders import queue
from tests.plugins.fair_queues import by_hand, fair, held, job, kai_queue
from tests.plugins.queue_stage import Stage

#: A leaf, its parent, and the top.
CHAIN = (1, 2, NO_ROW)


def bounds(*limits: int) -> Bounds:
    shares = by_hand(CHAIN, fair_share=(0, 0, 0), limits=limits)
    return Bounds(shares, shares.limits)


def test_the_first_queue_above_that_would_be_over_is_named() -> None:
    assert bounds(9, 5, 4).excess(0, [2], held(1, 4, 4)) == Excess(queue=1, column=0, held=4, limit=5, wanted=2)


def test_a_limit_may_be_reached() -> None:
    assert bounds(9, 6, 6).excess(0, [2], held(1, 4, 4)) is None


def test_what_is_not_asked_for_is_not_looked_at() -> None:
    assert bounds(1, 1, 1).excess(0, [0], held(7, 7, 7)) is None


def test_slots_are_counted_in_the_tightest_queue() -> None:
    assert bounds(9, 9, 6).slots(0, [2], held(0, 0, 1)) == 2
    assert bounds(9, 9, 6).slots(0, [2], held(0, 0, 7)) == 0
    assert bounds(9, 9, 6).slots(0, [0], held(0, 0, 7)) == NO_LIMIT


# -- in the plugin ---------------------------------------------------------------------------------------------


def refusal(stage: Stage, name: str, *tasks: str) -> tuple[str, str] | None:
    rejection = stage.session.over_capacity(stage.job(name), stage.tasks(*tasks))
    return None if rejection is None else (rejection.reason.code, rejection.detail)


def test_limits_hold_for_all_tasks_of_a_chunk_together() -> None:
    stage = fair(kai_queue("top", gpu=(0, 3, 1)), kai_queue("a", parent="top"), *job("j", "a", running=2, pending=2))
    assert refusal(stage, "j", "j-2") is None
    expected = ("queue-limit", "queue top: nvidia.com/gpu: 2 of 3 taken, 2 wanted")
    assert refusal(stage, "j", "j-2", "j-3") == expected


def test_jobs_that_are_not_preemptible_stay_within_the_quota_of_every_queue_above() -> None:
    stage = fair(
        kai_queue("top", gpu=(1, -1, 1)),
        kai_queue("a", gpu=(4, -1, 1), parent="top"),
        *job("firm", "a", running=1, pending=1, firm=True),
        *job("soft", "a", pending=1),
    )
    expected = ("over-quota", "queue top: nvidia.com/gpu: 1 of 1 taken, 1 wanted")
    assert refusal(stage, "firm", "firm-1") == expected
    assert refusal(stage, "soft", "soft-0") is None
    assert stage.session.over_quota(stage.job("firm"), stage.tasks("firm-1")) is not None
    assert stage.session.over_quota(stage.job("soft"), stage.tasks("soft-0")) is None


def test_only_what_firm_jobs_hold_counts_against_the_quota() -> None:
    stage = fair(kai_queue("a", gpu=(2, -1, 1)), *job("soft", "a", running=3), *job("firm", "a", pending=2, firm=True))
    assert refusal(stage, "firm", "firm-0", "firm-1") is None


def test_a_volcano_queue_without_a_quota_does_not_bind_firm_jobs() -> None:
    stage = fair(queue("a"), *job("firm", "a", pending=2, firm=True))
    assert refusal(stage, "firm", "firm-0", "firm-1") is None


def test_what_is_placed_counts_at_once() -> None:
    stage = fair(kai_queue("a", gpu=(0, 1, 1)), *job("j", "a", pending=2))
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(gpu=1)) == 1
    stage.place("j-0")
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(gpu=1)) == 0
    assert refusal(stage, "j", "j-1") is not None
