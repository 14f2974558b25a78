"""What was offered, by node and by job, in the order of the offers."""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.solver.pool import Unit
from muster.engine.evictions.solver.search import Offers


def unit(job: int, tasks: list[int], *nodes: int) -> Unit:
    return Unit(job, np.array(tasks, np.int32), nodes, tuple([1] for _ in nodes))


def made(recorded: list[int], *units: Unit) -> Offers:
    offers = Offers(np.array(recorded, np.int32))
    for one in units:
        offers.add(one)
    return offers


def test_everybody_is_who_was_there_before_and_then_who_was_offered() -> None:
    assert made([]).everybody().tolist() == []
    offers = made([9, 8], unit(1, [4], 0), unit(2, [2, 3], 0, 1), unit(1, [1], 5))
    assert offers.everybody().tolist() == [9, 8, 4, 2, 3, 1]


def test_an_answer_stays_as_it_was_when_more_is_offered() -> None:
    offers = made([], unit(1, [4], 0))
    before = offers.everybody()
    for task in range(50):
        offers.add(unit(2, [100 + task], 0))
    assert before.tolist() == [4]
    assert offers.everybody().tolist() == [4, *range(100, 150)]


def test_jobs_are_known_by_every_node_of_their_units() -> None:
    offers = made([], unit(1, [4], 0), unit(2, [2, 3], 0, 1), unit(2, [7], 3))
    assert [offers.jobs_on(node) for node in range(4)] == [{1, 2}, {2}, set(), {2}]


def test_tasks_of_jobs_come_in_the_order_of_the_offers() -> None:
    offers = made([], unit(2, [7], 3), unit(3, [5], 3), unit(1, [4], 0), unit(2, [2, 3], 0))
    assert offers.tasks_of({1, 2}).tolist() == [7, 4, 2, 3]
