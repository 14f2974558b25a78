from __future__ import annotations

import msgspec
import numpy as np
import pytest

from muster.framework import PluginOption, SchedulerConfig, Session
from muster.snapshot import UNLIMITED, Mirror
from muster.testing.builders import gang, node, pod, queue
from tests.plugins.fair_queues import fair, gpus, job, kai_queue, with_gate
from tests.plugins.queue_stage import GPU, REGISTRY, Stage, prioritised


def shares(stage: Stage) -> dict[str, float]:
    return dict(gpus(stage, stage.plugin.shares.fair))


def test_quota_first_and_the_rest_by_weight() -> None:
    stage = fair(
        kai_queue("a", gpu=(4, -1, 1)),
        kai_queue("b", gpu=(0, -1, 3)),
        *job("ja", "a", pending=20),
        *job("jb", "b", pending=20),
    )
    assert shares(stage) == {"a": 5, "b": 3}


def test_children_divide_what_their_parent_gets() -> None:
    stage = fair(
        kai_queue("left", gpu=(2, -1, 1)),
        kai_queue("right", gpu=(2, -1, 1)),
        kai_queue("l1", gpu=(0, -1, 1), parent="left"),
        kai_queue("l2", gpu=(0, -1, 2), parent="left"),
        kai_queue("r1", gpu=(0, -1, 1), parent="right"),
        *job("j1", "l1", pending=20),
        *job("j2", "l2", pending=20),
        *job("j3", "r1", pending=2),
        gpu=8,
    )
    assert shares(stage) == {"left": 6, "right": 2, "l1": 2, "l2": 4, "r1": 2}


def test_demand_is_what_runs_and_what_waits() -> None:
    stage = fair(kai_queue("a"), *job("j", "a", running=2, pending=1))
    assert shares(stage) == {"a": 3}


def test_pods_with_gates_are_no_demand() -> None:
    objects = job("j", "a", pending=2)
    stage = fair(kai_queue("a"), objects[0], objects[1], with_gate(pod("j-1", group="j", gpu=1)))
    assert shares(stage) == {"a": 1}


def test_pods_of_other_schedulers_are_not_divided() -> None:
    foreign = pod("foreign", gpu=3, node="n1")
    mirror = Mirror(["muster"])
    mirror.upsert(node("n1", gpu=8))
    mirror.upsert(msgspec.structs.replace(foreign, spec=msgspec.structs.replace(foreign.spec, scheduler_name="other")))
    snapshot = mirror.snapshot()
    session = Session(snapshot, SchedulerConfig((), ((PluginOption("fairshare"),),)), REGISTRY)
    assert session.shared_total[snapshot.axis.index[GPU]] == 5000
    assert session.total[snapshot.axis.index[GPU]] == 8000


def test_nodes_that_are_not_ready_are_not_divided() -> None:
    stage = fair(kai_queue("a"), node("n2", gpu=8, ready=False), *job("j", "a", pending=20))
    assert shares(stage) == {"a": 8}


def test_older_queues_get_the_odd_gpu() -> None:
    demand = [item for name in "ab" for item in job(f"j{name}", name, pending=9)]
    stage = fair(kai_queue("a", created=20.0), kai_queue("b", created=10.0), *demand, gpu=5)
    assert shares(stage) == {"a": 2, "b": 3}


def test_a_queue_that_hangs_nowhere_gets_nothing_and_nobody_else_suffers() -> None:
    objects = [
        kai_queue("lost", gpu=(4, -1, 1), parent="missing"),
        kai_queue("loop1", parent="loop2"),
        kai_queue("loop2", parent="loop1"),
        kai_queue("a"),
    ]
    demand = [item for name in ("lost", "loop1", "a") for item in job(f"j-{name}", name, pending=9)]
    assert shares(fair(*objects, *demand)) == {"a": 8, "loop1": 0, "loop2": 0, "lost": 0}


def test_what_queues_of_kai_do_not_name_is_not_divided() -> None:
    stage = fair(kai_queue("a"), queue("b", capability={"rdma/hca": 4}), *job("j", "a", pending=1))
    assert stage.of(stage.plugin.shares.fair, "a", "rdma/hca") == UNLIMITED
    assert stage.of(stage.plugin.shares.fair, "b", "rdma/hca") == 0
    assert stage.of(stage.plugin.shares.fair, "a", "pods") == UNLIMITED


# -- Volcano's queues fill the same tree -----------------------------------------------------------------------


def test_weight_deserved_and_capability_of_volcano_queues() -> None:
    stage = fair(
        queue("a", weight=1, deserved={"gpu": 2}),
        queue("b", weight=3),
        queue("c", weight=9, capability={"gpu": 1}),
        *[item for name in "abc" for item in job(f"j{name}", name, pending=20)],
        gpu=11,
    )
    assert shares(stage) == {"a": 4, "b": 6, "c": 1}


def test_priorities_of_volcano_queues_count_beyond_the_quota() -> None:
    stage = fair(
        queue("a", weight=9),
        prioritised(queue("b"), 5),
        *[item for name in "ab" for item in job(f"j{name}", name, pending=6)],
    )
    assert shares(stage) == {"a": 2, "b": 6}


def test_a_guarantee_is_a_quota() -> None:
    stage = fair(
        queue("a", guarantee={"gpu": 6}),
        queue("b", weight=99),
        *[item for name in "ab" for item in job(f"j{name}", name, pending=9)],
    )
    assert shares(stage) == {"a": 6, "b": 2}


def test_a_root_that_says_nothing_is_transparent() -> None:
    stage = fair(
        queue("root"),
        queue("a", parent="root"),
        queue("default"),
        *[item for name in ("a", "default") for item in job(f"j-{name}", name, pending=9)],
    )
    assert {name: shares(stage)[name] for name in ("a", "default")} == {"a": 4, "default": 4}
    assert stage.of(stage.plugin.shares.fair, "root", GPU) == UNLIMITED


def test_a_root_with_a_limit_is_a_queue_like_any_other() -> None:
    stage = fair(
        queue("root", capability={"gpu": 2}),
        queue("a", parent="root"),
        queue("b", parent="root"),
        *[item for name in "ab" for item in job(f"j-{name}", name, pending=9)],
    )
    assert shares(stage) == {"root": 2, "a": 1, "b": 1}


def test_many_levels_and_resources_at_once() -> None:
    """Every parent's share is used up by its children, while they want more."""
    objects = [kai_queue("top", gpu=(-1, -1, 1))]
    objects += [kai_queue(f"d{d}", gpu=(d, -1, d + 1), parent="top") for d in range(4)]
    objects += [kai_queue(f"d{d}-{q}", gpu=(0, -1, q + 1), parent=f"d{d}") for d in range(4) for q in range(3)]
    demand = [item for d in range(4) for q in range(3) for item in gang(f"j{d}{q}", 30, queue=f"d{d}-{q}", gpu=1)]
    found = shares(fair(*objects, *demand, gpu=64))
    assert found["top"] == 64 == sum(found[f"d{d}"] for d in range(4))
    for d in range(4):
        assert found[f"d{d}"] == pytest.approx(sum(found[f"d{d}-{q}"] for q in range(3)))


def test_a_cluster_without_queues_opens() -> None:
    assert fair().plugin.shares.fair.shape[0] == len(fair().snapshot.queues)
    assert np.all(fair().plugin.shares.total >= 0)
