import numpy as np
import pytest

from muster.api import KubeObject
from muster.framework import JobVerdict, PluginOption, SchedulerConfig, Session
from muster.framework.reasons import INSUFFICIENT
from muster.scheduler import builtin_registry
from muster.scheduler.job_statuses import (
    is_only_leaving,
    job_statuses,
    leaving_count,
    phase_after,
    scheduled_count,
    unschedulable_jobs,
    verdict_text,
)
from muster.snapshot import JobPhase, Mirror, Rows, TaskStatus
from muster.testing import node, pod, pod_group

P, B, R, S, F = TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED


def row(*statuses: TaskStatus) -> Rows:
    counts: Rows = np.zeros(12, np.intp)
    for status in statuses:
        counts[status] += 1
    return counts


@pytest.mark.parametrize(
    ("before", "minimum", "statuses", "leaving", "expected"),
    [
        (JobPhase.PENDING, 2, (P, P), 0, JobPhase.PENDING),
        (JobPhase.INQUEUE, 2, (P, P), 0, JobPhase.INQUEUE),
        (JobPhase.INQUEUE, 2, (TaskStatus.ALLOCATED, TaskStatus.ALLOCATED), 0, JobPhase.INQUEUE),
        (JobPhase.INQUEUE, 2, (B, B), 0, JobPhase.RUNNING),
        (JobPhase.INQUEUE, 2, (R, S), 0, JobPhase.RUNNING),
        (JobPhase.RUNNING, 2, (S, S), 0, JobPhase.COMPLETED),
        (JobPhase.RUNNING, 2, (S, F), 0, JobPhase.COMPLETED),
        (JobPhase.RUNNING, 2, (S, R), 0, JobPhase.RUNNING),
        (JobPhase.RUNNING, 1, (TaskStatus.RELEASING,), 1, JobPhase.RUNNING),
        (JobPhase.RUNNING, 2, (R, P), 0, JobPhase.PENDING),
        (JobPhase.RUNNING, 2, (P, P), 0, JobPhase.PENDING),
        (JobPhase.RUNNING, 3, (S,), 0, JobPhase.COMPLETED),
        (JobPhase.UNKNOWN, 3, (F,), 0, JobPhase.COMPLETED),
        (JobPhase.COMPLETED, 3, (S,), 0, JobPhase.COMPLETED),
        (JobPhase.INQUEUE, 3, (S,), 0, JobPhase.INQUEUE),
        (JobPhase.RUNNING, 3, (S, P), 0, JobPhase.PENDING),
        (JobPhase.RUNNING, 3, (S, TaskStatus.RELEASING), 1, JobPhase.PENDING),
        (JobPhase.INQUEUE, 0, (), 0, JobPhase.INQUEUE),
        (JobPhase.PENDING, 0, (P,), 0, JobPhase.PENDING),
    ],
)
def test_the_phase_follows_from_the_counters(
    before: JobPhase, minimum: int, statuses: tuple[TaskStatus, ...], leaving: int, expected: JobPhase
) -> None:
    assert phase_after(before, minimum, row(*statuses), leaving, unschedulable=False) is expected


def test_a_gang_that_lost_members_while_others_run_is_unknown() -> None:
    assert phase_after(JobPhase.RUNNING, 2, row(R, P), 0, unschedulable=True) is JobPhase.UNKNOWN
    assert phase_after(JobPhase.RUNNING, 2, row(B, P), 0, unschedulable=True) is JobPhase.PENDING


def test_scheduled_tasks_run_ran_or_are_about_to() -> None:
    assert scheduled_count(row(R, B, F, S, P, TaskStatus.RELEASING)) == 4


def test_a_task_leaving_without_a_node_does_not_count() -> None:
    status = np.array([TaskStatus.RELEASING, TaskStatus.RELEASING, R], np.int8)
    assert leaving_count(status, np.array([3, -1, 1], np.intp)) == 1


@pytest.mark.parametrize(
    ("minimum", "statuses", "nodes", "expected"),
    [
        (2, (R, TaskStatus.RELEASING), (1, 2), True),
        (2, (R, TaskStatus.RELEASING, P), (1, 2, -1), False),
        (2, (R, TaskStatus.RELEASING, TaskStatus.PIPELINED), (1, 2, 3), False),
        (1, (TaskStatus.RELEASING,), (-1,), False),
        (3, (R, TaskStatus.RELEASING), (1, 2), False),
    ],
)
def test_a_gang_that_only_ends_is_not_unschedulable(
    minimum: int, statuses: tuple[TaskStatus, ...], nodes: tuple[int, ...], expected: bool
) -> None:
    assert is_only_leaving(minimum, np.array(statuses, np.int8), np.array(nodes, np.intp)) is expected


def session_of(*objects: KubeObject) -> Session:
    mirror = Mirror()
    for thing in objects:
        mirror.upsert(thing)
    config = SchedulerConfig(actions=(), tiers=((PluginOption("gang"),),))
    return Session(mirror.snapshot(), config, builtin_registry())


def test_unschedulable_jobs_carry_the_verdict_on_record() -> None:
    session = session_of(node("n1"), pod_group("g", minimum=2), pod("g-0", group="g"), pod("g-1", group="g", cpu=1))
    job = session.snapshot.jobs.index["default/g"]
    verdict = JobVerdict(INSUFFICIENT, "short of 2 GPUs")
    session.record(job, verdict)
    assert unschedulable_jobs(session, [job]) == {job: verdict}
    assert verdict_text(verdict) == "insufficient-resources: lack free resources (short of 2 GPUs)"


def test_a_gang_that_is_ending_is_left_out() -> None:
    leaving = pod("g-1", group="g", node="n1")
    leaving.metadata.deletion_timestamp = pod("x", created=5.0).metadata.creation_timestamp
    session = session_of(node("n1"), pod_group("g", minimum=2), pod("g-0", group="g", node="n1"), leaving)
    job = session.snapshot.jobs.index["default/g"]
    assert unschedulable_jobs(session, [job]) == {}
    status = job_statuses(session, [job], {})[job]
    assert (status.phase, status.running, status.pending) == (JobPhase.RUNNING, 1, 0)


@pytest.mark.parametrize(("phase", "waiting"), [("Running", 0), ("Inqueue", 1)])
def test_a_gang_of_which_only_ended_pods_are_left_waits_for_nothing_once_it_ran(phase: str, waiting: int) -> None:
    done = pod("g-0", group="g", phase="Succeeded")
    session = session_of(node("n1"), pod_group("g", minimum=3, phase=phase), done)
    assert len(unschedulable_jobs(session, [session.snapshot.jobs.index["default/g"]])) == waiting
