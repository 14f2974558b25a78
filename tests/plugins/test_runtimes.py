"""Which minimum runtime counts between two queues, and inside one: the document's examples and the corners."""

from __future__ import annotations

import pytest

from muster.plugins.protection.minruntime import Method, MinRuntimes
from muster.snapshot import NO_ROW, QueueRecord, QueueTable, ResourceAxis
from muster.snapshot.mirror.pictures import build_queues


def table(*records: QueueRecord) -> QueueTable:
    return build_queues({record.name: record for record in records}, ResourceAxis(("cpu",)), {})


def reclaims(parent: str = "", **values: float | None) -> list[QueueRecord]:
    return [QueueRecord(name, parent, reclaim_min_runtime=value) for name, value in values.items()]


RECLAIM = table(
    *reclaims(A=None),
    *reclaims("A", B=600),
    *reclaims("B", C=None, D=60),
    *reclaims("C", leaf1=0, leaf2=180),
    *reclaims("D", leaf3=None),
)
PREEMPT = table(
    QueueRecord("A"),
    QueueRecord("B", "A", preempt_min_runtime=600),
    QueueRecord("C", "B"),
    QueueRecord("leaf1", "C", preempt_min_runtime=300),
    QueueRecord("leaf2", "C"),
)


def reclaim(queues: QueueTable, evictor: str, victim: str, default: float = 7, method: Method = Method.LCA) -> float:
    runtimes = MinRuntimes(queues, 0, default, method)
    return float(runtimes.for_reclaim(queues.index.get(evictor, NO_ROW))[queues.index.get(victim, NO_ROW)])


def preempt(queues: QueueTable, victim: str, default: float = 7) -> float:
    return float(MinRuntimes(queues, default, 0).for_preempt()[queues.index.get(victim, NO_ROW)])


@pytest.mark.parametrize(
    ("evictor", "victim", "seconds"), [("leaf1", "leaf3", 60), ("leaf1", "leaf2", 180), ("leaf3", "leaf1", 600)]
)
def test_the_documents_examples_of_reclaim(evictor: str, victim: str, seconds: float) -> None:
    assert reclaim(RECLAIM, evictor, victim) == seconds


@pytest.mark.parametrize(("victim", "seconds"), [("leaf1", 300), ("leaf2", 600)])
def test_the_documents_examples_of_preempt(victim: str, seconds: float) -> None:
    assert preempt(PREEMPT, victim) == seconds


def test_zero_overrides_a_parent_and_unset_does_not() -> None:
    assert reclaim(RECLAIM, "leaf2", "leaf1") == 0
    assert reclaim(RECLAIM, "leaf2", "leaf3") == 60


def test_the_default_counts_where_no_queue_says_anything() -> None:
    assert reclaim(table(*reclaims(x=None, y=None)), "x", "y") == 7
    assert preempt(table(QueueRecord("x")), "x") == 7


def test_queues_without_a_common_ancestor_part_at_the_top() -> None:
    queues = table(*reclaims(x=None, y=30), *reclaims("x", left=1), *reclaims("y", right=500))
    assert reclaim(queues, "left", "right") == 30
    assert reclaim(queues, "right", "left") == 7


def test_a_victim_in_an_ancestor_of_the_evictor_has_its_own_queues_value() -> None:
    assert reclaim(RECLAIM, "leaf3", "D") == 60
    assert reclaim(RECLAIM, "leaf3", "B") == 600


def test_a_victim_below_the_evictors_queue_has_the_value_of_the_branch() -> None:
    assert reclaim(RECLAIM, "B", "leaf3") == 60
    assert reclaim(RECLAIM, "C", "leaf2") == 180


def test_with_the_queue_method_the_evictor_does_not_matter() -> None:
    for evictor in ("leaf1", "leaf3", "A"):
        assert reclaim(RECLAIM, evictor, "leaf2", method=Method.QUEUE) == 180
        assert reclaim(RECLAIM, evictor, "leaf1", method=Method.QUEUE) == 0


def test_a_queue_that_does_not_exist_on_either_side_means_the_default() -> None:
    assert reclaim(RECLAIM, "gone", "leaf2") == 7
    assert reclaim(RECLAIM, "leaf1", "gone") == 7
    assert preempt(PREEMPT, "gone") == 7


def test_negative_values_count_as_zero() -> None:
    assert reclaim(table(*reclaims(x=None, y=-5)), "x", "y") == 0


def test_orphans_and_cycles_are_resolved_as_far_as_they_go() -> None:
    orphan = table(*reclaims(x=None), *reclaims("nowhere", y=9), *reclaims("b", a=None), *reclaims("a", b=4))
    assert reclaim(orphan, "x", "y") == 9
    assert reclaim(orphan, "x", "a") == 4
