from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.plugins.queues.fairshare.division import Claims, divide
from muster.snapshot import UNLIMITED
from tests.reference.fair_division import Claim, divide_one

GPU = 1000


def table(
    claims: list[Claim], *, unit: int = 1, pots: list[int] | None = None, usage: list[float] | None = None
) -> Claims:
    return Claims(
        pot=np.array(pots or [0] * len(claims), np.intp),
        quota=np.array([claim.quota for claim in claims], np.int64),
        demand=np.array([claim.demand for claim in claims], np.int64),
        weight=np.array([claim.weight for claim in claims], np.float64),
        usage=np.array(usage or [0.0] * len(claims)),
        priority=np.array([claim.priority for claim in claims], np.intp),
        rank=np.array([claim.name for claim in claims], np.intp),
        unit=np.full(len(claims), unit, np.int64),
    )


def shares(
    total: int, *rows: tuple[int, int, float], unit: int = 1, usage: list[float] | None = None, k: float = 0.0
) -> list[int]:
    """What claims of (quota, demand, weight) get."""
    claims = [Claim(name, quota, demand, 0) for name, (quota, demand, _) in enumerate(rows)]
    columns = table(claims, unit=unit, usage=usage)
    columns.weight[:] = [weight for _, _, weight in rows]
    return [int(share) for share in divide(np.array([total], np.int64), columns, k)[0]]


# -- quotas ----------------------------------------------------------------------------------------------------


def test_everybody_gets_the_quota_even_if_that_is_more_than_there_is() -> None:
    assert shares(10, (8, 20, 1), (8, 20, 1)) == [8, 8]


def test_a_quota_without_end_is_as_much_as_there_is() -> None:
    assert shares(10, (int(UNLIMITED), 30, 1), (2, 20, 1)) == [10, 2]


def test_nobody_gets_more_than_it_wants() -> None:
    assert shares(10, (8, 3, 1), (0, 2, 1)) == [3, 2]


# -- what is left over -----------------------------------------------------------------------------------------


def test_what_is_left_goes_by_weight() -> None:
    assert shares(14, (2, 99, 1), (0, 99, 3)) == [5, 9]


def test_what_one_does_not_need_goes_to_the_others_by_weight() -> None:
    assert shares(31, (0, 1, 8), (0, 99, 1), (0, 99, 2)) == [1, 10, 20]


def test_without_a_weight_there_is_only_the_quota() -> None:
    assert shares(10, (2, 99, 0), (0, 3, 1)) == [2, 3]


def test_whole_gpus_are_given_and_the_odd_one_to_the_largest_remainder() -> None:
    assert shares(8 * GPU, (0, 99 * GPU, 1), (0, 99 * GPU, 4), unit=GPU) == [2 * GPU, 6 * GPU]


def test_who_wants_less_than_a_whole_gpu_gets_just_that() -> None:
    assert shares(3 * GPU, (0, 500, 1), (0, 99 * GPU, 1), unit=GPU) == [500, 2500]


def test_equal_remainders_go_by_rank() -> None:
    assert shares(5 * GPU, *[(0, 99 * GPU, 1)] * 3, unit=GPU) == [2 * GPU, 2 * GPU, GPU]


def test_higher_priority_is_served_first_beyond_quotas() -> None:
    claims = [Claim(0, 2, 6, 100, priority=1), Claim(1, 2, 6, 1, priority=2)]
    assert divide(np.array([6], np.int64), table(claims))[0].tolist() == [2, 4]


def test_pots_are_divided_each_for_itself() -> None:
    claims = [Claim(0, 0, 9, 1), Claim(1, 0, 9, 1), Claim(2, 0, 9, 1)]
    given, left = divide(np.array([4, 20], np.int64), table(claims, pots=[0, 0, 1]))
    assert (given.tolist(), left.tolist()) == ([2, 2, 9], [0, 11])


@pytest.mark.parametrize("weights", [(0.1, 0.2), (1e12, 2e12), (-1.0, -2.0), (1e-7, 2e-7)])
def test_only_the_proportion_of_weights_matters(weights: tuple[float, float]) -> None:
    one, two = shares(9 * 10**12, (0, 10**13, weights[0]), (0, 10**13, weights[1]))
    assert one + two == 9 * 10**12
    assert two / one == pytest.approx(2, rel=1e-8)


def test_amounts_near_the_end_of_int64_do_not_overflow() -> None:
    total = 2**60
    assert sum(shares(total, *[(0, total, 2**30 + number) for number in range(3)])) == total


# -- history ---------------------------------------------------------------------------------------------------


def test_history_counts_against_the_weight() -> None:
    # Normalised weights 1/2 each; with k = 1 they become 1/2 + (1/2 - usage).
    assert shares(100, (0, 999, 1), (0, 999, 1), usage=[0.75, 0.25], k=1.0) == [25, 75]


def test_without_a_factor_history_does_not_count() -> None:
    assert shares(100, (0, 999, 1), (0, 999, 1), usage=[0.9, 0.1]) == [50, 50]


def test_who_had_far_too_much_gets_nothing_but_the_quota() -> None:
    assert shares(100, (10, 999, 1), (0, 999, 1), usage=[1.0, 0.0], k=5.0) == [10, 90]


# -- properties ------------------------------------------------------------------------------------------------


@st.composite
def divisions(draw: st.DrawFn) -> tuple[int, list[Claim]]:
    amounts = st.integers(0, 12_000)
    claims = [
        Claim(
            name,
            quota=draw(st.one_of(st.just(0), amounts)),
            demand=draw(amounts),
            weight=draw(st.integers(0, 5)),
            priority=draw(st.integers(0, 2)),
        )
        for name in range(draw(st.integers(1, 6)))
    ]
    return draw(st.integers(0, 30_000)), claims


def run(total: int, claims: list[Claim], unit: int) -> tuple[dict[int, int], int]:
    given, left = divide(np.array([total], np.int64), table(claims, unit=unit))
    return {claim.name: int(share) for claim, share in zip(claims, given, strict=True)}, int(left[0])


@given(divisions(), st.sampled_from([1, GPU]))
def test_it_equals_the_plain_twin(division: tuple[int, list[Claim]], unit: int) -> None:
    assert run(*division, unit)[0] == divide_one(*division, unit)


@given(divisions(), st.sampled_from([1, GPU]))
def test_shares_lie_between_what_the_quota_gives_and_the_demand(division: tuple[int, list[Claim]], unit: int) -> None:
    given_, _ = run(*division, unit)
    for claim in division[1]:
        assert min(claim.quota, claim.demand) <= given_[claim.name] <= claim.demand


@given(divisions(), st.sampled_from([1, GPU]))
def test_nothing_is_lost_and_nothing_is_made(division: tuple[int, list[Claim]], unit: int) -> None:
    total, claims = division
    given_, left = run(total, claims, unit)
    by_quota = sum(min(claim.quota, claim.demand) for claim in claims)
    assert sum(given_.values()) + left == max(total, by_quota)


@given(divisions(), st.sampled_from([1, GPU]))
def test_what_there_is_is_used_while_somebody_with_a_weight_wants_it(
    division: tuple[int, list[Claim]], unit: int
) -> None:
    given_, left = run(*division, unit)
    assert left == 0 or all(given_[claim.name] == claim.demand for claim in division[1] if claim.weight)


@given(divisions(), st.sampled_from([1, GPU]), st.integers())
def test_the_order_of_claims_does_not_matter(division: tuple[int, list[Claim]], unit: int, seed: int) -> None:
    total, claims = division
    shuffled = list(claims)
    Random(seed).shuffle(shuffled)
    assert run(total, claims, unit) == run(total, shuffled, unit)


@given(divisions(), st.integers(1, 5))
def test_more_weight_is_never_less(division: tuple[int, list[Claim]], more: int) -> None:
    total, claims = division
    heavier = [Claim(c.name, c.quota, c.demand, c.weight + (more if c.name == 0 else 0), c.priority) for c in claims]
    # Rounding moves at most one unit per round, and every round but the last satisfies somebody.
    assert run(total, heavier, 1)[0][0] >= run(total, claims, 1)[0][0] - len(claims)
