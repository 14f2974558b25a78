"""The life of a Job, phase by phase: what to ask for next.

    Pending ⇄ Running → Completed | Failed
       ↓         ↓
    Restarting (→ Pending, or Failed when there were too many), Aborting → Aborted (→ Restarting), Completing →
    Completed, Terminating → Terminated

A change of phase is written first and acted upon afterwards: the status is what a controller that comes later knows of
the intentions of the one before. Starting anew raises the version of the Job; pods and PodGroups of an older version
are let go of and made again. Where only some pods are started anew they are marked, and the one that was the reason
last, so that it stays a reason until all the others are marked.
Pods are made when the scheduler has let the PodGroup in, and a task that depends on others when those are far enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as replace_struct

from muster.api import Pod, PodGroup, UserError
from muster.api.names import JOB_VERSION
from muster.api.objects.batch import Job, JobStatus, JobTask
from muster.api.validate import size_problems
from muster.controllers.contract import Action, Create, Delete, Patch, Plan, Tell, target_of
from muster.controllers.job_plugins import JobPlugin
from muster.controllers.jobs import policies
from muster.controllers.jobs.groups import difference, group_document, least_of
from muster.controllers.jobs.observed import (
    ABORTED,
    ABORTING,
    ACTIVE,
    COMPLETED,
    COMPLETING,
    FAILED,
    FINISHED,
    PENDING,
    RESTARTING,
    TERMINATED,
    TERMINATING,
    Observed,
    has_ended,
    is_leaving,
    is_marked,
    is_outdated,
    partition_of,
    pod_name,
    task_of,
)
from muster.controllers.jobs.pods import PodMaker, claims
from muster.controllers.jobs.status import Change, changed, counted, next_phase, write

#: Where each action that ends or interrupts a Job leads, and where that ends when no pod is left.
_STOPS: Final = {
    policies.ABORT: ABORTING,
    policies.TERMINATE: TERMINATING,
    policies.COMPLETE: COMPLETING,
}
_STOPPED: Final = {ABORTING: ABORTED, TERMINATING: TERMINATED, COMPLETING: COMPLETED}
#: Phases in which a Job stays by itself.
_ENDS: Final = FINISHED | {ABORTED}
_ACTS: Final = "ExecuteAction"
_PLUGIN: Final = "plugin-"
_CLAIM: Final = "volume-pvc-"


def reconcile(seen: Observed, now: float, plugins: Mapping[str, JobPlugin]) -> Plan:
    """What to ask for next, for one Job; `plugins` are those that it names. Raises UserError if it is too large."""
    job = seen.job
    if is_leaving_job(job):
        return Plan()
    for problem in size_problems(job.spec):
        raise UserError(problem.text, field=problem.field)
    if not seen.phase:
        begun = replace_struct(job, status=changed(counted(job, ()), Change(PENDING), job, now))
        return Plan(tuple(_sync(replace(seen, job=begun), now, plugins, before=job)))
    if seen.phase in ACTIVE:
        return _active(seen, now, plugins)
    for command in seen.commands:
        if command.action == policies.RESUME and seen.phase in (ABORTING, ABORTED):
            return _resume(seen, now)
    taken = tuple(Delete(target_of(command)) for command in seen.commands)
    stopped = _stopped(seen, now, plugins)
    return Plan((*taken, *stopped.actions), stopped.due)


def is_leaving_job(job: Job) -> bool:
    """Whether the Job is being deleted; what it made goes with it."""
    return job.metadata.deletion_timestamp is not None


# -- while it runs ---------------------------------------------------------------------------------------------


def _active(seen: Observed, now: float, plugins: Mapping[str, JobPlugin]) -> Plan:
    wanted = policies.wanted(seen, now)
    taken = tuple(Delete(target_of(trigger.command)) for trigger in wanted.now if trigger.command is not None)
    for trigger in wanted.now:
        if _was_done(trigger, seen.job):
            continue
        if trigger.action in _STOPS:
            phase = Change(_STOPS[trigger.action], trigger.action, trigger.why)
            return Plan((*_change(seen, now, phase, _running(seen)), *taken))
        if trigger.action == policies.RESTART_JOB and seen.phase != RESTARTING:
            return Plan((*_restart(seen, now, trigger, seen.pods.keys()), *taken))
        if trigger.action in policies.PARTIAL and seen.phase != RESTARTING and _targets(seen, trigger) is not None:
            partial = [each for each in wanted.now if each.action in policies.PARTIAL]
            # After the last try the Job fails, and what failed stays to be read.
            is_last = seen.job.status.retry_count + 1 >= seen.job.spec.max_retry
            leaving = [] if is_last else _let_go(seen, partial)
            asked = _names(leaving)
            return Plan((*_restart(seen, now, trigger, asked), *leaving, *taken))
    if seen.phase == RESTARTING:
        actions = _restarting(seen, now, [each for each in wanted.now if each.action in policies.PARTIAL])
    else:
        actions = _sync(seen, now, plugins)
    return Plan((*taken, *actions), wanted.due, wanted.remember)


def _was_done(trigger: policies.Trigger, job: Job) -> bool:
    """Whether a command was carried out by a controller that had no time to delete it."""
    return trigger.command is not None and job.status.state.message == trigger.why


def _change(seen: Observed, now: float, change: Change, asked: Collection[str] = ()) -> list[Action]:
    """Write a new phase, in which those who have to leave for it count as leaving at once.

    They may be gone before the next look, and people and programs wait to read it in this phase.
    """
    status = changed(counted(seen.job, seen.pods.values(), asked), change, seen.job, now)
    return [*write(seen.job, status), _tell(seen.job, change)]


def _tell(job: Job, change: Change) -> Tell:
    """An event: that a policy or a Command acts, in the word that users of Volcano know, or how the Job has ended."""
    why = f": {change.message}" if change.message else ""
    if change.reason and change.phase not in _ENDS:
        return Tell(target_of(job), _ACTS, f"Start to execute action {change.reason}{why}")
    return Tell(target_of(job), change.phase, f"Job is {change.phase}{why}", change.phase == FAILED)


def _restart(seen: Observed, now: float, trigger: policies.Trigger, asked: Collection[str]) -> list[Action]:
    """Write that the Job, or a part of it, starts anew; a whole Job gets a new version, so that no pod is left out."""
    status = counted(seen.job, seen.pods.values(), asked)
    whole = trigger.action == policies.RESTART_JOB
    status = replace_struct(status, retry_count=status.retry_count + 1, version=status.version + whole)
    change = Change(RESTARTING, trigger.action, trigger.why)
    return [*write(seen.job, changed(status, change, seen.job, now)), _tell(seen.job, change)]


def _resume(seen: Observed, now: float) -> Plan:
    """Go on with a Job that was aborted, which counts as a start anew: pods that had ended by then stay as they are."""
    command = next(each for each in seen.commands if each.action == policies.RESUME)
    status = counted(seen.job, seen.pods.values())
    status = replace_struct(status, retry_count=status.retry_count + 1, version=status.version + 1)
    change = Change(RESTARTING, policies.RESUME, f"command {command.name}")
    actions: list[Action] = [*write(seen.job, changed(status, change, seen.job, now)), _tell(seen.job, change)]
    return Plan((*actions, *(Delete(target_of(each)) for each in seen.commands)))


def _targets(seen: Observed, trigger: policies.Trigger) -> list[Pod] | None:
    """The pods that are started anew; None: there is no such partition."""
    pods = [pod for pod in seen.pods.values() if task_of(pod) == trigger.task]
    match trigger.action:
        case policies.RESTART_POD:
            return [pod for pod in pods if pod.name == trigger.pod]
        case policies.RESTART_PARTITION:
            return [pod for pod in pods if trigger.partition and partition_of(pod) == trigger.partition] or None
    return pods


def _let_go(seen: Observed, triggers: Sequence[policies.Trigger]) -> list[Delete]:
    """Ask the pods of parts that start anew to leave, those that are the reason last."""
    reasons = {trigger.pod for trigger in triggers}
    found = {pod.name: pod for trigger in triggers for pod in _targets(seen, trigger) or ()}
    order = sorted(found.values(), key=lambda pod: (pod.name in reasons, pod.name))
    return [Delete(target_of(pod), mark=True) for pod in order if not (is_leaving(pod) and is_marked(pod))]


def _names(deletes: Sequence[Delete]) -> set[str]:
    return {delete.target.key.rpartition("/")[2] for delete in deletes}


def _restarting(seen: Observed, now: float, partial: Sequence[policies.Trigger]) -> list[Action]:
    job = seen.job
    if job.status.retry_count >= job.spec.max_retry:
        said = f"{job.status.state.message}; started anew {job.spec.max_retry} times"
        return _change(seen, now, Change(FAILED, job.status.state.reason, said))
    # What had ended before a Job was suspended counts, also when a part of it starts anew later.
    keeps_ended = job.status.state.reason != policies.RESTART_JOB
    leaving: list[Delete] = _let_go(seen, partial)
    for name in sorted(seen.pods.keys() - _names(leaving)):
        pod = seen.pods[name]
        old = is_outdated(pod, job) and not (keeps_ended and has_ended(pod))
        if (old or is_marked(pod)) and not is_leaving(pod):
            leaving.append(Delete(target_of(pod)))
    if leaving:
        return list(leaving)
    status = counted(job, seen.pods.values())
    # That pods leave is said in this phase first, as people and programs wait to read it there.
    is_said = status.terminating == job.status.terminating
    if is_said and sum(task.replicas for task in job.spec.tasks) - status.terminating >= job.spec.min_available:
        reason = job.status.state.reason
        return list(write(job, changed(status, Change(PENDING, reason, job.status.state.message), job, now)))
    return list(write(job, status))


# -- making what is missing --------------------------------------------------------------------------------------


def _sync(seen: Observed, now: float, plugins: Mapping[str, JobPlugin], before: Job | None = None) -> list[Action]:
    """Ask for what is missing; `before` is the Job as it stands, where `seen` has a status that nobody has written."""
    job = seen.job
    resources = dict(job.status.controlled_resources)
    beside: list[Action] = []
    for name, plugin in plugins.items():
        is_new = f"{_PLUGIN}{name}" not in resources
        beside += plugin.objects(job, is_new=is_new)
        resources[f"{_PLUGIN}{name}"] = name
    for name, creation in claims(job):
        if creation is not None and f"{_CLAIM}{name}" not in resources:
            beside.append(creation)
        resources[f"{_CLAIM}{name}"] = name
    group = _group(seen)
    leaving = [Delete(target_of(pod)) for pod in _surplus(seen)]
    missing = list(_missing(seen, list(plugins.values())))
    status = replace_struct(counted(job, seen.pods.values()), controlled_resources=resources)
    change = next_phase(job, status)
    if change is not None:
        status = changed(status, change, job, now)
    told = [_tell(job, change)] if change is not None and change.phase in FINISHED else []
    return [*beside, *group, *leaving, *missing, *write(before or job, status), *told]


def _group(seen: Observed) -> list[Action]:
    """Make the PodGroup, bring it up to date, or take the one away that an older version of the Job had."""
    job, group = seen.job, seen.group
    if group is None:
        return [Create(group_document(job, seen.priorities))]
    if _is_old(group, job):
        return [Delete(target_of(group))]
    changes = difference(job, group, seen.priorities)
    return [Patch(target_of(group), changes)] if changes else []


def _is_old(group: PodGroup, job: Job) -> bool:
    text = group.metadata.annotations.get(JOB_VERSION, "")
    return text.isdecimal() and int(text) < job.status.version


def _surplus(seen: Observed) -> Iterator[Pod]:
    """Pods that nobody wants: beyond the replicas, marked, or made by an older version and still running."""
    names = {pod_name(seen.job, task, index) for task in seen.job.spec.tasks for index in range(task.replicas)}
    for name in sorted(seen.pods):
        pod = seen.pods[name]
        old = is_outdated(pod, seen.job) and not has_ended(pod)
        if not is_leaving(pod) and (name not in names or is_marked(pod) or old):
            yield pod


def _missing(seen: Observed, plugins: list[JobPlugin]) -> Iterator[Create]:
    group = seen.group
    if group is None or _is_old(group, seen.job) or group.status.phase in ("", "Pending"):
        return
    for task in seen.job.spec.tasks:
        absent = [index for index, pod in seen.pods_of(task) if pod is None]
        if absent and _may_start(seen, task):
            maker = PodMaker(seen.job, task, plugins)
            yield from (Create(maker.make(index)) for index in absent)


def _may_start(seen: Observed, task: JobTask) -> bool:
    """Whether the tasks before are far enough: all of them, or any."""
    if task.depends_on is None or not task.depends_on.name:
        return True
    by_name = {each.name: each for each in seen.job.spec.tasks}
    before = [by_name[name] for name in task.depends_on.name if name in by_name]
    has_begun = [_has_begun(seen, each) for each in before]
    return any(has_begun) if task.depends_on.iteration == "any" and len(before) > 1 else all(has_begun)


def _has_begun(seen: Observed, task: JobTask) -> bool:
    ready = sum(_is_ready(pod) for _, pod in seen.pods_of(task) if pod is not None)
    return ready >= least_of(task)


def _is_ready(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    return pod.status.phase == "Running" and all(each.ready for each in pod.status.container_statuses)


# -- when it ends ------------------------------------------------------------------------------------------------


def _stopped(seen: Observed, now: float, plugins: Mapping[str, JobPlugin]) -> Plan:
    """Let go of all that runs; what has ended stays to be read, until the time to live is over."""
    job = seen.job
    asked = _running(seen)
    actions: list[Action] = [Delete(target_of(seen.pods[name])) for name in asked]
    if seen.group is not None:
        actions.append(Delete(target_of(seen.group)))
    status = counted(job, seen.pods.values(), asked)
    told: list[Action] = []
    end = _STOPPED.get(seen.phase)
    if end is None:
        status, removed = _without_plugins(job, status, plugins)
        actions += removed
    elif not (status.terminating or status.pending or status.running):
        change = Change(end, job.status.state.reason, job.status.state.message)
        status = changed(status, change, job, now)
        told.append(_tell(job, change))
    return Plan((*actions, *write(job, status), *told, *_expire(job, now)), _expires_at(job))


def _running(seen: Observed) -> list[str]:
    """Pods that have not ended, and that nobody has asked to leave."""
    return sorted(name for name, pod in seen.pods.items() if not has_ended(pod) and not is_leaving(pod))


def _without_plugins(job: Job, status: JobStatus, plugins: Mapping[str, JobPlugin]) -> tuple[JobStatus, list[Action]]:
    """Take away what plugins made beside the pods; claims stay, as they hold what the Job has written."""
    left = dict(status.controlled_resources)
    removed: list[Action] = []
    for name, plugin in plugins.items():
        if left.pop(f"{_PLUGIN}{name}", None) is not None:
            removed += [Delete(target) for target in plugin.made(job)]
    return replace_struct(status, controlled_resources=left), removed


def _expires_at(job: Job) -> float | None:
    ended = job.status.state.last_transition_time
    ttl = job.spec.ttl_seconds_after_finished
    return None if job.status.state.phase not in FINISHED or ttl is None or ended is None else ended.timestamp() + ttl


def _expire(job: Job, now: float) -> list[Delete]:
    moment = _expires_at(job)
    return [Delete(target_of(job))] if moment is not None and moment <= now else []
