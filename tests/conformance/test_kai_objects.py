"""A KAI case becomes the objects that KAI's users have, and the scheduler reads them as the case means them."""

from datetime import datetime

import pytest

from conformance.kai_objects import Place, first_states, objects_of
from conformance.scheduling import NOW
from muster.api import KaiPodGroup, KaiQueue, KubeObject, Node, Pod, Topology, names
from muster.snapshot import Mirror, Snapshot, TaskStatus
from tests.conformance.kai_case_files import Body, kai_case, kai_job, kai_node, kai_queue, kai_task


def objects(body: Body) -> dict[str, KubeObject]:
    return {f"{type(item).__name__} {item.name}": item for item in objects_of(body, first_states(body))}


def snapshot(body: Body, *, again: bool = False) -> Snapshot:
    mirror = Mirror()
    for item in objects_of(body, first_states(body), again=again):
        mirror.upsert(item)
    return mirror.snapshot()


def test_a_node_carries_its_name_as_a_label_beside_its_own() -> None:
    body = kai_case(nodes=[kai_node("n1", labels={"rack": "r1"})])
    node = objects(body)["Node n1"]
    assert isinstance(node, Node)
    assert node.metadata.labels == {"kai.scheduler/type": "n1", "rack": "r1"}


def test_a_queue_keeps_the_units_of_kai() -> None:
    cpu = {"deserved": 1500, "limit": 2000, "overQuotaWeight": 3}
    body = kai_case(queues=[kai_queue("all"), kai_queue("team", "all", cpu=cpu, preemptMinRuntimeSeconds=0)])
    queue = objects(body)["KaiQueue team"]
    assert isinstance(queue, KaiQueue)
    assert queue.spec.parent_queue == "all"
    assert queue.spec.resources is not None
    assert (queue.spec.resources.cpu.quota, queue.spec.resources.cpu.limit) == (1500, 2000)
    assert queue.spec.resources.cpu.over_quota_weight == 3
    assert (queue.spec.preempt_min_runtime, queue.spec.reclaim_min_runtime) == ("0s", None)


def test_a_topology_lists_its_levels_from_the_widest() -> None:
    topology = objects(kai_case(topologies=[{"name": "net", "levels": ["zone", "rack"]}]))["Topology net"]
    assert isinstance(topology, Topology)
    assert [level.node_label for level in topology.spec.levels] == ["zone", "rack"]


def test_the_place_of_a_task_among_its_siblings_is_a_label() -> None:
    pod = objects(kai_case(kai_job("job", kai_task("job-0", taskOrderPriority=3))))["Pod job-0"]
    assert pod.metadata.labels == {names.KAI_TASK_PRIORITY: "3"}


def test_sub_groups_become_a_flat_list_that_names_parents() -> None:
    near = {"topology": "t", "required": "rack"}
    inner = {"name": "left", "podSets": [{"name": "b", "minAvailable": 2}], "topologyConstraint": near}
    tree = {"podSets": [{"name": "a", "minAvailable": 1}], "groups": [inner]}
    body = kai_case(kai_job("job", kai_task("job-0", subGroup="a"), subGroups=tree))
    group, pod = (objects(body)[name] for name in ("KaiPodGroup job", "Pod job-0"))
    assert isinstance(group, KaiPodGroup)
    assert [(one.name, one.min_member, one.parent) for one in group.spec.sub_groups] == [
        ("a", 1, None),
        ("left", None, None),
        ("b", 2, "left"),
    ]
    constraint = group.spec.sub_groups[1].topology_constraint
    assert constraint is not None
    assert (constraint.topology, constraint.required_topology_level) == ("t", "rack")
    assert pod.metadata.labels[names.KAI_SUBGROUP] == "a"


def test_stamps_count_back_from_the_moment_of_the_session() -> None:
    body = kai_case(kai_job("job", kai_task("job-0"), lastStartSecondsAgo=90, staleSeconds=30))
    stamps = objects(body)["KaiPodGroup job"].metadata.annotations
    started, stale = (datetime.fromisoformat(stamps[key]) for key in (names.KAI_START_STAMP, names.KAI_STALE_STAMP))
    assert (NOW - started.timestamp(), NOW - stale.timestamp()) == (90, 30)


@pytest.mark.parametrize(("state", "ago"), [("Running", 60.0), ("Pending", None)])
def test_after_the_first_round_whatever_runs_has_run_for_a_minute(state: str, ago: float | None) -> None:
    job = kai_job("job", kai_task("job-0", state, "n1" if state == "Running" else ""), lastStartSecondsAgo=900)
    [record] = snapshot(kai_case(job), again=True).jobs.records
    assert (None if record.started is None else NOW - record.started) == ago


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("Pending", TaskStatus.PENDING),
        ("Bound", TaskStatus.BOUND),
        ("Binding", TaskStatus.BOUND),
        ("Running", TaskStatus.RUNNING),
        ("Releasing", TaskStatus.RELEASING),
        ("Succeeded", TaskStatus.SUCCEEDED),
        ("Failed", TaskStatus.FAILED),
    ],
)
def test_a_pod_shows_the_state_of_its_task(state: str, status: TaskStatus) -> None:
    node = "" if state == "Pending" else "n2"
    seen = snapshot(kai_case(kai_job("job", kai_task("job-0", state, node))))
    assert TaskStatus(int(seen.tasks.status[0])) == status
    assert (seen.nodes.names[seen.tasks.node[0]] if seen.tasks.node[0] >= 0 else "") == node


def test_a_gated_pod_has_a_gate_and_a_promised_one_a_nomination() -> None:
    body = kai_case(kai_job("job", kai_task("job-0", "Gated"), kai_task("job-1", "Pipelined", "n1")))
    gated, promised = (objects(body)[f"Pod job-{number}"] for number in (0, 1))
    assert isinstance(gated, Pod)
    assert isinstance(promised, Pod)
    assert gated.spec.scheduling_gates
    assert (promised.spec.node_name, promised.status.nominated_node_name) == ("", "n1")


def test_a_task_without_resources_asks_for_nothing() -> None:
    task = {"name": "job-0", "state": "Pending", "resources": {"pods": 1}}
    pod = objects(kai_case(kai_job("job", task)))["Pod job-0"]
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].resources.requests == {}


def test_affinities_name_nodes_and_pods_with_the_same_labels() -> None:
    labels = {"app": "web"}
    task = kai_task("job-0", nodeAffinity=["n2"], podAntiAffinityKey="zone", podLabels=labels)
    pod = objects(kai_case(kai_job("job", task)))["Pod job-0"]
    assert isinstance(pod, Pod)
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.pod_anti_affinity is not None
    [term] = affinity.pod_anti_affinity.required
    assert (term.topology_key, term.label_selector and term.label_selector.match_labels) == ("zone", labels)


def test_a_place_reads_as_state_and_node() -> None:
    assert [str(Place("Binding", "n1")), str(Place("Pending"))] == ["Binding@n1", "Pending"]
