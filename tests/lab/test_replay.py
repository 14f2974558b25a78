"""Replays of tiny traces: jobs run for their time, work is conserved, the same input gives the same story."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.framework import find_config
from muster.lab.policies import find_policy
from muster.lab.replay import Replay, ReplayOptions
from muster.lab.report import Report, make_report
from muster.lab.sources.tables import uniform_nodes
from muster.lab.trace import Trace, TraceJob
from muster.scheduler import builtin_registry

REGISTRY = builtin_registry(third_party=False)


def job(name: str, submit: float, run: float, gpus: int = 8, tasks: int = 1, **more: str) -> TraceJob:
    return TraceJob(name, submit, run, tasks, (("nvidia.com/gpu", str(gpus)),), **more)  # type: ignore[arg-type]


def replayed(jobs: Sequence[TraceJob], nodes: int = 2, config: str = "muster", **options: float) -> Replay:
    made = Replay(
        Trace(list(jobs)),
        uniform_nodes(nodes, 8),
        find_policy(config),
        ReplayOptions(**options),  # type: ignore[arg-type]
        REGISTRY,
    )
    made.run()
    return made


def report(replay: Replay, nodes: int = 2) -> Report:
    return make_report(replay.recorder, name="test", n_gpus=8.0 * nodes, n_nodes=nodes, now_s=replay.now_s)


def starts(replay: Replay) -> list[float]:
    return list(replay.recorder.first_start)


def test_jobs_start_when_there_is_room_and_end_after_their_time() -> None:
    replay = replayed([job("a", 0, 100), job("b", 5, 50), job("c", 10, 10, tasks=2)])
    assert starts(replay) == [0, 5, 100]
    assert list(replay.recorder.end) == [100, 55, 110]


def test_a_gang_waits_for_all_its_places() -> None:
    replay = replayed([job("a", 0, 100), job("gang", 1, 10, tasks=2), job("small", 2, 10)])
    assert starts(replay) == [0, 100, 2], "a small job passes where a gang does not fit"


def test_cycles_are_run_only_where_something_can_change() -> None:
    replay = replayed([job("a", 0, 1000), job("b", 500, 10)], nodes=2)
    assert replay.recorder.cycles == 2, "one for each that came; nobody waits when they end"


def test_the_figures_of_a_report() -> None:
    figures = report(replayed([job("a", 0, 100), job("b", 0, 100), job("c", 0, 100)])).figures
    assert figures["finished"] == 3
    assert figures["wait_s"]["mean"] == pytest.approx(100 / 3, abs=0.1)
    assert figures["wait_s"]["max"] == 100
    assert figures["jct_s"]["max"] == 200
    assert figures["makespan_s"] == 200
    assert figures["gpu_s"] == 3 * 8 * 100
    assert figures["lost_gpu_s"] == 0
    assert figures["largest"]["gpus"] == 8
    assert figures["by_size"]["5-8"]["jobs"] == 3
    assert figures["starving"][0]["wait_s"] == 100


def test_an_interrupted_replay_goes_on_as_if_nothing_had_been() -> None:
    jobs = [job(f"j{k}", 3.0 * k, 40.0 + k, gpus=1 + k % 8) for k in range(30)]
    whole = replayed(jobs, nodes=1)
    half = Replay(Trace(jobs), uniform_nodes(1, 8), find_config("muster"), registry=REGISTRY)
    half.run(pause=lambda: half.recorder.cycles >= 12)
    assert not half.is_over
    again: Replay = pickle.loads(pickle.dumps(half))
    again.run()
    assert starts(again) == starts(whole)
    assert report(again, 1).figures == report(whole, 1).figures


def test_evicted_work_is_lost_and_done_again() -> None:
    low, high = job("low", 0, 100, tasks=2), job("high", 50, 10, tasks=2, priority=10)  # type: ignore[arg-type]
    replay = replayed([low, high], config="volcano")
    figures = report(replay).figures
    if figures["evictions"]["total"]:
        assert figures["lost_gpu_s"] == 16 * 50
        assert list(replay.recorder.end) == [160, 60]
    assert figures["gpu_s"] == 16 * 110


JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 60), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3)), max_size=12
)


@settings(max_examples=15, deadline=None)
@given(
    rows=JOBS,
    config=st.sampled_from(["muster", "volcano", "kai", "policy:srtf", "policy:easy"]),
    seed=st.integers(0, 3),
    checkpoint=st.sampled_from([None, 0.0, 7.0]),
)
def test_gpu_seconds_are_conserved(
    rows: list[tuple[int, int, int, int]], config: str, seed: int, checkpoint: float | None
) -> None:
    """All that was asked for is done once, and what was held is what was done and what was lost."""
    ordered = sorted(rows)
    jobs = [
        replace(job(f"j{k:02d}", at, run, gpus, tasks), expected_s=float(run))
        for k, (at, run, gpus, tasks) in enumerate(ordered)
    ]
    replay = replayed(jobs, nodes=3, config=config, seed=seed, checkpoint_s=checkpoint)  # type: ignore[arg-type]
    figures = report(replay, 3).figures
    asked = sum(float(run) * gpus * tasks for _, run, gpus, tasks in ordered)
    assert figures["finished"] == len(jobs)
    assert figures["gpu_s"] == asked
    assert figures["held_gpu_s"] == pytest.approx(asked + figures["lost_gpu_s"], abs=0.5)
    assert figures["lost_gpu_s"] == 0 or checkpoint != 0, "who saves all the time loses nothing"
    again = replayed(jobs, nodes=3, config=config, seed=seed, checkpoint_s=checkpoint)  # type: ignore[arg-type]
    assert starts(again) == starts(replay)
