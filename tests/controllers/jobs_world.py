"""Jobs on the embedded cluster, for tests: the scheduler is played by whoever lets PodGroups in and pods run."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from muster.api import KubeObject, Pod, PodGroup, load_text
from muster.api.objects.batch import Command, Job
from muster.api.objects.meta import ObjectMeta, OwnerReference
from muster.api.objects.pod import ContainerState, ContainerStatus, ContainerTerminated
from muster.cluster import MemoryCluster
from muster.controllers.embedded import EmbeddedControllers
from muster.controllers.jobs.controller import JobController

CONTAINERS = "containers: [{name: c, image: x, resources: {requests: {cpu: '1', memory: 1Gi}}}]"


def job_of(text: str) -> Job:
    """A Job written in YAML."""
    thing = load_text(text).objects[0]
    assert isinstance(thing, Job)
    return thing


def simple(name: str = "train", replicas: int = 3, *, task: str = "", **spec: str) -> Job:
    """A Job with one task "w"; `spec` are lines of YAML, `task` more of them for the task."""
    lines = "\n".join(f"  {key}: {value}" for key, value in spec.items())
    return job_of(
        f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
{lines}
  tasks:
  - name: w
    replicas: {replicas}
    {task or "maxRetry: 3"}
    template:
      spec: {{{CONTAINERS}}}
"""
    )


class World:
    """An embedded cluster with the controller of Jobs, and a scheduler by hand."""

    def __init__(self, *objects: KubeObject, start: float = 1000.0, hold_s: float = 0.0) -> None:
        self.cluster = MemoryCluster(objects, start=start)
        self.controller = JobController(hold_s=lambda: hold_s)
        self.controllers = EmbeddedControllers(self.cluster, [self.controller])
        self.cluster.attach(self.controllers)
        self.turn()

    def turn(self) -> None:
        self.cluster.poll()

    def later(self, seconds: float) -> None:
        self.cluster.advance_to(self.cluster.now() + seconds)
        self.turn()

    def restart_controller(self) -> None:
        """A new process, which knows what it sees and nothing else."""
        self.cluster.store.feed()
        self.cluster.store._feed = None
        self.controller = JobController()
        self.controllers = EmbeddedControllers(self.cluster, [self.controller])
        self.cluster.attach(self.controllers)

    # -- looking -------------------------------------------------------------------------------------------

    def job(self, name: str = "train") -> Job:
        found = self.cluster.store.get(Job, f"default/{name}")
        assert found is not None
        return found

    def phase(self, name: str = "train") -> str:
        return self.job(name).status.state.phase

    @property
    def pods(self) -> dict[str, Pod]:
        return {pod.name: pod for pod in self.cluster.store.all(Pod)}

    def alive(self) -> list[str]:
        return sorted(name for name, pod in self.pods.items() if pod.metadata.deletion_timestamp is None)

    @property
    def group(self) -> PodGroup:
        groups = list(self.cluster.store.all(PodGroup))
        assert len(groups) == 1
        return groups[0]

    # -- playing -------------------------------------------------------------------------------------------

    def let_in(self, phase: str = "Inqueue") -> None:
        """The scheduler lets all PodGroups in."""
        for group in list(self.cluster.store.all(PodGroup)):
            self.cluster.replace_object(replace(group, status=replace(group.status, phase=phase)))
        self.turn()

    def set_pods(self, phase: str, *names: str, code: int = 0, restarts: int = 0) -> None:
        """Pods reach a phase; without names all of them that are not there yet."""
        for name, pod in self.pods.items():
            if names and name not in names:
                continue
            ends = ContainerTerminated(exit_code=code) if phase in ("Succeeded", "Failed") else None
            container = ContainerStatus(
                ready=phase == "Running", restart_count=restarts, state=ContainerState(terminated=ends)
            )
            status = replace(pod.status, phase=phase, container_statuses=[container])
            spec = replace(pod.spec, node_name="n1")
            self.cluster.replace_object(replace(pod, status=status, spec=spec))
        self.turn()

    def start(self) -> None:
        """Let the Job in, and all of its pods run."""
        self.let_in()
        self.set_pods("Running")

    def evict(self, *names: str) -> None:
        """Pods are gone, and it was not their controller."""
        for name in names:
            self.cluster.store.remove(self.pods[name])
        self.turn()

    def command(self, action: str, job: str = "train", name: str = "word") -> None:
        target = OwnerReference(api_version=Job.api_version, kind="Job", name=job, controller=True)
        self.cluster.add([Command(metadata=ObjectMeta(name=name), action=action, target=target)])
        self.turn()

    def commands(self) -> Sequence[Command]:
        return list(self.cluster.store.all(Command))
