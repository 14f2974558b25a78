"""Several schedulers share a cluster: each has its nodes, and leaves the others' alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.cluster.kubernetes import KubernetesCluster, Shard
from muster.framework import find_config
from muster.server import Service, ServiceOptions
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import foreign_kinds, invariants
from tests.kubernetes.foreign_kinds import KAI_GROUP, KAI_QUEUE, NODE_SHARD
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, queue
from tests.kubernetes.proxy import FaultyProxy
from tests.kubernetes.replicas import replica
from tests.kubernetes.stage import Stage

POOL = "kai.scheduler/node-pool"


def kai_gang(kubectl: Kubectl, name: str, pool: str, n_pods: int) -> None:
    """A gang of KAI in a pool."""
    foreign_kinds.make(kubectl, KAI_GROUP, name, {"minMember": n_pods, "queue": f"team-{pool}"}, {POOL: pool})
    for number in range(n_pods):
        member = pod(f"{name}-{number}", schedulerName="kai-scheduler")
        member["metadata"] |= {"annotations": {"pod-group-name": name}, "labels": {POOL: pool}}
        kubectl.create(member)


def kai_queues(kubectl: Kubectl, pool: str) -> None:
    """A department and a queue of one pool, without limits."""
    free: Json = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": free, "cpu": free, "memory": free}
    foreign_kinds.make(kubectl, KAI_QUEUE, f"all-{pool}", {"resources": resources}, {POOL: pool})
    team = {"parentQueue": f"all-{pool}", "resources": resources}
    foreign_kinds.make(kubectl, KAI_QUEUE, f"team-{pool}", team, {POOL: pool})


def test_a_node_selector_leaves_other_nodes_and_their_pods_alone(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("a1", labels={"pool": "a"}), node("b1", labels={"pool": "b"})])
    kubectl.create_all([pod("elsewhere", gpu=8, nodeName="b1"), *gang("fits", 8), *gang("waits", 8)])
    with KubernetesCluster(control_plane.kubeconfig, shard=Shard("pool=a")) as cluster:
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: stage.is_bound(*(f"fits-{number}" for number in range(8))))
        session = stage.scheduler.last_session
        assert session is not None
        assert session.snapshot.nodes.names == ["a1"]
        assert "default/elsewhere" not in session.snapshot.tasks.ids
        kubectl.patch("Node", "b1", {"metadata": {"labels": {"pool": "a"}}})
        kubectl.delete("Pod", "elsewhere", grace=0)
        stage.run_until(lambda: stage.is_bound(*(f"waits-{number}" for number in range(8))))
    assert set(kubectl.nodes_of_pods().values()) == {"a1", "b1"}


def test_a_pool_of_kai_has_its_own_nodes_queues_and_gangs(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    kubectl.create_all([node("a1", labels={POOL: "a"}), node("b1", labels={POOL: "b"}), node("n1")])
    with foreign_kinds.installed(kubectl, KAI_GROUP, KAI_QUEUE):
        for pool in ("a", "b"):
            kai_queues(kubectl, pool)
            kai_gang(kubectl, f"gang-{pool}", pool, 4)
        with KubernetesCluster(control_plane.kubeconfig, shard=Shard(node_pool="a")) as cluster:
            stage = Stage(cluster, kubectl, find_config("kai"), "kai-scheduler")
            stage.run_until(lambda: stage.is_bound(*(f"gang-a-{number}" for number in range(4))))
            session = stage.scheduler.last_session
            assert session is not None
            assert sorted(session.snapshot.queues.index) == ["all-a", "team-a"]
        placed = kubectl.nodes_of_pods()
    assert placed == {f"gang-{pool}-{n}": "a1" if pool == "a" else "" for pool in ("a", "b") for n in range(4)}


def test_a_node_shard_names_the_nodes_and_hears_which_are_in_use(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1"), node("n2"), *gang("first", 8), *gang("second", 8)])
    with foreign_kinds.installed(kubectl, NODE_SHARD):
        foreign_kinds.make(kubectl, NODE_SHARD, "ours", {"schedulerName": "volcano", "nodesDesired": ["n2"]})
        with KubernetesCluster(control_plane.kubeconfig, shard=Shard(node_shard="ours")) as cluster:
            service = Service(cluster, ServiceOptions())

            def is_in_use(*nodes: str) -> bool:
                service.turn()
                status = kubectl.request("GET", f"{foreign_kinds.path_of(NODE_SHARD)}/ours").get("status", {})
                return status.get("nodesInUse") == list(nodes) and len(placed()) == len(nodes)

            def placed() -> set[str]:
                return set(kubectl.nodes_of_pods().values()) - {""}

            kubectl.wait(lambda: is_in_use("n2"))
            assert placed() == {"n2"}
            path = f"{foreign_kinds.path_of(NODE_SHARD)}/ours"
            body = {"spec": {"nodesDesired": ["n1", "n2"]}}
            kubectl.request("PATCH", path, body, "application/merge-patch+json")
            kubectl.wait(lambda: is_in_use("n1", "n2"))
    assert set(kubectl.nodes_of_pods().values()) == {"n1", "n2"}


def test_each_shard_has_a_leader_of_its_own(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.create_all([queue("default"), node("a1", labels={"pool": "a"}), node("b1", labels={"pool": "b"})])
    with (
        replica(control_plane, tmp_path / "a", "--node-selector", "pool=a") as first,
        replica(control_plane, tmp_path / "b", "--node-selector", "pool=b") as second,
    ):
        kubectl.wait(
            lambda: all(process.has_logged("event=lease-taken lease=muster-pool-") for process in (first, second)), 60
        )
        leases = [process.log.read_text().partition("lease=")[2].split()[0] for process in (first, second)]
    assert leases[0] != leases[1]


@contextmanager
def soft_shards(kubectl: Kubectl, **shards: list[str]) -> Iterator[None]:
    """NodeShards by name, with the nodes that they ask for."""
    with foreign_kinds.installed(kubectl, NODE_SHARD):
        for name, nodes in shards.items():
            foreign_kinds.make(kubectl, NODE_SHARD, name, {"schedulerName": name, "nodesDesired": nodes})
        yield


def soft(name: str) -> Shard:
    return Shard(node_shard=name, mode="soft")


def soft_service(cluster: KubernetesCluster, scheduler: str) -> Service:
    return Service(cluster, ServiceOptions((scheduler,), shard_mode="soft"))


def gang_of(scheduler: str, name: str, n_pods: int) -> list[Json]:
    head, *pods = gang(name, n_pods)
    return [head, *({**each, "spec": {**each["spec"], "schedulerName": scheduler}} for each in pods)]


def run_until_bound(service: Service, kubectl: Kubectl, *names: str) -> None:
    def is_bound() -> bool:
        service.turn()
        placed = kubectl.nodes_of_pods()
        return all(placed.get(name) for name in names)

    kubectl.wait(is_bound)


def test_a_soft_shard_goes_outside_only_with_what_does_not_fit_inside(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), *(node(name, gpu=2) for name in ("n1", "n2", "n3"))])
    with (
        soft_shards(kubectl, volcano=["n2"]),
        KubernetesCluster(control_plane.kubeconfig, shard=soft("volcano")) as cluster,
    ):
        service = soft_service(cluster, "volcano")
        kubectl.create_all(gang("one", 1))
        run_until_bound(service, kubectl, "one-0")
        kubectl.create_all(gang("two", 1))
        run_until_bound(service, kubectl, "two-0")
        kubectl.create_all(gang("wide", 2))
        run_until_bound(service, kubectl, "wide-0", "wide-1")
    placed = kubectl.nodes_of_pods()
    assert (placed["one-0"], placed["two-0"]) == ("n2", "n2")
    assert "n2" not in (placed["wide-0"], placed["wide-1"])


def test_soft_shards_that_overflow_onto_the_same_nodes_count_each_others_pods(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), *(node(name, gpu=4) for name in ("a", "b", "between"))])
    with (
        soft_shards(kubectl, first=["a"], second=["b"]),
        KubernetesCluster(control_plane.kubeconfig, shard=soft("first")) as ours,
        KubernetesCluster(control_plane.kubeconfig, shard=soft("second")) as theirs,
    ):
        first, second = soft_service(ours, "first"), soft_service(theirs, "second")
        for number in range(3):  # twelve pods, and room for as many
            kubectl.create_all([*gang_of("first", f"x{number}", 2), *gang_of("second", f"y{number}", 2)])
            run_until_bound(first, kubectl, f"x{number}-0", f"x{number}-1")
            run_until_bound(second, kubectl, f"y{number}-0", f"y{number}-1")
    placed = kubectl.nodes_of_pods()
    assert {placed[f"x{number}-0"] for number in range(2)} == {"a"}
    assert {placed[f"y{number}-0"] for number in range(2)} == {"b"}
    invariants.check(kubectl)


def test_a_pod_that_lost_the_race_for_a_node_outside_is_placed_again(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    """The server binds both; the node refuses the second, as kubelets do, and its owner makes it anew."""
    kubectl.create_all([queue("default"), node("between", gpu=2)])
    with (
        soft_shards(kubectl, first=[], second=[]),
        FaultyProxy(control_plane, tmp_path) as proxy,
        KubernetesCluster(control_plane.kubeconfig, shard=soft("first")) as ours,
        KubernetesCluster(proxy.kubeconfig, shard=soft("second")) as theirs,
    ):
        first, second = soft_service(ours, "first"), soft_service(theirs, "second")
        kubectl.create_all(gang_of("second", "y", 2))
        kubectl.wait(lambda: len(second.scheduler.observe().tasks.ids) == 2)
        with proxy.hold_watches():
            kubectl.create_all(gang_of("first", "x", 2))
            run_until_bound(first, kubectl, "x-0", "x-1")
            run_until_bound(second, kubectl, "y-0", "y-1")
        for name in ("y-0", "y-1"):
            kubectl.patch("Pod", name, {"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}}, status=True)
            kubectl.delete("Pod", name, grace=0)
        kubectl.create_all([node("later", gpu=2), *gang_of("second", "y", 2)[1:]])
        run_until_bound(second, kubectl, "y-0", "y-1")
    assert kubectl.nodes_of_pods() == {"x-0": "between", "x-1": "between", "y-0": "later", "y-1": "later"}
    invariants.check(kubectl)
