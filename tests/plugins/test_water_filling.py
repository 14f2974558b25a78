from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.plugins.queues.proportion import water_fill


@pytest.mark.parametrize(
    ("total", "weights", "floors", "caps", "parts"),
    [
        pytest.param(10, [1, 1], [0, 0], [99, 99], [5, 5], id="equal weights"),
        pytest.param(12, [1, 3], [0, 0], [99, 99], [3, 9], id="by weight"),
        pytest.param(12, [1, 1], [0, 0], [2, 99], [2, 10], id="what one does not want goes to the other"),
        pytest.param(12, [1, 1], [0, 0], [2, 3], [2, 3], id="nobody gets more than the cap"),
        pytest.param(12, [1, 1, 2], [0, 0, 0], [1, 99, 99], [1, 3, 7], id="spare by weight, rounded down"),
        pytest.param(10, [1, 1, 1], [0, 0, 0], [9, 9, 9], [3, 3, 3], id="rounding leaves the rest to nobody"),
        pytest.param(448, [3, 1, 4, 4], [0] * 4, [999, 999, 128, 999], [120, 40, 128, 160], id="rounded only once"),
        pytest.param(10, [1, 1], [8, 0], [99, 99], [8, 2], id="a floor is taken from the others"),
        pytest.param(10, [1, 1, 1], [8, 0, 0], [99, 2, 2], [8, 1, 1], id="never more than there is"),
        pytest.param(12, [1, 1, 1], [6, 0, 0], [99, 99, 1], [6, 4, 1], id="spare is poured on top of floors"),
        pytest.param(4, [1, 1], [3, 3], [9, 9], [3, 3], id="floors above the total stay"),
        pytest.param(10, [0, 0], [1, 0], [9, 9], [1, 0], id="without weight only the floor"),
        pytest.param(10, [0, 1], [0, 0], [9, 99], [0, 10], id="weight zero gets nothing"),
        pytest.param(10, [1], [0], [0], [0], id="no demand"),
        pytest.param(10, [], [], [], [], id="no queues"),
        pytest.param(10, [1, 1], [4, 0], [2, 99], [4, 6], id="a floor wins over the cap"),
        pytest.param(2**55, [10**6, 10**6], [0, 0], [2**60, 2**60], [2**54, 2**54], id="beyond 64 bits"),
    ],
)
def test_parts(total: int, weights: list[int], floors: list[int], caps: list[int], parts: list[int]) -> None:
    assert water_fill(total, weights, floors, caps) == parts


Division = tuple[int, list[int], list[int], list[int]]


@st.composite
def divisions(draw: st.DrawFn) -> Division:
    count = draw(st.integers(1, 6))
    total = draw(st.integers(0, 1000))
    weights = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    floors = draw(st.lists(st.one_of(st.just(0), st.integers(0, 400)), min_size=count, max_size=count))
    caps = draw(st.lists(st.integers(0, 1500), min_size=count, max_size=count))
    return total, weights, floors, caps


@given(divisions())
def test_the_sum_stays_within_the_total(division: Division) -> None:
    total, _, floors, _ = division
    assert sum(water_fill(*division)) <= max(total, sum(floors))


@given(divisions())
def test_every_part_lies_within_its_bounds(division: Division) -> None:
    _, _, floors, caps = division
    for part, floor, cap in zip(water_fill(*division), floors, caps, strict=True):
        assert floor <= part <= max(floor, cap)


@given(divisions(), st.randoms(use_true_random=False))
def test_the_order_of_queues_does_not_matter(division: Division, shuffle: Random) -> None:
    total, *columns = division
    order = list(range(len(columns[0])))
    shuffle.shuffle(order)
    turned = water_fill(total, *([column[i] for i in order] for column in columns))
    assert turned == [water_fill(*division)[i] for i in order]


@given(divisions(), st.integers(0, 5), st.integers(1, 5))
def test_more_weight_never_means_less(division: Division, chosen: int, more: int) -> None:
    total, weights, floors, caps = division
    chosen %= len(weights)
    heavier = [weight + more * (i == chosen) for i, weight in enumerate(weights)]
    before = water_fill(total, weights, floors, caps)[chosen]
    after = water_fill(total, heavier, floors, caps)[chosen]
    assert after >= before


@given(divisions())
def test_nothing_is_left_while_somebody_wants_more(division: Division) -> None:
    total, weights, _, caps = division
    parts = water_fill(*division)
    hungry = [i for i, part in enumerate(parts) if weights[i] > 0 and part < caps[i]]
    if hungry:
        assert total - sum(parts) <= len(hungry)


@given(divisions())
def test_without_floors_the_hungry_stand_at_one_level(division: Division) -> None:
    total, weights, _, caps = division
    parts = water_fill(total, weights, [0] * len(weights), caps)
    levels = [part / weights[i] for i, part in enumerate(parts) if weights[i] > 0 and part < caps[i]]
    for level in levels:
        # Rounded down twice, a part lies less than two units below its level.
        assert max(levels) - level < 2
    for i, part in enumerate(parts):
        if levels and weights[i] > 0 and part == caps[i]:
            assert part / weights[i] < max(levels) + 2
