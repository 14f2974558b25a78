"""How a Job is: its pods counted, and the phase that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from muster.api import Pod
from muster.api.objects.batch import Job, JobCondition, JobState, JobStatus, TaskState
from muster.api.objects.meta import encode_hook
from muster.controllers.contract import Json, WriteStatus, stamp, target_of
from muster.controllers.jobs.groups import least_of
from muster.controllers.jobs.observed import COMPLETED, FAILED, PENDING, RUNNING, is_leaving, task_of

_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")
_UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class Change:
    """A new phase and why."""

    phase: str
    reason: str = ""
    message: str = ""


def counted(job: Job, pods: Iterable[Pod], asked: Collection[str] = ()) -> JobStatus:
    """The status with the pods as they are; those that leave, or are `asked` to just now, count as nothing else."""
    total: Counter[str] = Counter()
    by_task: dict[str, Counter[str]] = {}
    for pod in pods:
        if is_leaving(pod) or pod.name in asked:
            total["leaving"] += 1
            continue
        phase = pod.status.phase or "Pending"
        phase = phase if phase in _PHASES else _UNKNOWN
        total[phase] += 1
        by_task.setdefault(task_of(pod), Counter())[phase] += 1
    return replace(
        job.status,
        min_available=job.spec.min_available,
        pending=total["Pending"],
        running=total["Running"],
        succeeded=total["Succeeded"],
        failed=total["Failed"],
        unknown=total[_UNKNOWN],
        terminating=total["leaving"],
        task_status_count={name: TaskState(phase=dict(by_task[name])) for name in sorted(by_task)},
    )


def changed(status: JobStatus, change: Change, job: Job, now: float) -> JobStatus:
    """The status in a new phase; in the conditions each phase stands once, the last at the end."""
    moment = stamp(now)
    state = JobState(phase=change.phase, reason=change.reason, message=change.message, last_transition_time=moment)
    others = [known for known in status.conditions if known.status != change.phase]
    conditions = [*others, JobCondition(status=change.phase, last_transition_time=moment)]
    made = job.metadata.creation_timestamp
    duration = None if made is None else f"{max(0.0, now - made.timestamp()):.0f}s"
    return replace(status, state=state, conditions=conditions, running_duration=duration)


def write(job: Job, status: JobStatus) -> tuple[WriteStatus, ...]:
    """The request that writes a status, none where nothing is new."""
    if status == job.status:
        return ()
    body: Json = msgspec.to_builtins(status, enc_hook=encode_hook, str_keys=True)
    return (WriteStatus(target_of(job), body, job.metadata.resource_version),)


def next_phase(job: Job, status: JobStatus) -> Change | None:
    """Where the counts take a Job that nothing else has happened to; None: it stays."""
    if job.status.state.phase == PENDING:
        enough = job.spec.min_available <= status.running + status.succeeded + status.failed
        return Change(RUNNING) if enough else None
    replicas = sum(task.replicas for task in job.spec.tasks)
    if not replicas:
        return None
    least = job.spec.min_success
    if least is not None and status.succeeded >= least:
        return Change(COMPLETED, message=_outcome(status.succeeded, least))
    if status.succeeded + status.failed == replicas:
        return _ended(job, status)
    if status.pending > replicas - job.spec.min_available:
        return Change(PENDING)
    return None


def _ended(job: Job, status: JobStatus) -> Change:
    """Every pod has ended: enough of them well, in all and of each task, or not."""
    spec = job.spec
    if spec.min_available >= sum(least_of(task) for task in spec.tasks):
        for task in spec.tasks:
            found = status.task_status_count.get(task.name)
            succeeded = 0 if found is None else found.phase.get("Succeeded", 0)
            if found is not None and task.min_available is not None and succeeded < task.min_available:
                return Change(FAILED, message=_outcome(succeeded, task.min_available, f" of task {task.name}"))
    least = spec.min_available if spec.min_success is None else spec.min_success
    return Change(COMPLETED if status.succeeded >= least else FAILED, message=_outcome(status.succeeded, least))


def _outcome(succeeded: int, least: int, whose: str = "") -> str:
    return f"{succeeded} {'pod' if succeeded == 1 else 'pods'}{whose} succeeded, {least} had to"
