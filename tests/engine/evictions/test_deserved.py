"""What a queue deserves stays with it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.evictions.restraint import have_too_much
from muster.framework import Session
from muster.snapshot import Rows
from muster.testing import node, queue
from tests.engine.evictions.eviction_stage import configured, open_session, running

GPU = "nvidia.com/gpu"


def opened(held: list[int], deserved: int, *, share: str = "capacity") -> Session:
    """Lone pods of so many GPUs in the queue q, which deserves so many."""
    jobs = [item for k, gpu in enumerate(held) for item in running(f"j{k}", ["n"], gpu=gpu, cpu=1, queue="q")]
    own = queue("q", deserved={"gpu": deserved, "cpu": 1000})
    return open_session([node("n", gpu=64, cpu=96), own, *jobs], configured("gangreclaim", share=share))


def rows(session: Session, count: int) -> Rows:
    return np.array([session.snapshot.tasks.ids.index(f"default/j{k}-0") for k in range(count)], np.intp)


def scarce(session: Session) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([name == GPU for name in session.snapshot.axis.names])


def test_a_queue_gives_while_it_has_more_than_it_deserves() -> None:
    session = opened([2, 2, 2, 2], 3)
    assert have_too_much(session, rows(session, 4), scarce(session)).tolist() == [True, True, True, False]


def test_what_goes_together_is_given_back_together() -> None:
    """A gang that cannot give back a part gives back all that is borrowed."""
    session = opened([2, 2, 2, 2], 5)
    units = np.array([0, 0, 0, 1])
    assert have_too_much(session, rows(session, 4), scarce(session), units).tolist() == [True, True, True, False]


def test_much_of_what_nobody_needs_exposes_no_queue() -> None:
    session = opened([2], 2)
    everything = np.ones(len(session.snapshot.axis), np.bool_)
    session.snapshot.queues.own_allocated[session.snapshot.queues.index["q"]] *= np.array(
        [1 if name == GPU else 10_000 for name in session.snapshot.axis.names]
    )
    assert have_too_much(session, rows(session, 1), everything).tolist() == [True]
    assert have_too_much(session, rows(session, 1), scarce(session)).tolist() == [False]


def test_without_an_opinion_nothing_is_protected() -> None:
    session = opened([2], 2, share="drf")
    assert have_too_much(session, rows(session, 1), scarce(session)).tolist() == [True]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(0, 30))
def test_taking_in_order_equals_asking_one_by_one(held: list[int], deserved: int) -> None:
    session = opened(held, deserved)
    left, expected = sum(held), []
    for gpu in held:
        fine = left > deserved
        left -= gpu if fine else 0
        expected.append(fine)
    assert have_too_much(session, rows(session, len(held)), scarce(session)).tolist() == expected
