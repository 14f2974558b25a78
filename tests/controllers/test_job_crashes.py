"""A controller that dies between two requests, again and again, leaves the same Jobs as one that never does.

Evictions are left out: that a pod is gone is known only to those who were there.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from muster.api.objects.batch import Job
from muster.controllers.contract import Action
from muster.controllers.embedded import EmbeddedControllers
from muster.controllers.jobs.controller import JobController
from tests.controllers.jobs_world import CONTAINERS, World, job_of

JOB = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train}}
spec:
  minAvailable: MINIMUM
  maxRetry: 4
  plugins: {{svc: []}}
  policies: [{{event: PodFailed, action: ACTION}}]
  tasks:
  - name: a
    replicas: 4
    partitionPolicy: {{totalPartitions: 2, partitionSize: 2}}
    template: {{spec: {{{CONTAINERS}}}}}
  - name: b
    replicas: 2
    dependsOn: {{name: [a]}}
    template: {{spec: {{{CONTAINERS}}}}}
"""
ACTIONS = ("RestartJob", "RestartTask", "RestartPod", "RestartPartition", "AbortJob", "CompleteJob", "TerminateJob")


class DiedError(Exception):
    """The process is gone."""


class Mortal(EmbeddedControllers):
    """Dies before one of its next requests."""

    life = 10_000

    def _do(self, action: Action) -> str:
        self.life -= 1
        if self.life < 0:
            raise DiedError
        return super()._do(action)


class CrashingWorld(World):
    """A world whose controller is replaced whenever it has died."""

    def __init__(self, job: Job, chance: random.Random | None) -> None:
        self._chance = chance
        self.n_deaths = 0
        super().__init__(job)

    def turn(self) -> None:
        for _ in range(0 if self._chance is None else 3):
            self._replace(self._chance.randint(0, 3) if self._chance else 0)
            try:
                self.cluster.poll()
            except DiedError:
                self.n_deaths += 1
            else:
                break
        if self._chance is not None:
            self._replace(10_000)
        self.cluster.poll()

    def _replace(self, life: int) -> None:
        self.cluster.store.feed()
        self.cluster.store._feed = None
        self.controller = JobController()
        self.controllers = Mortal(self.cluster, [self.controller])
        self.controllers.life = life
        self.cluster.attach(self.controllers)


def history(seed: int) -> list[Callable[[World], None]]:
    """What happens to a Job, the same for everybody."""
    chance = random.Random(seed)
    names = [f"train-a-{k}" for k in range(4)] + [f"train-b-{k}" for k in range(2)]
    steps: list[Callable[[World], None]] = [lambda world: world.let_in(), lambda world: world.set_pods("Running")]
    for number in range(chance.randint(3, 10)):
        kind, pod = chance.choice(["let in", "run", "fail", "succeed", "wait", "command"]), chance.choice(names)
        action = chance.choice(["AbortJob", "ResumeJob", "RestartJob"])
        steps.append(_step(kind, pod, action, f"word-{number}"))
    return [*steps, lambda world: world.later(60.0), lambda world: world.let_in(), lambda world: world.later(60.0)]


def _step(kind: str, pod: str, action: str, word: str) -> Callable[[World], None]:
    def happen(world: World) -> None:
        alive = [name for name in world.alive() if world.pods[name].status.phase in ("Pending", "Running")]
        match kind:
            case "let in":
                world.let_in()
            case "run":
                world.set_pods("Running", *(alive or ["nobody"]))
            case "fail" if pod in alive:
                world.set_pods("Failed", pod)
            case "succeed" if pod in alive:
                world.set_pods("Succeeded", pod)
            case "command":
                world.command(action, name=word)
            case _:
                world.later(31.0)

    return happen


def outcome(world: World) -> tuple[object, ...]:
    job = world.job()
    pods = {
        name: (pod.status.phase, pod.metadata.annotations["volcano.sh/job-version"])
        for name, pod in world.pods.items()
        if pod.metadata.deletion_timestamp is None
    }
    status = job.status
    return status.state.phase, status.retry_count, status.version, pods, status.succeeded, status.failed


@pytest.mark.parametrize("seed", range(80))
def test_who_dies_in_the_middle_leaves_nothing_wrong(seed: int) -> None:
    chance = random.Random(seed)
    text = JOB.replace("ACTION", chance.choice(ACTIONS)).replace("MINIMUM", str(chance.choice([1, 4, 6])))
    steady, crashing = CrashingWorld(job_of(text), None), CrashingWorld(job_of(text), random.Random(seed))
    for step in history(seed):
        step(steady)
        step(crashing)
    assert outcome(crashing) == outcome(steady)


def test_controllers_do_die_here() -> None:
    world = CrashingWorld(job_of(JOB.replace("ACTION", "RestartJob").replace("MINIMUM", "4")), random.Random(1))
    for step in history(1):
        step(world)
    assert world.n_deaths > 3
