"""Whatever happens, in whatever order: no node is over-committed, no gang stays half bound, and what fits runs."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import invariants
from tests.kubernetes.chaos import QUEUES, RANKS, Storm, node_names
from tests.kubernetes.kubectl import Json, Kubectl, node, priority_class, queue
from tests.kubernetes.proxy import FaultyProxy
from tests.kubernetes.replicas import Process

Undecided = Callable[[], list[Json]]

#: Gangs that lost a pod and cannot have it back are given up soon, as nobody wants to wait for the end of the test.
CONFIG = """
actions: "allocate, backfill, consolidation, gangreclaim, gangpreempt, stalegangeviction"
configurations:
- name: stalegangeviction
  arguments: {gracePeriod: 5s}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: minruntime}]
- plugins: [{name: fairshare}, {name: predicates}, {name: nodeorder}]
"""
N_STRIKES = int(os.environ.get("MUSTER_STRIKES", "15"))
SEEDS = [int(seed) for seed in os.environ.get("MUSTER_SEEDS", "1").split(",")]


@pytest.fixture
def storm(
    request: pytest.FixtureRequest, control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> Iterator[Storm]:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIG)
    kubectl.create_all(priority_class(name, 10 * (1 + number)) for number, name in enumerate(RANKS))
    kubectl.create_all([*(queue(name) for name in QUEUES), *map(node, node_names())])
    numbers = itertools.count()
    with FaultyProxy(control_plane, tmp_path) as proxy:

        def start() -> Process:
            return Process(proxy.kubeconfig, tmp_path / f"replica-{next(numbers)}.log", "--config", str(config))

        storm = Storm(request.param, kubectl, control_plane, proxy, start)
        try:
            yield storm
        finally:
            storm.close()


@pytest.mark.parametrize("storm", SEEDS, indirect=True)
def test_a_storm_passes(storm: Storm, kubectl: Kubectl, undecided: Undecided) -> None:
    pace = random.Random(0)
    for _ in range(N_STRIKES):
        storm.strike()
        invariants.check_room(kubectl)
        time.sleep(pace.choice([0.0, 0.1, 0.5, 1.0]))
    storm.calm_down()
    until_settled(storm, kubectl, undecided, seconds=90)
    invariants.check(kubectl)
    assert any(kubectl.nodes_of_pods().values())
    for replica in storm.replicas:
        assert not replica.has_logged("Traceback"), replica.log.read_text()[-3000:]


@pytest.fixture
def undecided(control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Undecided:
    """What a scheduler would decide that looks at the cluster now: nothing, where the others have done their work."""

    def ask() -> list[Json]:
        reached = ["--cluster", "--kubeconfig", str(control_plane.kubeconfig)]
        config = ["--config", str(tmp_path / "scheduler.yaml")]
        assert run(["simulate", *reached, *config, "--cycles", "1", "--output", "json"]) == 0
        decisions: list[Json] = json.loads(capsys.readouterr().out)["decisions"]
        return decisions

    return ask


def until_settled(storm: Storm, kubectl: Kubectl, undecided: Undecided, seconds: float) -> None:
    """Wait until nothing is left to decide, nor under way; gangs that lost pods are complete again, or given up."""
    until = time.monotonic() + seconds
    left: object = None
    while storm.turn() or (left := undecided() or invariants.half_gangs(kubectl)):
        assert time.monotonic() < until, left
        time.sleep(0.5)
