from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.plugins.queues.fairshare.rules import QueueTurns, TurnKey
from muster.plugins.queues.fairshare.tree import FairShares
from muster.snapshot import NO_ROW, UNLIMITED
from tests.plugins.fair_queues import by_hand

TOPS = (NO_ROW, NO_ROW)


def keys(
    shares: FairShares,
    held: tuple[int, int],
    *,
    wanted: tuple[int, int] = (0, 0),
    leaving: tuple[int, int] = (0, 0),
    priorities: tuple[int, int] = (0, 0),
) -> tuple[TurnKey, TurnKey]:
    """Keys of two queues that share one resource."""
    turns = QueueTurns(shares, priorities)
    one, two = (turns.key(row, [held[row]], [wanted[row]], [leaving[row]]) for row in (0, 1))
    return one, two


def test_a_queue_within_its_fair_share_comes_before_one_beyond_it() -> None:
    one, two = keys(by_hand(TOPS, fair_share=(5, 5)), (6, 4), priorities=(9, 0))
    assert two < one


def test_a_queue_that_stays_within_its_quota_with_the_job_comes_first() -> None:
    one, two = keys(by_hand(TOPS, fair_share=(9, 9), quota=(4, 4)), (3, 3), wanted=(2, 1), priorities=(9, 0))
    assert two < one


def test_higher_priority_comes_next() -> None:
    one, two = keys(by_hand(TOPS, fair_share=(9, 9), quota=(4, 4)), (3, 1), priorities=(1, 0))
    assert one < two


def test_a_queue_that_would_use_what_it_has_no_share_of_comes_later() -> None:
    shares = by_hand(TOPS, fair_share=(0, 1))
    one, two = keys(shares, (0, 1), wanted=(1, 5))
    assert two < one


def test_the_smaller_part_with_the_job_comes_first() -> None:
    one, two = keys(by_hand(TOPS, fair_share=(10, 20)), (4, 8), wanted=(2, 1))
    assert two < one


def test_victims_count_as_gone() -> None:
    shares = by_hand(TOPS, fair_share=(10, 10))
    assert keys(shares, (8, 6))[1] < keys(shares, (8, 6))[0]
    one, two = keys(shares, (8, 6), leaving=(5, 1))
    assert one < two


def test_at_equal_parts_the_smaller_entitlement_comes_first() -> None:
    one, two = keys(by_hand(TOPS, fair_share=(10, 20)), (1, 2))
    assert one < two


def test_without_a_bound_the_part_is_of_the_whole_cluster() -> None:
    shares = by_hand(TOPS, fair_share=(0, 50), quota=(int(UNLIMITED), 50), total=100)
    turns = QueueTurns(shares, (0, 0))
    assert turns.dominant_share(0, [10]) == 0.1
    assert turns.dominant_share(1, [10]) == 0.2


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 5), min_size=3, max_size=3))
def test_the_order_is_total(rows: list[tuple[int, ...]]) -> None:
    """Three queues never run in a circle."""
    shares = by_hand((NO_ROW,) * 3, fair_share=[row[0] for row in rows], quota=[row[1] for row in rows])
    turns = QueueTurns(shares, [row[2] for row in rows])
    found = [(turns.key(place, [row[3]], [row[4]], [0]), place) for place, row in enumerate(rows)]
    one, two, three = sorted(found)
    assert one < two < three
    assert one < three
