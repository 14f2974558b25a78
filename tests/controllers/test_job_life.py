"""The life of a Job from its making to its end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from muster.api import Condition, PodGroup, UserError
from muster.api.objects.batch import Job
from tests.controllers.jobs_world import CONTAINERS, World, job_of, simple

PARTITIONED = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train, labels: {{team: a}}, annotations: {{volcano.sh/preemptable: "true", note: mine}}}}
spec:
  minAvailable: 3
  queue: research
  priorityClassName: high
  networkTopology: {{mode: hard, highestTierAllowed: 2}}
  tasks:
  - name: task0
    replicas: 6
    partitionPolicy:
      totalPartitions: 2
      partitionSize: 3
      networkTopology: {{mode: hard, highestTierAllowed: 1}}
    template: {{metadata: {{labels: {{app: x}}}}, spec: {{{CONTAINERS}}}}}
  - name: task1
    replicas: 8
    partitionPolicy:
      totalPartitions: 4
      partitionSize: 2
      minPartitions: 2
    template: {{spec: {{{CONTAINERS}}}}}
"""


def test_the_pod_group_says_all_that_the_job_says() -> None:
    world = World(job_of(PARTITIONED))
    group = world.group
    uid = world.job().metadata.uid
    assert group.name == f"train-{uid}"
    assert group.metadata.labels == {"team": "a"}
    assert group.metadata.annotations["note"] == "mine"
    assert [(owner.kind, owner.name, owner.uid) for owner in group.metadata.owner_references] == [("Job", "train", uid)]
    spec = group.spec
    assert (spec.min_member, spec.queue, spec.priority_class_name) == (3, "research", "high")
    assert spec.min_task_member == {"task0": 6, "task1": 4}
    assert {name: str(amount) for name, amount in spec.min_resources.items()} == {
        "cpu": "3",
        "memory": "3Gi",
        "pods": "3",
        "requests.cpu": "3",
        "requests.memory": "3Gi",
        "count/pods": "3",
    }
    assert spec.network_topology is not None
    assert (spec.network_topology.mode, spec.network_topology.highest_tier_allowed) == ("hard", 2)
    first, second = spec.sub_group_policy
    assert (first.name, first.sub_group_size, first.min_sub_groups) == ("task0", 3, 0)
    assert first.label_selector is not None
    assert first.label_selector.match_labels == {"volcano.sh/task-spec": "task0"}
    assert first.match_label_keys == ["volcano.sh/partition-id"]
    assert first.network_topology is not None
    assert first.network_topology.highest_tier_allowed == 1
    assert (second.name, second.sub_group_size, second.min_sub_groups) == ("task1", 2, 2)
    assert second.network_topology is None


def test_pods_are_made_when_the_scheduler_lets_the_group_in() -> None:
    world = World(job_of(PARTITIONED))
    assert (world.phase(), world.pods) == ("Pending", {})
    world.let_in()
    assert len(world.pods) == 14
    pod = world.pods["train-task0-4"]
    labels = {key: pod.metadata.labels[key] for key in pod.metadata.labels}
    assert labels == {
        "app": "x",
        "volcano.sh/task-index": "4",
        "volcano.sh/task-spec": "task0",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/queue-name": "research",
        "volcano.sh/partition-id": "1",
    }
    assert pod.metadata.annotations == {
        "volcano.sh/task-index": "4",
        "volcano.sh/task-spec": "task0",
        "scheduling.k8s.io/group-name": world.group.name,
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "research",
        "volcano.sh/job-version": "0",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/template-uid": "train-task0",
        "volcano.sh/preemptable": "true",
    }
    assert (pod.spec.scheduler_name, pod.spec.priority_class_name) == ("volcano", "high")
    assert [world.pods[f"train-task1-{k}"].metadata.labels["volcano.sh/partition-id"] for k in range(8)] == list(
        "00112233"
    )


def test_a_job_runs_and_completes() -> None:
    world = World(simple())
    world.start()
    status = world.job().status
    assert (status.state.phase, status.running, status.min_available) == ("Running", 3, 3)
    assert status.task_status_count["w"].phase == {"Running": 3}
    world.later(90.0)
    world.set_pods("Succeeded")
    status = world.job().status
    assert (status.state.phase, status.succeeded, status.running) == ("Completed", 3, 0)
    assert [known.status for known in status.conditions] == ["Pending", "Running", "Completed"]
    assert status.running_duration == "90s"
    assert sorted(world.pods) == ["train-w-0", "train-w-1", "train-w-2"]  # they stay to be read
    assert not list(world.cluster.store.all(PodGroup))


@pytest.mark.parametrize(
    ("succeeding", "said"),
    [
        (["train-w-0", "train-w-2"], "2 pods of task w succeeded, 3 had to"),
        (["train-w-0"], "1 pod of task w succeeded, 3 had to"),
    ],
)
def test_pods_that_failed_without_a_policy_fail_the_job_in_the_end(succeeding: list[str], said: str) -> None:
    world = World(simple())
    world.start()
    world.set_pods("Failed", *(f"train-w-{n}" for n in range(3) if f"train-w-{n}" not in succeeding), code=2)
    assert world.phase() == "Running"
    world.set_pods("Succeeded", *succeeding)
    assert world.phase() == "Failed"
    assert world.job().status.state.message == said


def test_enough_successes_complete_a_job_and_the_rest_is_let_go() -> None:
    world = World(simple(minSuccess="1", minAvailable="1"))
    world.start()
    world.set_pods("Succeeded", "train-w-2")
    assert world.phase() == "Completed"
    assert world.alive() == ["train-w-2"]


def test_a_job_that_lost_its_minimum_is_pending_again() -> None:
    world = World(simple())
    world.start()
    world.evict("train-w-1")
    assert world.alive() == ["train-w-0", "train-w-1", "train-w-2"]
    assert world.phase() == "Pending"
    world.set_pods("Running")
    assert world.phase() == "Running"


def test_finished_jobs_go_when_their_time_is_over() -> None:
    world = World(simple(ttlSecondsAfterFinished="60"))
    world.start()
    world.set_pods("Succeeded")
    world.later(59.0)
    assert world.phase() == "Completed"
    assert world.cluster.next_event_at() == pytest.approx(1060.0)
    world.later(1.0)
    assert world.cluster.store.get(Job, "default/train") is None
    assert world.pods == {}


def test_a_running_job_grows_and_shrinks() -> None:
    world = World(simple(replicas=2))
    world.start()
    grown = simple(replicas=4, minAvailable="3")
    present = world.job()
    present.spec = grown.spec
    world.cluster.replace_object(present)
    world.turn()
    assert world.alive() == [f"train-w-{k}" for k in range(4)]
    assert (world.group.spec.min_member, world.group.spec.min_task_member) == (3, {"w": 4})
    assert str(world.group.spec.min_resources["cpu"]) == "3"
    world.set_pods("Running")
    present = world.job()
    present.spec = simple(replicas=1).spec
    world.cluster.replace_object(present)
    world.turn()
    assert world.alive() == ["train-w-0"]
    world.later(31.0)
    assert (world.phase(), world.job().status.running, world.job().status.retry_count) == ("Running", 1, 0)


def test_scaling_down_is_no_eviction() -> None:
    world = World(simple(replicas=2, policies="[{event: PodEvicted, action: RestartJob}]"))
    world.start()
    present = world.job()
    present.spec = simple(replicas=1, policies="[{event: PodEvicted, action: RestartJob}]").spec
    world.cluster.replace_object(present)
    world.later(31.0)
    assert (world.alive(), world.job().status.retry_count) == (["train-w-0"], 0)


DEPENDENT = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train}}
spec:
  minAvailable: 1
  tasks:
  - {{name: ps, replicas: 2, minAvailable: 1, template: {{spec: {{{0}}}}}}}
  - {{name: chief, replicas: 1, template: {{spec: {{{0}}}}}}}
  - name: worker
    replicas: 1
    dependsOn: {{name: [ps, chief], iteration: {1}}}
    template: {{spec: {{{0}}}}}
"""


@pytest.mark.parametrize(("iteration", "after_ps"), [("all", False), ("any", True)])
def test_a_task_starts_when_those_before_it_are_far_enough(iteration: str, after_ps: bool) -> None:
    world = World(job_of(DEPENDENT.format(CONTAINERS, iteration)))
    world.let_in()
    assert world.alive() == ["train-chief-0", "train-ps-0", "train-ps-1"]
    world.set_pods("Running", "train-ps-1")
    assert ("train-worker-0" in world.pods) is after_ps
    world.set_pods("Succeeded", "train-chief-0")
    assert "train-worker-0" in world.pods


def test_volumes_are_claimed_once_and_mounted_by_all() -> None:
    volumes = "[{mountPath: /in, volumeClaimName: data}, {mountPath: /out, volumeClaim: {storageClassName: fast}}]"
    world = World(simple(replicas=2, volumes=volumes))
    world.let_in()
    made = world.job().status.controlled_resources
    own = next(name for name in made.values() if name.startswith("train-pvc-"))
    assert made == {"volume-pvc-data": "data", f"volume-pvc-{own}": own}
    for pod in world.pods.values():
        claims = [each.persistent_volume_claim.claim_name for each in pod.spec.volumes if each.persistent_volume_claim]
        assert claims == ["data", own]
    claim = world.cluster.store.find("PersistentVolumeClaim", f"default/{own}")
    assert claim is not None
    assert claim.metadata.owner_references[0].name == "train"


def test_a_deleted_job_takes_everything_along() -> None:
    world = World(simple())
    world.start()
    world.cluster.delete(world.job())
    world.later(31.0)
    assert (world.pods, list(world.cluster.store.all(PodGroup))) == ({}, [])


def test_the_minimum_takes_what_its_pods_ask_for_the_most_important_first() -> None:
    text = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 3
  tasks:
  - {name: small, replicas: 4, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}
  - name: big
    replicas: 2
    template:
      spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: 10, nvidia.com/gpu: 1}}}]}
"""
    from muster.api import load_text

    world = World(*load_text(text).objects)
    amounts = {name: str(amount) for name, amount in world.group.spec.min_resources.items()}
    assert amounts == {
        "cpu": "21",
        "nvidia.com/gpu": "2",
        "pods": "3",
        "count/pods": "3",
        "requests.cpu": "21",
        "requests.nvidia.com/gpu": "2",
    }


def test_a_template_of_which_no_pod_can_be_made_is_told() -> None:
    broken = simple()
    broken.spec.tasks[0].template["spec"]["containers"] = "none"
    world = World(broken)
    with pytest.raises(UserError, match="containers"):
        world.let_in()


def test_the_minimum_says_what_pods_may_use_under_the_names_of_quotas() -> None:
    text = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  tasks:
  - name: w
    replicas: 2
    template:
      spec:
        initContainers: [{name: i, resources: {limits: {cpu: 3}}}]
        containers:
        - {name: a, resources: {requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi, nvidia.com/gpu: 1}}}
        - {name: b, resources: {requests: {cpu: 1}}}
"""
    from muster.api import load_text

    amounts = {name: str(amount) for name, amount in World(*load_text(text).objects).group.spec.min_resources.items()}
    limits = {name: amount for name, amount in amounts.items() if name.startswith("limits.")}
    assert limits == {"limits.cpu": "6", "limits.memory": "2Gi"}


def test_a_job_says_once_why_its_gang_waits() -> None:
    world = World(simple())
    for _ in range(2):
        group = world.group
        condition = Condition(type="Unschedulable", status="True", message="3 of 4 pods fit")
        world.cluster.replace_object(replace(group, status=replace(group.status, conditions=[condition])))
        world.turn()
    told = [(each.reason, each.message) for each in world.controllers.told if each.is_warning]
    assert told == [("PodGroupPending", "PodGroup default/train unschedulable: 3 of 4 pods fit")]


def test_a_job_of_two_thousand_million_pods_costs_nobody_else_anything() -> None:
    world = World(simple("huge", replicas=2**31 - 1), simple("train"))
    world.let_in()
    world.turn()
    assert len(world.alive()) == 3
    [told] = [each for each in world.controllers.told if each.reason == "JobNotServed"]
    assert "expected at most 150000 replicas" in told.message


def test_counts_alone_wait_for_more_of_them_and_a_new_phase_does_not() -> None:
    world = World(simple(minAvailable="2"), hold_s=1.0)
    world.let_in()
    world.later(1.0)
    assert world.job().status.pending == 3
    world.set_pods("Running", "train-w-0")
    assert (world.phase(), world.job().status.running) == ("Pending", 0)
    world.set_pods("Running", "train-w-1")  # enough of them
    assert (world.phase(), world.job().status.running) == ("Running", 2)
    world.set_pods("Running", "train-w-2")
    world.later(0.5)
    assert world.job().status.running == 2
    world.set_pods("Succeeded", "train-w-0")
    world.later(0.5)
    status = world.job().status
    assert (status.running, status.succeeded) == (2, 1)
    world.set_pods("Succeeded")
    assert (world.phase(), world.job().status.succeeded) == ("Completed", 3)
