"""A cluster described in KAI's objects alone runs from the files to the report."""

from pathlib import Path

import pytest

from muster.api import KubeObject, Pod, decode, load_files
from muster.api.names import START_STAMP
from muster.explain import explain_job, find_job
from muster.framework import SchedulerConfig, find_config
from muster.simulate import SimulationResult, simulate
from muster.testing import node, pod

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kai"
RACK = "example.com/rack"


def run(config: SchedulerConfig) -> tuple[list[KubeObject], SimulationResult]:
    loaded = load_files([str(EXAMPLE)])
    assert loaded.notes == []
    return list(loaded.objects), simulate(loaded, config)


@pytest.mark.parametrize("profile", ["kai", "muster", "volcano"])
def test_every_job_of_the_example_runs_whole(profile: str) -> None:
    _, result = run(find_config(profile))
    assert result.settled
    assert {name: (job.phase, job.running, job.pending) for name, job in result.jobs.items()} == {
        "default/ranking": ("Running", 2, 0),
        "default/segment": ("Running", 4, 0),
        "default/translate": ("Running", 3, 0),
    }


def test_pod_sets_keep_to_their_level_of_the_topology() -> None:
    loaded, result = run(find_config("kai"))
    labels = {thing.name: thing.metadata.labels for thing in loaded}
    racks = {
        labels[name][RACK]
        for name, report in result.nodes.items()
        if any("translate-worker" in member for member in report.pods)
    }
    assert len(racks) == 1
    assert sum(isinstance(thing, Pod) for thing in loaded) == 9


def test_gangs_are_stamped_once_each() -> None:
    _, result = run(find_config("kai"))
    stamped = [update.job for cycle in result.cycles for update in cycle.updates if START_STAMP in update.annotations]
    assert sorted(stamped) == ["default/ranking", "default/segment", "default/translate"]


def test_a_job_whose_queue_does_not_exist_says_so() -> None:
    group = decode(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"queue": "nowhere"},
        }
    )
    result = simulate([node("n", gpu=1), group, pod("g-0", group="g", gpu=1)], find_config("kai"))
    assert result.jobs["default/g"].reason.startswith("queue-missing")
    session = result.last_session
    assert session is not None
    assert explain_job(session, find_job(session.snapshot, "g"), session.now).code == "queue-missing"
