"""Room for nominated pods is kept from others, given up by their own job, and not kept for nothing."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from muster.api import Pod
from muster.kernels.planes import PIPELINED
from muster.snapshot import Mirror, Snapshot, Statement
from tests.snapshot.objects import group, node, pod, queue


def nominated(name: str, where: str, priority: int = 0, cpu: str = "1") -> Pod:
    plain = pod(name, "gang", cpu=cpu)
    return msgspec.structs.replace(
        plain,
        spec=msgspec.structs.replace(plain.spec, priority=priority),
        status=msgspec.structs.replace(plain.status, nominated_node_name=where),
    )


def picture(*pods: Pod) -> Snapshot:
    mirror = Mirror()
    for item in (queue("default"), node("n1", cpu="4"), group("gang", 1), *pods):
        mirror.upsert(item)
    return mirror.snapshot()


def promised_cpu(snapshot: Snapshot) -> int:
    return int(snapshot.nodes.state[PIPELINED, 0, snapshot.axis.index["cpu"]])


def test_room_is_reserved_on_the_nominated_node() -> None:
    snapshot = picture(nominated("a", "n1", cpu="3"))

    assert promised_cpu(snapshot) == 3000
    assert snapshot.tasks.reserved.tolist() == [True]
    assert snapshot.nodes.future_idle()[0, snapshot.axis.index["cpu"]] == 1000


def test_a_pod_on_a_node_needs_no_reservation() -> None:
    placed = nominated("a", "n1", cpu="3")
    snapshot = picture(msgspec.structs.replace(placed, spec=msgspec.structs.replace(placed.spec, node_name="n1")))

    assert promised_cpu(snapshot) == 0


@pytest.mark.parametrize("where", ["gone", "n1"])
def test_a_nomination_that_cannot_be_kept_is_stale(where: str) -> None:
    snapshot = picture(nominated("a", where, cpu="9"))

    assert promised_cpu(snapshot) == 0
    assert [snapshot.tasks.ids[task] for task in snapshot.stale_nominations] == ["ns/a"]


def test_the_higher_priority_gets_what_only_one_can_have() -> None:
    snapshot = picture(nominated("a", "n1", cpu="3"), nominated("b", "n1", priority=5, cpu="3"))
    reserved = [snapshot.tasks.ids[task] for task in np.flatnonzero(snapshot.tasks.reserved)]

    assert reserved == ["ns/b"]
    assert [snapshot.tasks.ids[task] for task in snapshot.stale_nominations] == ["ns/a"]


def test_releasing_gives_the_room_back_and_can_be_undone() -> None:
    snapshot = picture(nominated("a", "n1", cpu="3"), pod("b", "gang", cpu="1"))
    before = snapshot.nodes.state.copy()
    statement = Statement(snapshot)

    statement.release(np.arange(2, dtype=np.intp))

    assert promised_cpu(snapshot) == 0
    assert not snapshot.tasks.reserved.any()
    statement.rollback()
    np.testing.assert_array_equal(snapshot.nodes.state, before)
    assert snapshot.tasks.reserved.sum() == 1
