"""What a queue deserves stays with it."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.evictions.deserved import deserved_of, keeps_deserved
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
    return np.array([session.snapshot.tasks.ids.index(f"default/j{k}-0") for k in range(count)], np.int32)


def scarce(session: Session) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([name == GPU for name in session.snapshot.axis.names])


def test_a_queue_gives_down_to_what_it_deserves_and_not_below() -> None:
    session = opened([2, 2, 2, 2], 3)
    assert keeps_deserved(session, rows(session, 4), scarce(session)).tolist() == [True, True, False, False]


def test_a_smaller_pod_may_still_go_after_a_larger_one_was_refused() -> None:
    session = opened([4, 4, 1], 4)
    assert keeps_deserved(session, rows(session, 3), scarce(session)).tolist() == [True, False, True]


def test_much_of_what_nobody_needs_exposes_no_queue() -> None:
    session = opened([2], 2)
    session.snapshot.queues.own_allocated[session.snapshot.queues.index["q"]] *= np.array(
        [1 if name == GPU else 10_000 for name in session.snapshot.axis.names]
    )
    assert keeps_deserved(session, rows(session, 1)).tolist() == [True]
    assert keeps_deserved(session, rows(session, 1), scarce(session)).tolist() == [False]


def test_without_an_opinion_nothing_is_protected() -> None:
    session = opened([2], 2, share="drf")
    assert deserved_of(session, session.snapshot.queues.index["q"]) is None
    assert keeps_deserved(session, rows(session, 1)).tolist() == [True]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(0, 30))
def test_taking_in_order_equals_asking_one_by_one(held: list[int], deserved: int) -> None:
    session = opened(held, deserved)
    left, expected = sum(held), []
    for gpu in held:
        fine = left - gpu >= deserved
        left -= gpu if fine else 0
        expected.append(fine)
    got = keeps_deserved(session, rows(session, len(held)), scarce(session)).tolist()
    assert got == expected
    kept = list(accumulate((gpu for gpu, gone in zip(held, got, strict=True) if not gone), initial=0))[-1]
    assert kept >= min(deserved, sum(held))
