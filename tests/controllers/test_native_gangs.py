"""Gangs of Kubernetes itself: PodGroups of scheduling.k8s.io, and Workloads of 1.35."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.api import KaiPodGroup, PodGroup, Topology, load_text
from muster.cluster import MemoryCluster
from muster.cluster.timeline import parse_timeline
from muster.controllers.contract import Action, Create, Fetch, Patch, Tell
from muster.controllers.grouping.controller import GroupingController
from muster.controllers.grouping.families import Family
from muster.framework.profiles import profile
from muster.simulate import simulate
from muster.snapshot.messages import Evict
from tests.controllers.grouping_world import GroupingWorld

VERSIONS = {
    "scheduling.k8s.io/v1alpha2": "PodGroupScheduled",
    "scheduling.k8s.io/v1beta1": "PodGroupInitiallyScheduled",
}
CONTAINERS = "containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]"


def group(version: str, policy: str = "gang: {minCount: 3}", more: str = "") -> str:
    return f"""
apiVersion: {version}
kind: PodGroup
metadata: {{name: train}}
spec: {{schedulingPolicy: {{{policy}}}{more}}}
"""


def pods(count: int, field: str = "schedulingGroup: {podGroupName: train}") -> str:
    return "---".join(
        f"\napiVersion: v1\nkind: Pod\nmetadata: {{name: p-{n}}}\nspec: {{{field}, {CONTAINERS}}}\n"
        for n in range(count)
    )


def nodes(cpus: int, labels: str = "") -> str:
    meta = f"name: n1, labels: {{{labels}}}" if labels else "name: n1"
    return f"\napiVersion: v1\nkind: Node\nmetadata: {{{meta}}}\nstatus: {{allocatable: {{cpu: '{cpus}'}}}}\n"


def made(world: GroupingWorld) -> PodGroup | KaiPodGroup:
    [found] = world.groups.values()
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gang_has_a_group_in_its_place(version: str) -> None:
    world = GroupingWorld(group(version), pods(4))
    found = made(world)
    assert (found.name, found.spec.min_member) == ("native-train", 3)
    assert found.metadata.owner_references[0].api_version == version
    assert len(world.grouped()[0].pods) == 4
    world.restart()
    assert made(world) == found


@pytest.mark.parametrize(
    ("mode", "n_evicted"),
    [
        ("", 1),
        (", disruptionMode: Pod", 1),
        (", disruptionMode: PodGroup", 4),
        (", disruptionMode: {single: {}}", 1),
        (", disruptionMode: {all: {}}", 4),
    ],
)
@pytest.mark.parametrize("profile_name", ["muster", "kai"])
def test_pods_of_a_gang_go_one_by_one_or_together_as_its_disruption_mode_says(
    profile_name: str, mode: str, n_evicted: int
) -> None:
    class_ = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 90\n"
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: default}\n"
    urgent = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: now}}\nspec: {{priorityClassName: urgent, {CONTAINERS}}}\n"
    gang = [group("scheduling.k8s.io/v1alpha2", "gang: {minCount: 2}", mode), pods(4)]
    before = load_text("---\n".join([class_, queue, nodes(4), *gang])).objects
    timeline = parse_timeline(yaml.safe_dump([{"at": "30s", "add": [yaml.safe_load(urgent)]}]))
    result = simulate(before, profile(profile_name), timeline=timeline, until=60.0)
    assert sum(isinstance(made, Evict) for cycle in result.cycles for made in cycle.decisions) == n_evicted


def test_the_basic_policy_asks_for_nobody_else() -> None:
    assert made(GroupingWorld(group("scheduling.k8s.io/v1alpha2", "basic: {}"), pods(2))).spec.min_member == 1


def test_pods_wait_for_a_gang_that_is_not_there_yet() -> None:
    world = GroupingWorld(pods(3))
    assert world.groups == {}
    assert all("native-train" in pod.metadata.annotations.values() for pod in world.pods.values())
    world.cluster.add(load_text(group("scheduling.k8s.io/v1alpha2")).objects)
    world.cluster.poll()
    assert made(world).spec.min_member == 3


def actions_for(gang: str, controller: GroupingController, now: float) -> list[Action]:
    """What is done for two pods of a gang, on a server that tells of owners when it is asked."""
    [document] = yaml.safe_load_all(gang)
    done: list[Action] = []
    for pod in load_text(pods(2)).objects if now == 0.0 else ():
        controller.take("ADDED", pod, now)
    while steps := list(controller.steps(now)):
        for step in steps:
            for action in step.plan.actions:
                if isinstance(action, Fetch):
                    action.answer(document if action.target.api_version == document["apiVersion"] else None, "")
                else:
                    done.append(action)
            controller.settle(step.key, now)
    return done


def test_pods_name_their_gang_before_it_is_made_so_that_they_wait_where_it_is_refused() -> None:
    made = actions_for(group("scheduling.k8s.io/v1alpha2"), GroupingController(families=lambda: ["volcano"]), 0.0)
    assert [type(action) for action in made] == [Patch, Patch, Create]


def test_a_topology_key_without_kais_definitions_is_told_and_the_pods_wait_for_them() -> None:
    gang = group("scheduling.k8s.io/v1alpha2", more=", schedulingConstraints: {topology: [{key: rack}]}")
    families: list[Family] = ["volcano"]
    controller = GroupingController(families=lambda: families)
    *marks, told = actions_for(gang, controller, 0.0)
    assert [type(action) for action in marks] == [Patch, Patch], "no Topology is made where nobody knows the kind"
    assert isinstance(told, Tell)
    assert told.reason == "GangNotUnderstood"
    assert "rack" in told.message
    families.append("kai")
    assert [type(action) for action in actions_for(gang, controller, 60.0)][-2:] == [Create, Create], "with a Topology"


def test_a_workload_has_a_gang_for_each_copy_of_each_part() -> None:
    workload = """
apiVersion: scheduling.k8s.io/v1alpha1
kind: Workload
metadata: {name: w}
spec:
  podGroups:
  - {name: workers, policy: {gang: {minCount: 2}}}
  - {name: rest, policy: {basic: {}}}
"""
    texts = [
        pods(1, f"workloadRef: {{name: w, podGroup: {part}{key}}}").replace("p-0", name)
        for name, part, key in [
            ("a", "workers", ", podGroupReplicaKey: x"),
            ("b", "workers", ", podGroupReplicaKey: x"),
            ("c", "workers", ", podGroupReplicaKey: y"),
            ("d", "rest", ""),
        ]
    ]
    world = GroupingWorld(workload, *texts)
    found = {name: each.spec.min_member for name, each in world.groups.items()}
    assert found == {"native-w-workers-x": 2, "native-w-workers-y": 2, "native-w-rest": 1}


def test_a_part_that_the_workload_does_not_have_is_told() -> None:
    workload = "apiVersion: scheduling.k8s.io/v1alpha1\nkind: Workload\nmetadata: {name: w}\nspec: {podGroups: []}"
    world = GroupingWorld(workload, pods(1, "workloadRef: {name: w, podGroup: x}"))
    assert world.groups == {}
    assert [each.message for each in world.controllers.told] == ["Workload w has no part x"]


def test_a_topology_key_is_a_level_of_a_topology() -> None:
    more = ", schedulingConstraints: {topology: [{key: example.com/rack}]}"
    world = GroupingWorld(group("scheduling.k8s.io/v1alpha2", more=more), pods(3))
    found = made(world)
    assert isinstance(found, KaiPodGroup)
    assert found.spec.topology_constraint is not None
    [topology] = world.cluster.store.all(Topology)
    assert [level.node_label for level in topology.spec.levels] == ["example.com/rack"]
    assert found.spec.topology_constraint.topology == topology.name
    assert found.spec.topology_constraint.required_topology_level == "example.com/rack"


def _conditions(cluster: MemoryCluster, version: str) -> list[dict[str, Any]]:
    found: Any = cluster.store.find("PodGroup", "default/train")
    assert found.api_version == version
    return [
        {name: each[name] for name in ("type", "status", "reason")} for each in found.status.get("conditions") or []
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_status_is_written_as_kube_scheduler_does(version: str) -> None:
    from muster.controllers.embedded import served  # only here
    from muster.framework import default_config
    from muster.scheduler import Scheduler, builtin_registry

    cluster = MemoryCluster(load_text("---".join([nodes(2), group(version), pods(3)])).objects)
    cluster.attach(served(cluster))
    scheduler = Scheduler(cluster, default_config(), builtin_registry())
    for _ in range(3):
        scheduler.run_once()
    cluster.poll()
    kind = VERSIONS[version]
    assert _conditions(cluster, version) == [{"type": kind, "status": "False", "reason": "Unschedulable"}]
    cluster.add(load_text(nodes(2).replace("n1", "n2")).objects)
    for _ in range(3):
        cluster.advance_to(cluster.now() + 5)
        scheduler.run_once()
    cluster.poll()
    assert _conditions(cluster, version) == [{"type": kind, "status": "True", "reason": "Scheduled"}]
    for pod in cluster.store.pods_on("n1"):
        cluster.remove(pod)
    cluster.advance_to(cluster.now() + 100)
    scheduler.run_once()
    cluster.poll()
    assert _conditions(cluster, version) == [{"type": kind, "status": "True", "reason": "Scheduled"}]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    version = "scheduling.k8s.io/v1alpha2"
    for cpus, running in ((2, 0), (3, 3)):
        result = simulate(load_text("---".join([nodes(cpus), group(version), pods(3)])).objects)
        assert result.jobs["default/native-train"].running == running


def test_a_simulation_ends_though_a_gang_never_comes() -> None:
    """On a cluster somebody has to look for it again and again; here it would be news."""
    objects = load_text(f"{nodes(4)}---{pods(3)}").objects
    result = simulate(objects, cycles=50)
    assert result.settled
    why = "podgroup-missing: its PodGroup does not exist (default/train of scheduling.k8s.io)"
    assert [(job.running, job.reason) for job in result.jobs.values()] == [(0, why)]
    gang = yaml.safe_load(group("scheduling.k8s.io/v1beta1"))
    late = parse_timeline(yaml.safe_dump([{"at": "60s", "add": [gang]}]))
    assert [job.running for job in simulate(objects, timeline=late).jobs.values()] == [3]
