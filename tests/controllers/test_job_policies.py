"""Policies of tasks and Jobs: events, exit codes, timeouts, and every action."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from muster.controllers.contract import WriteStatus
from muster.controllers.jobs.observed import Observed
from muster.controllers.jobs.reconcile import reconcile
from tests.controllers.jobs_world import CONTAINERS, World, job_of, simple


def policy(text: str) -> str:
    return f"[{{{text}}}]"


def test_a_job_starts_anew_with_new_pods_and_a_new_group() -> None:
    world = World(simple(policies=policy("event: PodFailed, action: RestartJob")))
    world.start()
    before, old_group = world.pods, world.group
    world.set_pods("Failed", "train-w-1", code=3)
    status = world.job().status
    assert (status.state.phase, status.retry_count, status.version) == ("Restarting", 1, 1)
    assert (status.state.reason, status.state.message) == ("RestartJob", "pod train-w-1 failed with exit code 3")
    assert world.alive() == []
    told = [(each.reason, each.message) for each in world.controllers.told]
    assert told == [("ExecuteAction", "Start to execute action RestartJob: pod train-w-1 failed with exit code 3")]
    world.later(31.0)
    assert world.phase() == "Pending"
    assert world.group.metadata.uid != old_group.metadata.uid
    world.start()
    assert world.phase() == "Running"
    assert not {pod.metadata.uid for pod in before.values()} & {pod.metadata.uid for pod in world.pods.values()}
    assert {pod.metadata.annotations["volcano.sh/job-version"] for pod in world.pods.values()} == {"1"}
    assert {pod.metadata.annotations["volcano.sh/job-retry-count"] for pod in world.pods.values()} == {"1"}


def test_a_job_fails_when_it_has_started_anew_too_often() -> None:
    world = World(simple(maxRetry="2", policies=policy("event: PodFailed, action: RestartJob")))
    for _ in range(2):
        world.start()
        world.set_pods("Failed", "train-w-0")
        world.later(31.0)
    assert world.phase() == "Failed"
    assert "train-w-0" in world.pods  # what failed last stays to be read
    assert world.job().status.retry_count == 2


@pytest.mark.parametrize(
    ("action", "phase", "leaving"),
    [
        ("RestartJob", "Restarting", 3),
        ("RestartTask", "Restarting", 3),
        ("RestartPod", "Restarting", 1),
        ("AbortJob", "Aborting", 2),
        ("TerminateJob", "Terminating", 2),
        ("CompleteJob", "Completing", 2),
    ],
)
def test_the_status_with_the_new_phase_counts_who_is_asked_to_leave(action: str, phase: str, leaving: int) -> None:
    """Whoever watches the Job reads both at once: the pods may be gone before anybody looks again."""
    world = World(simple(policies=policy(f"event: PodFailed, action: {action}")))
    world.start()
    pods = world.pods
    pods["train-w-0"] = replace(pods["train-w-0"], status=replace(pods["train-w-0"].status, phase="Failed"))
    plan = reconcile(Observed(world.job(), pods, world.group), world.cluster.now(), {})
    [written] = [each for each in plan.actions if isinstance(each, WriteStatus)]
    assert (written.status["state"]["phase"], written.status["terminating"]) == (phase, leaving)


PARTITIONS = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train}}
spec:
  minAvailable: 4
  tasks:
  - name: w
    replicas: 4
    policies: [{{event: EVENT, action: ACTION}}]
    partitionPolicy: {{totalPartitions: 2, partitionSize: 2}}
    template: {{spec: {{{CONTAINERS}}}}}
  - name: other
    replicas: 1
    template: {{spec: {{{CONTAINERS}}}}}
"""
WHOM = {
    "RestartPod": {"train-w-1"},
    "RestartPartition": {"train-w-0", "train-w-1"},
    "RestartTask": {"train-w-0", "train-w-1", "train-w-2", "train-w-3"},
}


@pytest.mark.parametrize("action", WHOM)
@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted"])
def test_a_part_starts_anew_alone(action: str, event: str) -> None:
    world = World(job_of(PARTITIONS.replace("ACTION", action).replace("EVENT", event)))
    world.start()
    before, group = world.pods, world.group
    if event == "PodFailed":
        world.set_pods("Failed", "train-w-1")
    else:
        world.evict("train-w-1")
    assert world.job().status.retry_count == 1
    world.later(31.0)
    world.set_pods("Running")
    assert world.phase() == "Running"
    assert world.job().status.retry_count == 1
    renewed = {name for name, pod in world.pods.items() if pod.metadata.uid != before[name].metadata.uid}
    assert renewed == WHOM[action]
    assert world.group.metadata.uid == group.metadata.uid


def test_two_partitions_that_fail_together_count_as_one_try() -> None:
    world = World(job_of(PARTITIONS.replace("ACTION", "RestartPartition").replace("EVENT", "PodFailed")))
    world.start()
    before = world.pods
    world.set_pods("Failed", "train-w-1", "train-w-2")
    world.later(31.0)
    world.set_pods("Running")
    assert (world.phase(), world.job().status.retry_count) == ("Running", 1)
    same = {name for name, pod in world.pods.items() if pod.metadata.uid == before[name].metadata.uid}
    assert same == {"train-other-0"}


@pytest.mark.parametrize(
    ("action", "on_the_way", "end"),
    [
        ("AbortJob", "Aborting", "Aborted"),
        ("TerminateJob", "Terminating", "Terminated"),
        ("CompleteJob", "Completing", "Completed"),
    ],
)
def test_actions_that_end_a_job_leave_what_has_ended(action: str, on_the_way: str, end: str) -> None:
    world = World(simple(policies=policy(f"event: PodFailed, action: {action}")))
    world.start()
    world.set_pods("Failed", "train-w-1")
    assert world.phase() == on_the_way
    world.later(31.0)
    assert (world.phase(), world.alive()) == (end, ["train-w-1"])
    assert not list(world.cluster.store.all(type(World(simple("other")).group)))


def test_the_policy_of_the_task_comes_first() -> None:
    own = "policies: [{event: PodFailed, action: CompleteJob}]"
    world = World(simple(task=own, policies=policy("event: PodFailed, action: AbortJob")))
    world.start()
    world.set_pods("Failed", "train-w-1")
    assert world.phase() == "Completing"


def test_a_policy_for_an_exit_code() -> None:
    world = World(simple(policies="[{exitCode: 3, action: AbortJob}]"))
    world.start()
    world.set_pods("Failed", "train-w-1", code=2)
    assert world.phase() == "Running"
    world.set_pods("Failed", "train-w-2", code=3)
    assert world.phase() == "Aborting"


def test_several_events_in_one_policy_and_any_event() -> None:
    world = World(simple("a", policies="[{events: [PodEvicted, PodFailed], action: AbortJob}]"))
    world.start()
    world.set_pods("Failed", "a-w-1")
    assert world.phase("a") == "Aborting"
    world = World(simple("b", policies=policy("event: '*', action: TerminateJob")))
    world.let_in()
    assert world.phase("b") == "Pending"  # a pod that waits is an event only where a timeout is given
    world.set_pods("Running")
    world.evict("b-w-0")
    assert world.phase("b") == "Terminating"


def test_a_task_that_is_complete() -> None:
    world = World(simple(task="policies: [{event: TaskCompleted, action: CompleteJob}]", minAvailable="1"))
    world.start()
    world.set_pods("Succeeded", "train-w-0", "train-w-1")
    assert world.phase() == "Running"
    world.set_pods("Succeeded", "train-w-2")
    assert world.phase() in ("Completing", "Completed")


def test_a_task_whose_containers_restart_too_often() -> None:
    world = World(simple(task="policies: [{event: TaskFailed, action: TerminateJob}]"))
    world.start()
    world.set_pods("Running", "train-w-0", restarts=2)
    assert world.phase() == "Running"
    world.set_pods("Running", "train-w-1", restarts=1)
    assert world.phase() == "Terminating"


def test_a_group_that_nobody_knows_about() -> None:
    world = World(simple(policies=policy("event: Unknown, action: RestartJob")))
    world.start()
    world.let_in("Unknown")
    assert world.phase() == "Restarting"


def test_a_timeout_runs_from_the_event_and_not_from_when_it_was_seen() -> None:
    world = World(simple(policies=policy("event: PodPending, action: AbortJob, timeout: 5m")))
    world.let_in()
    world.later(200.0)
    world.restart_controller()
    world.turn()
    assert world.phase() == "Pending"
    assert world.cluster.next_event_at() == pytest.approx(1300.0)
    world.later(100.0)
    assert world.phase() in ("Aborting", "Aborted")


def test_a_pod_that_runs_in_time_is_no_event() -> None:
    world = World(simple(policies=policy("event: PodPending, action: AbortJob, timeout: 5m")))
    world.let_in()
    world.later(299.0)
    world.set_pods("Running")
    world.later(100.0)
    assert world.phase() == "Running"


@pytest.mark.parametrize("comes_back", [True, False])
def test_an_eviction_may_be_made_good_in_time(comes_back: bool) -> None:
    world = World(simple(policies=policy("event: PodEvicted, action: RestartJob, timeout: 10m")))
    world.start()
    world.evict("train-w-0")
    assert world.alive() == ["train-w-0", "train-w-1", "train-w-2"]
    world.later(599.0)
    if comes_back:
        world.set_pods("Running")
    world.later(2.0)
    assert world.job().status.retry_count == (0 if comes_back else 1)


# -- commands --------------------------------------------------------------------------------------------------


def test_a_job_is_suspended_and_resumed_and_keeps_what_it_has_done() -> None:
    world = World(simple())
    world.start()
    world.set_pods("Succeeded", "train-w-0")
    done = world.pods["train-w-0"].metadata.uid
    world.command("AbortJob")
    assert (world.phase(), world.commands()) == ("Aborting", [])
    world.later(31.0)
    assert (world.phase(), world.alive()) == ("Aborted", ["train-w-0"])
    world.command("ResumeJob", name="go-on")
    assert world.commands() == []
    world.let_in()
    world.set_pods("Running", "train-w-1", "train-w-2")
    assert (world.phase(), world.alive()) == ("Running", ["train-w-0", "train-w-1", "train-w-2"])
    assert world.pods["train-w-0"].metadata.uid == done
    assert world.job().status.retry_count == 1


def test_a_job_that_was_resumed_as_often_as_it_may_start_anew_fails() -> None:
    world = World(simple(maxRetry="2"))
    for number, phase in enumerate(("Running", "Failed"), 1):
        world.start()
        world.command("AbortJob", name=f"stop-{number}")
        world.later(31.0)
        world.command("ResumeJob", name=f"go-on-{number}")
        world.let_in()
        world.set_pods("Running")
        assert (world.phase(), world.job().status.retry_count) == (phase, number)


def test_what_was_done_before_a_pause_is_not_done_again_when_a_pod_starts_anew() -> None:
    world = World(simple(maxRetry="5", policies=policy("event: PodFailed, action: RestartPod")))
    world.start()
    world.set_pods("Succeeded", "train-w-0")
    done = world.pods["train-w-0"].metadata.uid
    world.command("AbortJob")
    world.later(31.0)
    world.command("ResumeJob", name="go-on")
    world.let_in()
    world.set_pods("Running", "train-w-1", "train-w-2")
    world.set_pods("Failed", "train-w-1")
    world.later(31.0)
    world.set_pods("Running", "train-w-1", "train-w-2")
    assert (world.phase(), world.pods["train-w-0"].metadata.uid) == ("Running", done)
    world.command("RestartJob", name="from-the-beginning")
    world.later(31.0)
    world.let_in()
    assert world.pods["train-w-0"].metadata.uid != done


def test_a_job_that_a_failure_aborted_does_not_abort_again_when_it_goes_on() -> None:
    world = World(simple(minAvailable="1", policies=policy("event: PodFailed, action: AbortJob")))
    world.start()
    world.set_pods("Failed", "train-w-1")
    world.later(31.0)
    world.command("ResumeJob")
    world.let_in()
    world.set_pods("Running", "train-w-0", "train-w-2")
    assert world.phase() == "Running"


def test_a_command_is_carried_out_once() -> None:
    world = World(simple())
    world.start()
    world.command("RestartJob")
    world.later(31.0)
    assert (world.job().status.version, world.commands()) == (1, [])


def test_a_command_to_a_job_that_has_ended_is_taken_away() -> None:
    world = World(simple())
    world.start()
    world.set_pods("Succeeded")
    world.command("ResumeJob")
    assert (world.phase(), world.commands()) == ("Completed", [])
