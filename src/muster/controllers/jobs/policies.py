"""What happens to a Job, and what its policies want done then.

Events are read off the present state: a failed pod is an event until it is dealt with, so none is lost with a process.
A pod that is gone is the exception; who was not there does not know, and the pod is simply made again. Policies of the
task come before those of the Job, and of several that fit the first counts. A policy with a timeout acts when the state
has lasted that long; a pod that waits is an event only to such a policy. Commands act at once and come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster.api import Pod, parse_duration
from muster.api.objects.batch import Command, JobTask, LifecyclePolicy
from muster.controllers.jobs.observed import Observed, index_of, is_leaving, partition_of, pod_name, task_of

ANY: Final = "*"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
POD_PENDING: Final = "PodPending"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
UNKNOWN: Final = "Unknown"
RESTART_JOB: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
RESTART_PARTITION: Final = "RestartPartition"
ABORT: Final = "AbortJob"
TERMINATE: Final = "TerminateJob"
COMPLETE: Final = "CompleteJob"
RESUME: Final = "ResumeJob"
#: What concerns a part of the pods only.
PARTIAL: Final = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})
_TASK_RETRIES: Final = 3
_UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class Trigger:
    """Something to do, whom it concerns, and why in words for people."""

    action: str
    why: str
    task: str = ""
    pod: str = ""
    partition: str = ""
    command: Command | None = None


@dataclass(frozen=True, slots=True)
class _Happening:
    event: str
    why: str
    task: str = ""
    pod: str = ""
    partition: str = ""
    exit_code: int = 0
    #: Since when it is so.
    since: float = 0.0
    #: The uid of a pod that is there no more.
    gone: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done now, the first thing first; what waits for a timeout, and when the next one runs out."""

    now: tuple[Trigger, ...] = ()
    due: float | None = None
    remember: frozenset[str] = frozenset()


def wanted(seen: Observed, now: float) -> Wanted:
    """What commands and policies want done."""
    found = [
        Trigger(command.action, f"command {command.name}", command=command)
        for command in sorted(seen.commands, key=lambda command: command.name)
    ]
    waiting: list[float] = []
    remember = set()
    for happening in _happenings(seen):
        policy = _policy_for(happening, seen)
        if policy is None or not policy.action:
            continue
        moment = happening.since + _timeout_s(policy)
        if policy.timeout and moment > now:
            waiting.append(moment)
            remember.add(happening.gone)
        else:
            found.append(_trigger(policy.action, happening))
    return Wanted(tuple(found), min(waiting, default=None), frozenset(remember - {""}))


def _trigger(action: str, happening: _Happening) -> Trigger:
    return Trigger(action, happening.why, happening.task, happening.pod, happening.partition)


def _timeout_s(policy: LifecyclePolicy) -> float:
    try:
        return parse_duration(policy.timeout) if policy.timeout else 0.0
    except ValueError:
        return 0.0


# -- what happens ----------------------------------------------------------------------------------------------


def _happenings(seen: Observed) -> Iterator[_Happening]:
    order = {task.name: place for place, task in enumerate(seen.job.spec.tasks)}
    pods = sorted(seen.current(), key=lambda pod: (order.get(task_of(pod), len(order)), index_of(pod)))
    for pod in pods:
        yield from _of_pod(pod)
    for gone in seen.gone:
        yield from _of_gone(gone.pod, gone.at, seen)
    for task in seen.job.spec.tasks:
        yield from _of_task(task, [pod for pod in pods if task_of(pod) == task.name])
    if seen.group is not None and seen.group.status.phase == UNKNOWN:
        yield _Happening(UNKNOWN, f"PodGroup {seen.group.name} is in phase Unknown")


def _of_pod(pod: Pod) -> Iterator[_Happening]:
    phase = pod.status.phase
    if phase == "Failed":
        code = exit_code(pod)
        said = f" with exit code {code}" if code else ""
        yield _about(pod, POD_FAILED, f"pod {pod.name} failed{said}", _ended_at(pod), code)
    elif phase in ("", "Pending") and not is_leaving(pod):
        yield _about(pod, POD_PENDING, f"pod {pod.name} is pending", _made_at(pod))


def _of_gone(pod: Pod, at: float, seen: Observed) -> Iterator[_Happening]:
    """A pod that left; once its successor runs, nobody has to wait for a timeout any more."""
    names = (pod_name(seen.job, task, index) for task in seen.job.spec.tasks for index in range(task.replicas))
    if not seen.is_news(pod) or pod.name not in set(names):
        return
    successor = seen.pods.get(pod.name)
    if successor is None or successor.status.phase != "Running":
        yield replace(_about(pod, POD_EVICTED, f"pod {pod.name} was evicted", at), gone=pod.metadata.uid)


def _of_task(task: JobTask, pods: Sequence[Pod]) -> Iterator[_Happening]:
    succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
    if 0 < task.replicas <= succeeded:
        yield _Happening(TASK_COMPLETED, f"task {task.name} is complete", task=task.name)
    limit = task.max_retry or _TASK_RETRIES
    retried = sum(_restarts(pod) for pod in pods if pod.status.phase in ("Pending", "Running"))
    if task.replicas and limit != _UNLIMITED and retried >= limit:
        yield _Happening(TASK_FAILED, f"containers of task {task.name} restarted {retried} times", task=task.name)


def _about(pod: Pod, event: str, why: str, since: float, code: int = 0) -> _Happening:
    return _Happening(event, why, task_of(pod), pod.name, partition_of(pod), code, since)


def exit_code(pod: Pod) -> int:
    """How the first container ended; 0 where nobody says."""
    first = next(iter(pod.status.container_statuses), None)
    return 0 if first is None or first.state.terminated is None else first.state.terminated.exit_code


def _restarts(pod: Pod) -> int:
    return sum(each.restart_count for each in (*pod.status.init_container_statuses, *pod.status.container_statuses))


def _ended_at(pod: Pod) -> float:
    ends = [each.state.terminated.finished_at for each in pod.status.container_statuses if each.state.terminated]
    stamps = [end.timestamp() for end in ends if end is not None]
    return max(stamps) if stamps else _made_at(pod)


def _made_at(pod: Pod) -> float:
    made = pod.metadata.creation_timestamp
    return 0.0 if made is None else made.timestamp()


# -- what is wanted then ---------------------------------------------------------------------------------------


def _policy_for(happening: _Happening, seen: Observed) -> LifecyclePolicy | None:
    spec = seen.job.spec
    own = next((task.policies for task in spec.tasks if task.name == happening.task), ())
    return next((policy for policy in (*own, *spec.policies) if _fits(policy, happening)), None)


def _fits(policy: LifecyclePolicy, happening: _Happening) -> bool:
    events = {policy.event, *policy.events} - {""}
    if happening.event in events or ANY in events:
        return happening.event != POD_PENDING or bool(policy.timeout)
    return policy.exit_code is not None and policy.exit_code == happening.exit_code
