"""What queues have had: a part of the cluster over a window, fading with a half-life, and what comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.cluster import MemoryCluster
from muster.framework import SchedulerConfig, UsageHistory, parse_config
from muster.scheduler import Scheduler, builtin_registry
from muster.scheduler.loop import UsageMeter
from muster.snapshot import Mirror, Snapshot
from muster.snapshot.messages import Evict
from muster.testing import node, pod, pod_group, queue

GPU = "nvidia.com/gpu"


def holding(capacity: int = 8, **gpus: int) -> Snapshot:
    """A cluster in which queues hold so many GPUs."""
    mirror = Mirror()
    queues = [queue("top"), queue("below", parent="top"), queue("other")]
    for item in [node("n", gpu=capacity), *queues, pod("waits", gpu=1)]:
        mirror.upsert(item)
    for name, count in gpus.items():
        mirror.upsert(pod_group(name, queue=name))
        if count:
            mirror.upsert(pod(f"{name}-0", group=name, gpu=count, node="n"))
    return mirror.snapshot()


def gpu_share(meter: UsageMeter, name: str) -> float:
    return meter.fractions().get(name, {}).get(GPU, 0.0)


def ran(history: UsageHistory, *phases: tuple[float, dict[str, int]]) -> UsageMeter:
    """A meter after phases of so many seconds in which queues held so many of 8 GPUs."""
    meter, now = UsageMeter(history), 0.0
    meter.advance(now)
    for seconds, gpus in phases:
        meter.hold(holding(**gpus))
        now += seconds
        meter.advance(now)
    return meter


def test_a_queue_has_had_the_part_of_the_cluster_that_it_held() -> None:
    meter = ran(UsageHistory(1000), (30, {"other": 8}), (70, {"other": 2}))
    assert gpu_share(meter, "other") == pytest.approx((30 * 8 + 70 * 2) / 800)


def test_capacity_counts_as_it_was() -> None:
    meter = UsageMeter(UsageHistory(1000))
    meter.advance(0)
    for end, capacity in ((10, 8), (20, 24)):
        meter.hold(holding(capacity, other=8))
        meter.advance(end)
    assert gpu_share(meter, "other") == pytest.approx(160 / 320)


def test_a_queue_has_had_what_queues_below_it_had() -> None:
    meter = ran(UsageHistory(1000), (10, {"below": 4}))
    assert gpu_share(meter, "top") == gpu_share(meter, "below") == pytest.approx(0.5)
    assert gpu_share(meter, "other") == 0


def test_after_a_half_life_it_counts_half() -> None:
    history = UsageHistory(10_000, half_life_s=100)
    meter = ran(history, (100, {"other": 8}), (100, {"other": 0}))
    # Each second of the first hundred counts half as much as the one a hundred seconds later.
    assert gpu_share(meter, "other") == pytest.approx(1 / 3)


def test_what_has_left_the_window_does_not_count() -> None:
    history = UsageHistory(100)
    assert gpu_share(ran(history, (50, {"other": 8}), (99, {"other": 0})), "other") > 0
    assert gpu_share(ran(history, (50, {"other": 8}), (102, {"other": 0})), "other") == 0


def test_a_step_longer_than_the_window_leaves_what_is_held_now() -> None:
    assert gpu_share(ran(UsageHistory(100), (50, {"other": 8}), (1e6, {"other": 2})), "other") == pytest.approx(0.25)


def test_nothing_is_known_at_first_and_a_clock_that_goes_back_adds_nothing() -> None:
    meter = UsageMeter(UsageHistory(100))
    meter.advance(50)
    assert meter.fractions() == {}
    meter.hold(holding(other=8))
    meter.advance(10)
    assert meter.fractions() == {}
    meter.advance(60)
    assert gpu_share(meter, "other") == pytest.approx(1)


@given(st.lists(st.tuples(st.floats(0.1, 80), st.integers(0, 8)), min_size=1, max_size=12), st.sampled_from([None, 40]))
def test_how_often_one_looks_makes_no_difference(phases: list[tuple[float, int]], half_life: float | None) -> None:
    history = UsageHistory(10_000, half_life)
    coarse = ran(history, *((seconds, {"other": gpus}) for seconds, gpus in phases))
    fine = ran(history, *((seconds / 3, {"other": gpus}) for seconds, gpus in phases for _ in range(3)))
    assert gpu_share(coarse, "other") == pytest.approx(gpu_share(fine, "other"))
    assert 0 <= gpu_share(coarse, "other") <= 1 + 1e-9


# -- in the scheduler ------------------------------------------------------------------------------------------------


def config(arguments: str) -> SchedulerConfig:
    return parse_config(
        f'actions: "allocate"\ntiers: [{{plugins: [{{name: gang}}, {{name: fairshare, arguments: {{{arguments}}}}}]}}]',
        "test",
    )


def cycles(arguments: str) -> Scheduler:
    """A scheduler after two cycles, ten seconds apart, with a pod that holds half of the cluster."""
    objects = [node("n", gpu=8), queue("other"), pod_group("g", queue="other"), pod("g-0", group="g", gpu=4, node="n")]
    cluster = MemoryCluster(objects, start=100.0)
    scheduler = Scheduler(cluster, config(arguments), builtin_registry(third_party=False))
    scheduler.run_once()
    cluster.advance_to(110.0)
    assert scheduler.run_once().error is None
    return scheduler


def test_sessions_are_told_what_queues_have_had() -> None:
    session = cycles("windowSeconds: 3600, halfLifeSeconds: 60").last_session
    assert session is not None
    assert session.usage["other"][GPU] == pytest.approx(0.5)


def test_nobody_counts_unless_a_plugin_asks() -> None:
    session = cycles("").last_session
    assert session is not None
    assert session.usage == {}


def reclaiming(arguments: str) -> SchedulerConfig:
    text = f"""
actions: "allocate, reclaim"
tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: fairshare, arguments: {{{arguments}}}}}]}}]
configurations: [{{name: reclaim, arguments: {{strategy: solver}}}}]
"""
    return parse_config(text, "test")


def rich() -> list[KubeObject]:
    """A queue that has the whole cluster, and one that has nothing."""
    pods = [pod(f"rich-{k}", group="rich", gpu=1, node="n") for k in range(8)]
    return [node("n", gpu=8), queue("a"), queue("b"), pod_group("rich", queue="a"), *pods]


def poor() -> list[KubeObject]:
    """A gang that asks for three quarters of the cluster."""
    return [pod_group("poor", minimum=6, queue="b"), *(pod(f"poor-{k}", group="poor", gpu=1) for k in range(6))]


def given_back(arguments: str) -> int:
    """How many of eight pods a queue that had the whole cluster for a while loses to a gang of six of another queue."""
    cluster = MemoryCluster(rich(), start=100.0)
    scheduler = Scheduler(cluster, reclaiming(arguments), builtin_registry(third_party=False))
    scheduler.run_once()
    cluster.advance_to(400.0)
    cluster.add(poor())
    return sum(isinstance(made, Evict) for made in scheduler.run_once().decisions)


def test_a_queue_that_had_much_gets_less_of_what_is_left_over() -> None:
    assert given_back("") == 0, "half of the cluster is its fair share"
    assert given_back("windowSeconds: 3600") == 6
    assert given_back("windowSeconds: 3600, kValue: 0") == 0


def moments_of_waking(arguments: str) -> tuple[list[float], int]:
    """One queue has the cluster for ten minutes, then another; what the first waits for is more than half of it.

    The scheduler looks again only when the cycle before said so. Returns when, and how many pods went in the end.
    """
    early = [pod(f"early-{k}", group="early", gpu=1, node="n") for k in range(8)]
    cluster = MemoryCluster([*rich()[:3], pod_group("early", queue="b"), *early], start=100.0)
    scheduler = Scheduler(cluster, reclaiming(arguments), builtin_registry(third_party=False))
    scheduler.run_once()
    cluster.advance_to(700.0)
    for one in early:
        cluster.delete(one)
    cluster.add([*rich()[3:], *poor()])
    woken: list[float] = []
    while True:
        result = scheduler.run_once()
        gone = sum(isinstance(made, Evict) for made in result.decisions)
        if gone or result.due is None or len(woken) == 500:
            return woken, gone
        cluster.advance_to(result.due)
        woken.append(cluster.now())


@pytest.mark.parametrize("fading", ["", ", halfLifeSeconds: 300"])
def test_shares_that_move_by_themselves_wake_the_scheduler(fading: str) -> None:
    """What a queue has had counts more with every minute that it has it, although nothing happens."""
    woken, gone = moments_of_waking(f"windowSeconds: 3600{fading}")
    assert gone == 6
    assert 1 < len(woken) < 100


def test_nobody_is_woken_for_shares_where_time_does_not_count_or_has_done_its_work() -> None:
    assert moments_of_waking("") == ([], 0)
    woken, gone = moments_of_waking("windowSeconds: 3600, kValue: 0.001")
    assert gone == 0
    assert len(woken) < 100
