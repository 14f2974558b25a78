"""A Job and all that it has made, as one moment shows it; the only thing that the rules of Jobs look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.api import Pod, PodGroup
from muster.api.names import JOB_VERSION, OUT_OF_SYNC, PARTITION_ID, TASK_INDEX, TASK_SPEC
from muster.api.objects.batch import Command, Job, JobTask

PENDING: Final = "Pending"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
ABORTING: Final = "Aborting"
ABORTED: Final = "Aborted"
TERMINATING: Final = "Terminating"
TERMINATED: Final = "Terminated"
COMPLETING: Final = "Completing"
COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
#: Phases in which pods are made and watched over.
ACTIVE: Final = frozenset({PENDING, RUNNING, RESTARTING})
#: Phases that a Job never leaves.
FINISHED: Final = frozenset({COMPLETED, FAILED, TERMINATED})
POD_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Gone:
    """A pod that left without being asked by us, and when."""

    pod: Pod
    at: float


@dataclass(frozen=True, slots=True)
class Observed:
    """What there is of one Job; pods by name, those that it controls and no others."""

    job: Job
    pods: Mapping[str, Pod] = field(default_factory=dict)
    group: PodGroup | None = None
    gone: Sequence[Gone] = ()
    commands: Sequence[Command] = ()
    #: Values of priority classes by name.
    priorities: Mapping[str, int] = field(default_factory=dict)

    @property
    def phase(self) -> str:
        return self.job.status.state.phase

    def pods_of(self, task: JobTask) -> Iterator[tuple[int, Pod | None]]:
        """The pods that a task should have, with their numbers; None: it is not there."""
        for index in range(task.replicas):
            yield index, self.pods.get(pod_name(self.job, task, index))

    def current(self) -> Iterator[Pod]:
        """Pods whose fate is news: made by the present version of the Job, wanted, and not asked to leave by us."""
        wanted = {pod_name(self.job, task, index) for task in self.job.spec.tasks for index in range(task.replicas)}
        for name, pod in self.pods.items():
            if name in wanted and self.is_news(pod):
                yield pod

    def is_news(self, pod: Pod) -> bool:
        """Whether policies may ask what became of a pod."""
        return not is_outdated(pod, self.job) and not is_marked(pod)


def pod_name(job: Job, task: JobTask, index: int) -> str:
    """The name of a pod, which tells its Job, task and number."""
    return f"{job.name}-{task.name}-{index}"


def group_name(job: Job) -> str:
    """The name of a Job's PodGroup."""
    return f"{job.name}-{job.metadata.uid}"


def is_outdated(pod: Pod, job: Job) -> bool:
    """Whether a pod was made before the Job was started anew."""
    text = pod.metadata.annotations.get(JOB_VERSION, "")
    return text.isdecimal() and int(text) < job.status.version


def is_marked(pod: Pod) -> bool:
    """Whether we have asked a pod to leave."""
    return OUT_OF_SYNC in pod.metadata.annotations


def is_leaving(pod: Pod) -> bool:
    """Whether somebody has asked a pod to leave."""
    return pod.metadata.deletion_timestamp is not None


def has_ended(pod: Pod) -> bool:
    """Whether nothing of a pod runs any more, nor ever will."""
    return pod.status.phase in POD_ENDED


def task_of(pod: Pod) -> str:
    """The task that a pod was made for."""
    return pod.metadata.annotations.get(TASK_SPEC) or pod.metadata.labels.get(TASK_SPEC, "")


def partition_of(pod: Pod) -> str:
    """The partition of its task that a pod is in, "" if the task has none."""
    return pod.metadata.labels.get(PARTITION_ID, "")


def index_of(pod: Pod) -> int:
    """The number of a pod in its task."""
    text = pod.metadata.annotations.get(TASK_INDEX, "")
    return int(text) if text.isdecimal() else -1
