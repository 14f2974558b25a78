"""What is written of a gang that waits: which nodes, how many, what is missing, what stood in the way of evicting."""

from __future__ import annotations

from muster.api import KubeObject, PodGroup
from muster.cluster import MemoryCluster
from muster.explain import explain_job, waiting_reason
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.scheduler.job_updates import NUMBERS_S
from muster.testing import gang, node, pod, pod_group, queue

FIRM = {"volcano.sh/preemptable": "false"}


def scheduler_of(*objects: KubeObject) -> tuple[Scheduler, MemoryCluster]:
    cluster = MemoryCluster([queue("default"), *objects], start=1000.0)
    return Scheduler(cluster, profile("muster"), builtin_registry(third_party=False)), cluster


def condition(cluster: MemoryCluster, name: str) -> tuple[str, str]:
    group = cluster.store.get(PodGroup, f"default/{name}")
    assert group is not None
    (known,) = group.status.conditions
    return known.reason, known.message


def held(gpu: int, on: str) -> list[KubeObject]:
    name = f"held-{on}"
    return [
        pod_group(name, minimum=1, phase="Running"),
        pod(f"{name}-0", group=name, gpu=gpu, node=on, annotations=FIRM),
    ]


def test_a_gang_without_room_says_what_is_missing_and_where() -> None:
    scheduler, cluster = scheduler_of(
        node("n1", gpu=8), node("n2", gpu=8), node("cpu-1"), *held(6, "n1"), *held(5, "n2"), *gang("g", 2, gpu=4)
    )
    scheduler.run_once()
    reason, message = condition(cluster, "g")
    assert reason == "NotEnoughResources"
    why, *facts = message.split("; ")
    assert why == "insufficient-resources: no node has room for 2 of 2 pods"
    assert facts[:3] == [
        "it needs 8 GPUs, 5 GPUs are free, 3 GPUs missing",
        "n2 comes closest and lacks 1 GPU",
        "nodes: 2 lack free resources (n1, n2) and 1 is too small even when empty (cpu-1)",
    ]
    assert facts[3].startswith("no evictions: ")
    session = scheduler.last_session
    assert session is not None
    assert why == waiting_reason(explain_job(session, session.snapshot.jobs.index["default/g"]))


def test_what_all_nodes_have_against_it_is_said_once() -> None:
    nodes = [node(f"n{number}", gpu=8) for number in range(5)]
    scheduler, cluster = scheduler_of(*nodes, pod_group("g"), pod("g-0", group="g", gpu=1, selector={"disk": "ssd"}))
    scheduler.run_once()
    reason, message = condition(cluster, "g")
    assert reason == "node-selector"
    assert message.startswith(
        "node-selector: all 5 nodes lack a label that the pod's node selector asks for; nodes: n0, n1, n2 and 2 more"
    )


def test_another_reason_is_written_at_once_and_the_same_never_again() -> None:
    scheduler, cluster = scheduler_of(node("n1", gpu=8), *held(6, "n1"), *gang("g", 1, gpu=4))
    scheduler.run_once()
    assert condition(cluster, "g")[1].startswith("insufficient-resources: ")
    for _ in range(3):
        cluster.advance_to(cluster.now() + NUMBERS_S)
        assert scheduler.run_once().updates == (), "nothing has changed"
    cluster.delete(node("n1", gpu=8))
    cluster.add([node("n2", gpu=2)])
    scheduler.run_once()
    assert condition(cluster, "g") == (
        "NotEnoughResources",
        "node-too-small: the only node is too small even when empty; it needs 4 GPUs, 2 GPUs are free, 2 GPUs missing; "
        "n2 comes closest and lacks 2 GPUs; nodes: n2; no evictions: "
        + condition(cluster, "g")[1].partition("; no evictions: ")[2],
    )
