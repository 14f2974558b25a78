"""Every kind of the table: how many of its pods start together, in which roles."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from muster.api import KaiPodGroup, PodGroup
from muster.controllers.contract import Action, Delete, Fetch
from muster.controllers.grouping.controller import GroupingController
from tests.controllers.grouping_world import POD, TEMPLATE, GroupingWorld

KUBEFLOW = "apiVersion: kubeflow.org/v1\nmetadata: {name: t}\n"
RAY = f"""
    headGroupSpec: {{{TEMPLATE}}}
    workerGroupSpecs:
    - {{groupName: small, replicas: 2, {TEMPLATE}}}
    - {{groupName: big, replicas: 3, minReplicas: 1, numOfHosts: 2, {TEMPLATE}}}
    - {{groupName: later, replicas: 0, {TEMPLATE}}}
"""

#: A manifest, and for each group: minimum, minimum of each role, number of pods.
CASES: dict[str, tuple[str, list[tuple[int, dict[str, int], int]]]] = {
    "ReplicaSet": (
        f"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: t}}\nspec: {{replicas: 3, {TEMPLATE}}}",
        [(1, {}, 3)],
    ),
    "Deployment": (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: t}}\nspec: {{replicas: 3, {TEMPLATE}}}",
        [(1, {}, 3)],
    ),
    "Deployment with a minimum": (
        (
            "apiVersion: apps/v1\nkind: Deployment\n"
            'metadata: {name: t, annotations: {scheduling.volcano.sh/group-min-member: "2"}}\n'
            f"spec: {{replicas: 3, {TEMPLATE}}}"
        ),
        [(2, {}, 3)],
    ),
    "StatefulSet": (
        (
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: t}\n"
            f"spec: {{replicas: 3, podManagementPolicy: Parallel, {TEMPLATE}}}"
        ),
        [(1, {}, 3)],
    ),
    "Job": (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: t}}\nspec: {{parallelism: 2, completions: 4, {TEMPLATE}}}",
        [(1, {}, 2)],
    ),
    "Job, indexed": (
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: t}\n"
            f"spec: {{parallelism: 3, completions: 3, completionMode: Indexed, {TEMPLATE}}}"
        ),
        [(1, {}, 3)],
    ),
    "PyTorchJob": (
        KUBEFLOW + "kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n"
        f"    Master: {{replicas: 1, {TEMPLATE}}}\n    Worker: {{replicas: 3, {TEMPLATE}}}",
        [(4, {"master": 1, "worker": 3}, 4)],
    ),
    "PyTorchJob, elastic": (
        KUBEFLOW + "kind: PyTorchJob\nspec:\n  elasticPolicy: {minReplicas: 2}\n  pytorchReplicaSpecs:\n"
        f"    Worker: {{replicas: 5, {TEMPLATE}}}",
        [(2, {"worker": 2}, 5)],
    ),
    "PyTorchJob with a minimum": (
        KUBEFLOW + "kind: PyTorchJob\nspec:\n  runPolicy: {schedulingPolicy: {minAvailable: 3}}\n"
        f"  pytorchReplicaSpecs:\n    Master: {{replicas: 1, {TEMPLATE}}}\n    Worker: {{replicas: 5, {TEMPLATE}}}",
        [(3, {"master": 1, "worker": 2}, 6)],
    ),
    "TFJob": (
        KUBEFLOW + "kind: TFJob\nspec:\n  tfReplicaSpecs:\n"
        f"    Chief: {{replicas: 1, {TEMPLATE}}}\n    PS: {{replicas: 2, {TEMPLATE}}}\n"
        f"    Worker: {{replicas: 3, {TEMPLATE}}}",
        [(6, {"chief": 1, "ps": 2, "worker": 3}, 6)],
    ),
    "XGBoostJob": (
        KUBEFLOW + "kind: XGBoostJob\nspec:\n  xgbReplicaSpecs:\n"
        f"    Master: {{replicas: 1, {TEMPLATE}}}\n    Worker: {{replicas: 2, {TEMPLATE}}}",
        [(3, {"master": 1, "worker": 2}, 3)],
    ),
    "PaddleJob": (
        KUBEFLOW + f"kind: PaddleJob\nspec:\n  paddleReplicaSpecs:\n    Worker: {{replicas: 2, {TEMPLATE}}}",
        [(2, {"worker": 2}, 2)],
    ),
    "JAXJob": (
        KUBEFLOW + f"kind: JAXJob\nspec:\n  jaxReplicaSpecs:\n    Worker: {{replicas: 2, {TEMPLATE}}}",
        [(2, {"worker": 2}, 2)],
    ),
    "MPIJob": (
        KUBEFLOW + "kind: MPIJob\nspec:\n  mpiReplicaSpecs:\n"
        f"    Launcher: {{replicas: 1, {TEMPLATE}}}\n    Worker: {{replicas: 2, {TEMPLATE}}}",
        [(3, {"launcher": 1, "worker": 2}, 3)],
    ),
    "MPIJob whose launcher comes later": (
        KUBEFLOW + "kind: MPIJob\nspec:\n  launcherCreationPolicy: WaitForWorkersReady\n  mpiReplicaSpecs:\n"
        f"    Launcher: {{replicas: 1, {TEMPLATE}}}\n    Worker: {{replicas: 2, {TEMPLATE}}}",
        [(2, {"worker": 2}, 2)],
    ),
    "RayCluster": (
        f"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {{name: t}}\nspec: {RAY}",
        [(5, {"headgroup": 1, "small": 2, "big": 2}, 9)],
    ),
    "RayJob": (
        f"apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {{name: t}}\nspec:\n  rayClusterSpec: {RAY}",
        [(5, {"headgroup": 1, "small": 2, "big": 2}, 9)],
    ),
    "RayService": (
        f"apiVersion: ray.io/v1\nkind: RayService\nmetadata: {{name: t}}\nspec:\n  rayClusterConfig: {RAY}",
        [(5, {"headgroup": 1, "small": 2, "big": 2}, 9)],
    ),
    "RayCronJob": (
        (
            "apiVersion: ray.io/v1\nkind: RayCronJob\nmetadata: {name: t, creationTimestamp: '1970-01-01T00:15:00Z'}\n"
            "spec:\n  schedule: '* * * * *'\n  jobTemplate:\n    rayClusterSpec: "
            f"{RAY.replace(chr(10), chr(10) + '  ')}"
        ),
        [(5, {"headgroup": 1, "small": 2, "big": 2}, 9)],
    ),
    "JobSet": (
        (
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: t}\nspec:\n  replicatedJobs:\n"
            f"  - {{name: driver, template: {{spec: {{{TEMPLATE}}}}}}}\n"
            f"  - {{name: workers, replicas: 2, template: {{spec: {{parallelism: 4, completions: 3, {TEMPLATE}}}}}}}"
        ),
        [(6, {"workers": 6}, 6), (1, {"driver": 1}, 1)],
    ),
    "JobSet in any order": (
        (
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: t}\nspec:\n"
            "  startupPolicy: {startupPolicyOrder: AnyOrder}\n  replicatedJobs:\n"
            f"  - {{name: driver, template: {{spec: {{{TEMPLATE}}}}}}}\n"
            f"  - {{name: workers, replicas: 2, template: {{spec: {{parallelism: 3, {TEMPLATE}}}}}}}"
        ),
        [(7, {"driver": 1, "workers": 6}, 7)],
    ),
    "TrainJob": (
        (
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\n"
            "spec: {runtimeRef: {name: torch}, trainer: {numNodes: 3}}"
        ),
        [(3, {"node": 3}, 3)],
    ),
    "LeaderWorkerSet": (
        (
            "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: t}\n"
            f"spec: {{replicas: 2, leaderWorkerTemplate: {{size: 4, workerTemplate: {{{POD}}}}}}}"
        ),
        [(4, {"leader": 1, "workers": 3}, 4), (4, {"leader": 1, "workers": 3}, 4)],
    ),
    "LeaderWorkerSet whose leader is first": (
        (
            "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: t}\n"
            "spec: {replicas: 1, startupPolicy: LeaderReady, "
            f"leaderWorkerTemplate: {{size: 4, workerTemplate: {{{POD}}}}}}}"
        ),
        [(1, {"leader": 1}, 1)],
    ),
    "SparkApplication": (
        (
            "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: t}\n"
            "spec: {type: Scala, driver: {cores: 1, memory: 512m}, executor: {instances: 2, cores: 1, memory: 512m}}"
        ),
        [(1, {}, 1)],
    ),
    "Knative Service": (
        (
            "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: t}\nspec:\n  template:\n"
            f'    metadata: {{annotations: {{autoscaling.knative.dev/min-scale: "2"}}}}\n    {POD}'
        ),
        [(2, {}, 2)],
    ),
    "PodCliqueSet": (
        (
            "apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {name: t}\n"
            "spec:\n  replicas: 1\n  template:\n    cliques:\n"
            f"    - {{name: prefill, spec: {{replicas: 2, minAvailable: 1, podSpec: {POD.removeprefix('spec: ')}}}}}\n"
            f"    - {{name: decode, spec: {{replicas: 3, podSpec: {POD.removeprefix('spec: ')}}}}}"
        ),
        [(4, {"t-0-prefill": 1, "t-0-decode": 3}, 5)],
    ),
    "Notebook": (
        f"apiVersion: kubeflow.org/v1\nkind: Notebook\nmetadata: {{name: t}}\nspec: {{{TEMPLATE}}}",
        [(1, {}, 1)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_is_grouped_by_its_own_fields(name: str) -> None:
    text, wanted = CASES[name]
    found = GroupingWorld(text).grouped()
    assert [(each.minimum, each.roles, len(each.pods)) for each in found] == wanted
    for each in found:
        assert set(each.roles) <= set(each.pods.values()) or not each.roles


@pytest.mark.parametrize("name", CASES)
def test_looking_again_makes_nothing_twice(name: str) -> None:
    world = GroupingWorld(CASES[name][0])
    before = world.grouped(), set(world.pods), set(world.groups)
    for _ in range(3):
        world.restart()
    assert (world.grouped(), set(world.pods), set(world.groups)) == before


def test_a_part_that_comes_later_joins_the_group_and_counts_from_then_on() -> None:
    world = GroupingWorld(CASES["MPIJob whose launcher comes later"][0])
    world.set_pods("Running")
    [group] = world.grouped()
    assert (group.minimum, group.roles) == (3, {"launcher": 1, "worker": 2})
    assert set(group.pods) == {"t-launcher", "t-worker-0", "t-worker-1"}
    world = GroupingWorld(CASES["LeaderWorkerSet whose leader is first"][0])
    world.set_pods("Running")
    [group] = world.grouped()
    assert (group.minimum, group.roles) == (4, {"leader": 1, "workers": 3})


def test_executors_are_grouped_with_their_driver() -> None:
    world = GroupingWorld(CASES["SparkApplication"][0])
    world.set_pods("Running")
    [group] = world.grouped()
    assert set(group.pods) == {"t-driver", "t-exec-1", "t-exec-2"}


def _kai(text: str, labels: str = "kai.scheduler/queue: team") -> str:
    return text.replace("{name: t", f"{{name: t, labels: {{{labels}}}", 1)


#: For pods of KAI's users: the priority class, and groups as above.
KAI_CASES: dict[str, tuple[str, list[tuple[int, int]]]] = {
    "Deployment": ("inference", [(1, 1), (1, 1), (1, 1)]),
    "Job": ("train", [(1, 1), (1, 1)]),
    "StatefulSet": ("train", [(1, 3)]),
    "PyTorchJob": ("train", [(4, 4)]),
    "Notebook": ("build", [(1, 1)]),
    "Knative Service": ("inference", [(2, 2)]),
    "LeaderWorkerSet": ("train", [(4, 4), (4, 4)]),
    "TrainJob": ("train", [(3, 3)]),
}


@pytest.mark.parametrize("label", ["kai.scheduler/queue", "runai/queue"])
@pytest.mark.parametrize("name", KAI_CASES)
def test_kais_users_get_kais_groups_with_its_classes(name: str, label: str) -> None:
    priority, wanted = KAI_CASES[name]
    world = GroupingWorld(_kai(CASES[name][0], f"{label}: team"))
    assert all(isinstance(group, KaiPodGroup) for group in world.groups.values())
    found = world.grouped()
    assert [(each.minimum, len(each.pods)) for each in found] == wanted
    assert {(each.queue, each.priority) for each in found} == {("team", priority)}


def test_pods_of_a_job_start_together_where_it_says_how_many() -> None:
    annotated = "{name: t, annotations: {kai.scheduler/batch-min-member: '2'}}"
    world = GroupingWorld(CASES["Job, indexed"][0].replace("{name: t}", annotated))
    [found] = world.grouped()
    assert (found.minimum, len(found.pods)) == (2, 3)
    [group] = world.groups.values()
    assert isinstance(group, KaiPodGroup)
    assert group.metadata.owner_references[0].kind == "Job"


def test_times_to_wait_on_pods_are_those_of_their_gang_unless_the_owner_says_otherwise() -> None:
    marks = "annotations: {kai.scheduler/preemption-delay: 1m, kai.scheduler/staleness-grace-period: 5s}"
    template = TEMPLATE.replace("template: {", f"template: {{metadata: {{{marks}}}, ")
    text = CASES["StatefulSet"][0].replace(TEMPLATE, template)
    [group] = GroupingWorld(_kai(text)).groups.values()
    assert group.metadata.annotations["kai.scheduler/preemption-delay"] == "1m"
    assert group.metadata.annotations["kai.scheduler/staleness-grace-period"] == "5s"
    owned = text.replace("{name: t", "{name: t, annotations: {kai.scheduler/preemption-delay: 3m}", 1)
    [group] = GroupingWorld(owned).groups.values()
    assert group.metadata.annotations["kai.scheduler/preemption-delay"] == "3m"


def test_the_word_of_the_owner_comes_before_that_of_the_pod() -> None:
    labels = "kai.scheduler/queue: a, priorityClassName: build, kai.scheduler/preemptibility: preemptible"
    world = GroupingWorld(_kai(CASES["PyTorchJob"][0], labels))
    [group] = world.groups.values()
    assert isinstance(group, KaiPodGroup)
    assert (group.spec.queue, group.spec.priority_class_name, group.spec.preemptibility) == (
        "a",
        "build",
        "preemptible",
    )


def test_a_class_that_does_not_exist_is_passed_over() -> None:
    world = GroupingWorld(_kai(CASES["PyTorchJob"][0], "kai.scheduler/queue: a, priorityClassName: nonsense"))
    assert [each.priority for each in world.grouped()] == ["train"]


def test_topology_levels_of_annotations_become_constraints() -> None:
    text = CASES["PyTorchJob"][0].replace(
        "{name: t}",
        "{name: t, annotations: {kai.scheduler/topology: net, kai.scheduler/topology-required-placement: rack}}",
    )
    [group] = GroupingWorld(text).groups.values()
    assert isinstance(group, KaiPodGroup)
    constraint = group.spec.topology_constraint
    assert constraint is not None
    assert (constraint.topology, constraint.required_topology_level) == ("net", "rack")


SEGMENTED: dict[str, tuple[str, dict[str, tuple[int, str | None]]]] = {
    "PyTorchJob": (
        KUBEFLOW + "kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n"
        f"    Master: {{replicas: 1, {TEMPLATE}}}\n    Worker:\n      replicas: 5\n      template:\n"
        '        metadata: {annotations: {kai.scheduler/segment-size: "2", kai.scheduler/topology: net, '
        f"kai.scheduler/segment-topology-required-placement: rack}}}}\n        {POD}",
        {
            "master": (1, None),
            "worker": (5, None),
            "worker-0": (2, "worker"),
            "worker-1": (2, "worker"),
            "worker-2": (1, "worker"),
        },
    ),
    "LeaderWorkerSet": (
        (
            "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n"
            "metadata: {name: t, labels: {kai.scheduler/queue: a}}\n"
            "spec: {replicas: 1, leaderWorkerTemplate: {size: 5, subGroupPolicy: {subGroupSize: 2}, "
            f"workerTemplate: {{{POD}}}}}}}"
        ),
        {
            "leader": (1, "segment-0"),
            "segment-0": (0, None),
            "workers": (2, "segment-0"),
            "segment-1": (2, None),
        },
    ),
}


@pytest.mark.parametrize("name", SEGMENTED)
def test_segments_are_parts_of_their_own(name: str) -> None:
    text, wanted = SEGMENTED[name]
    world = GroupingWorld(text)
    [group] = world.groups.values()
    assert isinstance(group, KaiPodGroup)
    assert {each.name: (each.min_member, each.parent) for each in group.spec.sub_groups} == wanted
    leaves = set(wanted) - {parent for _, parent in wanted.values()}
    assert set(world.grouped()[0].pods.values()) == leaves


def test_one_owner_above_passes_its_labels_on_and_does_not_count() -> None:
    pods = f"""
apiVersion: v1
kind: Pod
metadata:
  name: step-1
  ownerReferences: [{{apiVersion: argoproj.io/v1alpha1, kind: Workflow, name: flow, uid: u1, controller: true}}]
{POD}
"""
    world = GroupingWorld(pods, pods.replace("step-1", "step-2"))
    assert [(each.minimum, len(each.pods)) for each in world.grouped()] == [(1, 1), (1, 1)]


def test_an_owner_that_is_not_there_counts_as_far_as_the_reference_tells() -> None:
    pod = f"""
apiVersion: v1
kind: Pod
metadata:
  name: w-0
  ownerReferences: [{{apiVersion: example.com/v1, kind: Mystery, name: m, uid: u1, controller: true}}]
{POD}
"""
    world = GroupingWorld(pod, pod.replace("w-0", "w-1"))
    assert [(each.minimum, len(each.pods)) for each in world.grouped()] == [(1, 2)]
    [told] = world.controllers.told
    assert told.reason == "OwnerNotRead"
    assert "Mystery default/m is not there" in told.message


def test_pods_that_name_a_group_are_left_alone() -> None:
    pod = f"""
apiVersion: v1
kind: Pod
metadata:
  name: w-0
  annotations: {{scheduling.k8s.io/group-name: mine}}
  ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: m, uid: u1, controller: true}}]
{POD}
"""
    assert GroupingWorld(pod).groups == {}


def test_lone_pods_get_a_group_of_their_own_where_that_is_asked_for() -> None:
    pod = (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{scheduling.volcano.sh/queue-name: q}}}}\n{POD}"
    )
    assert GroupingWorld(pod).groups == {}
    [group] = GroupingWorld(pod, lone=True).groups.values()
    assert isinstance(group, PodGroup)
    assert (group.spec.min_member, group.spec.queue) == (1, "q")
    assert {name: amount.text for name, amount in group.spec.min_resources.items()} == {"cpu": "1"}


def test_a_cluster_with_queues_of_kai_alone_has_its_groups() -> None:
    queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: default-queue}\nspec: {}"
    [group] = GroupingWorld(queue, CASES["ReplicaSet"][0]).groups.values()
    assert isinstance(group, KaiPodGroup)
    assert group.spec.queue == "default-queue"


def test_a_group_follows_its_owner() -> None:
    world = GroupingWorld(CASES["PyTorchJob"][0])
    before: Any = world.cluster.store.find("PyTorchJob", "default/t")
    specs = before.spec["pytorchReplicaSpecs"]
    changed = {"pytorchReplicaSpecs": {**specs, "Worker": {**specs["Worker"], "replicas": 5}}}
    before.spec = changed
    world.cluster.replace_object(before)
    world.cluster.poll()
    [group] = world.grouped()
    assert (group.minimum, group.roles, len(group.pods)) == (6, {"master": 1, "worker": 5}, 6)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_the_group_of_a_set_that_wants_no_pods_goes_and_comes_again(kind: str) -> None:
    world = GroupingWorld(CASES[kind][0])
    [before] = world.groups
    for restarts in (False, True):
        _scale(world, kind, 0)
        if restarts:
            world.restart()
        assert (world.pods, world.groups) == ({}, {})
        _scale(world, kind, 2)
        [group] = world.grouped()
        assert (list(world.groups), len(group.pods)) == ([before], 2)


def test_a_group_without_pods_stays_while_its_set_wants_some() -> None:
    world = GroupingWorld(CASES["ReplicaSet"][0])
    world.restart()
    [group] = world.groups
    for pod in world.pods.values():
        world.cluster.remove(pod)
    world.cluster.poll()
    assert list(world.groups) == [group]


def test_a_set_whose_pods_no_status_told_of_is_looked_at_again_until_it_wants_none() -> None:
    """As on a cluster, where owners are asked for: the last pod may be gone before the scheduler writes that it ran."""
    [group] = GroupingWorld(CASES["ReplicaSet"][0]).groups.values()
    assert isinstance(group, PodGroup)
    uid = group.metadata.owner_references[0].uid
    controller = GroupingController()

    def asked(now: float, replicas: int) -> list[Action]:
        """What is done at a moment, when the owner is asked for and answers."""
        done: list[Action] = []
        while steps := list(controller.steps(now)):
            for step in steps:
                for action in step.plan.actions:
                    if isinstance(action, Fetch):
                        action.answer({"metadata": {"uid": uid}, "spec": {"replicas": replicas}}, "")
                    done.append(action)
                controller.settle(step.key, now)
        return done

    controller.take("ADDED", group, 1000.0)
    assert [type(action) for action in asked(1000.0, 3)] == [Fetch]
    assert asked(1001.0, 0) == [], "not at every moment"
    assert [type(action) for action in asked(1060.0, 3)] == [Fetch]
    assert [type(action) for action in asked(1120.0, 0)] == [Fetch, Delete]
    controller.take("DELETED", group, 1120.0)
    assert controller.agenda.next_due() is None
    runs = replace(group.status, running=1)
    controller.take("ADDED", group, 1200.0)
    asked(1200.0, 3)
    controller.take("MODIFIED", replace(group, status=runs), 1201.0)
    assert asked(1300.0, 0) == [], "what runs is told of"


def _scale(world: GroupingWorld, kind: str, replicas: int) -> None:
    owner: Any = world.cluster.store.find(kind, "default/t")
    owner.spec = {**owner.spec, "replicas": replicas}
    world.cluster.replace_object(owner)
    world.cluster.poll()
