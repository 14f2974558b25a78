import json

import pytest

from muster.api import InternalError, UserError, load_text
from muster.cluster import parse_timeline
from muster.framework import parse_config
from muster.plugins.jobs.gang import Gang
from muster.scheduler import builtin_registry
from muster.simulate import simulate
from muster.testing import gang, node, pod, queue

TWO_NODES = [node("n1", gpu=8), node("n2", gpu=8)]


def test_the_json_form_is_exactly_as_documented() -> None:
    result = simulate([node("n1", gpu=2, cpu=4, memory="8Gi"), *gang("g", 1, gpu=1, memory="1Gi")])
    assert result.to_json() == {
        "decisions": [
            {
                "cycle": 1,
                "time": 0.0,
                "kind": "bind",
                "pod": "default/g-0",
                "node": "n1",
                "job": "default/g",
                "beneficiary": "",
                "why": "allocate: best of the nodes that fit",
            }
        ],
        "jobs": {"default/g": {"phase": "Running", "running": 1, "pending": 0, "reason": ""}},
        "nodes": {
            "n1": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2", "pods": "110"},
                "used": {"memory": "1Gi", "nvidia.com/gpu": "1", "pods": "1"},
                "pods": ["default/g-0"],
            }
        },
        "cycles": result.to_json()["cycles"],
    }
    assert result.settled
    assert json.dumps(result.to_json())


def test_objects_may_come_from_files() -> None:
    loaded = load_text("""
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
""")
    result = simulate(loaded)
    assert result.jobs["default/pod/p"].phase == "Running"
    assert result.nodes["n1"].allocatable["pods"] == "110"


def test_one_cycle_counts_what_it_bound() -> None:
    result = simulate([*TWO_NODES, *gang("g", 2, gpu=8)], cycles=1)
    assert len(result.cycles) == 1
    assert not result.settled
    assert result.jobs["default/g"].running == 2
    assert result.jobs["default/g"].phase == "Running"


def test_no_cycles_at_all() -> None:
    result = simulate([*TWO_NODES, *gang("g", 2, gpu=8)], cycles=0)
    assert result.to_json()["decisions"] == []
    assert result.jobs["default/g"].reason == "not-tried: its turn has not come"
    assert result.last_session is None


def test_time_jumps_to_the_next_event_in_whole_periods() -> None:
    result = simulate([node("n1", gpu=8), *gang("a", 1, gpu=8, run_seconds=3600), *gang("b", 1, gpu=8)], period=10.0)
    times = [round(cycle.time - result.start, 6) for cycle in result.cycles]
    assert times[:2] == [0.0, 10.0]
    assert all(time % 10 == 0 for time in times)
    assert 3610.0 in times
    assert len(times) < 10


def test_until_is_a_limit_in_seconds() -> None:
    objects = [node("n1", gpu=8), *gang("a", 1, gpu=8, run_seconds=3600), *gang("b", 1, gpu=8)]
    result = simulate(objects, until=600)
    assert result.jobs["default/b"].running == 0
    assert not result.settled
    assert all(cycle.time - result.start <= 600 for cycle in result.cycles)


def test_a_timeline_is_played() -> None:
    timeline = parse_timeline("[{at: 1m, uncordon: n1}]")
    result = simulate([node("n1", gpu=8, unschedulable=True), *gang("g", 1, gpu=8)], timeline=timeline)
    assert [made["time"] for made in result.to_json()["decisions"]] == [60.0]


def test_a_mistake_in_the_timeline_stops_the_run_and_names_the_entry() -> None:
    with pytest.raises(UserError, match="timeline: entry 1: there is no node n7"):
        simulate([node("n1")], timeline=parse_timeline("[{at: 5, cordon: n7}]"))


def test_a_waiting_job_says_why_and_a_running_one_does_not() -> None:
    result = simulate([*TWO_NODES, queue("q"), *gang("big", 3, gpu=5, queue="q"), *gang("ok", 1, gpu=1)])
    assert result.jobs["default/big"].pending == 3
    code, _, text = result.jobs["default/big"].reason.partition(": ")
    assert code
    assert text
    assert result.jobs["default/ok"].reason == ""


def test_the_same_seed_gives_the_same_bytes() -> None:
    objects = [*TWO_NODES, *gang("a", 3, gpu=2), *gang("b", 4, gpu=2, run_seconds=30), pod("c", gpu=1)]
    texts = {json.dumps(simulate(objects, seed=3).to_json()) for _ in range(3)}
    assert len(texts) == 1


def test_an_empty_cluster_settles_at_once() -> None:
    result = simulate([])
    assert result.to_json() == {"decisions": [], "jobs": {}, "nodes": {}, "cycles": 1}


def test_a_broken_plugin_stops_the_simulation() -> None:
    class Broken(Gang):
        def job_valid(self, job: int) -> None:
            raise RuntimeError("broken")

    registry = builtin_registry()
    registry.plugins["gang"] = Broken
    with pytest.raises(InternalError, match=r"plugin gang.job_valid in action allocate failed: RuntimeError: broken"):
        simulate([node("n1"), *gang("g", 1, cpu=1)], registry=registry)


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan")])
def test_the_period_must_be_positive(period: float) -> None:
    with pytest.raises(UserError, match="period"):
        simulate([], period=period)


def test_a_configuration_that_names_an_unknown_action_is_refused() -> None:
    with pytest.raises(UserError, match="explode"):
        simulate([], parse_config('actions: "explode"\ntiers: []', "x.yaml"))
