"""What was saved of a live cluster decides as the scheduler then does: evictions, promises and shards too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.api.names import STALE_STAMP, START_STAMP
from muster.cli.main import run
from muster.cluster.kubernetes import KubernetesCluster, Shard
from muster.framework import find_config
from muster.scheduler import CycleResult
from muster.server import Service, ServiceOptions
from muster.snapshot.messages import Bind
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import foreign_kinds
from tests.kubernetes.foreign_kinds import NODE_SHARD
from tests.kubernetes.invariants import n_promised
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, priority_class, queue
from tests.kubernetes.stage import Stage
from tests.kubernetes.test_evictions import budget, ranked_gang

CONFIG = find_config("muster")
CLASSES = [priority_class("high", 9), priority_class("low", 1)]
#: Where things are that stay behind, with what is made there.
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
DEVICE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

Made = list[tuple[str, str, str, str, str]]
Replay = Callable[..., Made]


@pytest.fixture
def replay(control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Replay:
    """Save the cluster as it is to `saved.jsonl`, and run one cycle on that."""

    def decide(*options: str) -> Made:
        saved = str(tmp_path / "saved.jsonl")
        assert run(["snapshot", "save", saved, "--kubeconfig", str(control_plane.kubeconfig), *options]) == 0
        capsys.readouterr()
        assert run(["simulate", saved, "--cycles", "1", "--config", "muster", "--output", "json"]) == 0
        decisions = json.loads(capsys.readouterr().out)["decisions"]
        return [(made["kind"], made["pod"], made["node"], made["beneficiary"], made["why"]) for made in decisions]

    return decide


def made_by(result: CycleResult) -> Made:
    """What a live cycle decided, in the words of a replay."""
    return [
        (type(made).__name__.lower(), made.pod, made.node, "" if isinstance(made, Bind) else made.beneficiary, made.why)
        for made in result.decisions
    ]


def decided_live(plane: ControlPlane, kubectl: Kubectl) -> Made:
    """What a scheduler that starts now decides first."""
    kubectl.close()
    with KubernetesCluster(plane.kubeconfig) as cluster:
        return made_by(Stage(cluster, kubectl, CONFIG).run_once())


def start(plane: ControlPlane, kubectl: Kubectl, n_pods: int) -> None:
    """Let the scheduler run until so many pods do, and gangs have their stamps."""
    with KubernetesCluster(plane.kubeconfig) as cluster:
        stage = Stage(cluster, kubectl, CONFIG)
        stage.run_until(
            lambda: (
                sum(each["status"]["phase"] == "Running" for each in kubectl.list("Pod")) == n_pods
                and all(START_STAMP in each["metadata"].get("annotations", {}) for each in kubectl.list("PodGroup"))
            )
        )


def kinds_of(made: Made) -> set[str]:
    return {each[0] for each in made}


def test_a_preemption_is_replayed(control_plane: ControlPlane, kubectl: Kubectl, replay: Replay) -> None:
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=2), node("n2", gpu=2)])
    kubectl.create_all([*ranked_gang("a", 2, "low"), *ranked_gang("b", 2, "low")])
    start(control_plane, kubectl, 4)
    kubectl.create_all(ranked_gang("new", 2, "high"))
    replayed = replay()
    assert kinds_of(replayed) == {"evict", "nominate"}
    assert decided_live(control_plane, kubectl) == replayed


def test_a_reclaim_is_replayed(control_plane: ControlPlane, kubectl: Kubectl, replay: Replay) -> None:
    kubectl.create_all(
        [queue("rich", deserved={"nvidia.com/gpu": "2"}), queue("poor", deserved={"nvidia.com/gpu": "2"})]
    )
    kubectl.create(node("n1", gpu=4))
    kubectl.create_all([each for name in ("a", "b") for each in gang(name, 2, group={"queue": "rich"})])
    start(control_plane, kubectl, 4)
    kubectl.create_all(gang("new", 2, group={"queue": "poor"}))
    replayed = replay()
    assert kinds_of(replayed) == {"evict", "nominate"}
    assert decided_live(control_plane, kubectl) == replayed


@pytest.fixture
def things(kubectl: Kubectl) -> Iterator[Kubectl]:
    """Storage and devices: a class of each, and a claim."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    device = {"name": "gpu", "exactly": {"deviceClassName": "gpus"}}
    late = {"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
    kubectl.request("POST", STORAGE, {"metadata": {"name": "fast"}, **late})
    kubectl.request("POST", CLAIMS, {"metadata": {"name": "data"}, "spec": {**wanted, "storageClassName": "fast"}})
    kubectl.request("POST", DEVICE_CLASSES, {"metadata": {"name": "gpus"}, "spec": {}})
    kubectl.request("POST", DEVICE_CLAIMS, {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [device]}}})
    yield kubectl
    for one in (f"{CLAIMS}/data", f"{STORAGE}/fast", f"{DEVICE_CLAIMS}/one", f"{DEVICE_CLASSES}/gpus"):
        # Nobody runs here who would take the protection away.
        kubectl.request("PATCH", one, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        kubectl.request("DELETE", one)


def guarded(kubectl: Kubectl, name: str) -> None:
    """A budget that allows nobody to go."""
    kubectl.create(budget(name, {"gang": name}))
    counted = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}
    kubectl.patch("PodDisruptionBudget", name, {"status": {**counted, "observedGeneration": 1}}, status=True)


def with_claims() -> list[Json]:
    """A pod with a volume, and one with a device."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    reader = pod("reader", gpu=0, volumes=[volume])
    user = pod("user", gpu=0, resourceClaims=[{"name": "one", "resourceClaimName": "one"}])
    return [reader, user]


def has_stale_stamp(kubectl: Kubectl, name: str) -> bool:
    return STALE_STAMP in kubectl.get("PodGroup", name)["metadata"].get("annotations", {})


def test_everything_that_a_scheduler_left_in_the_objects_is_replayed(
    control_plane: ControlPlane, things: Kubectl, replay: Replay, tmp_path: Path
) -> None:
    kubectl = things
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=4), node("n2", gpu=4)])
    for name in ("kept", "old", "broken", "plain"):
        kubectl.create_all(ranked_gang(name, 2, "low"))
    start(control_plane, kubectl, 8)
    guarded(kubectl, "kept")
    with control_plane.without_kubelets():  # those who are asked to leave stay for now
        with KubernetesCluster(control_plane.kubeconfig) as cluster:
            stage = Stage(cluster, kubectl, CONFIG)
            kubectl.delete("Pod", "broken-0", grace=0)
            stage.run_until(lambda: has_stale_stamp(kubectl, "broken"))
            kubectl.create_all(ranked_gang("new", 3, "high"))
            stage.run_until(lambda: n_promised(kubectl) >= 2)
        kubectl.create_all([*with_claims(), *ranked_gang("next", 2, "high")])
        replayed = replay()
        assert decided_live(control_plane, kubectl) == replayed
    assert kinds_of(replayed) == {"bind", "evict", "nominate"}
    assert not any(pod_name.startswith("default/kept") for _, pod_name, *_ in replayed)
    saved = (tmp_path / "saved.jsonl").read_text()
    for kept in (START_STAMP, STALE_STAMP, "nominatedNodeName", "deletionTimestamp", '"PriorityClass"'):
        assert kept in saved, kept
    for kind in ("PodDisruptionBudget", "PersistentVolumeClaim", "StorageClass", "ResourceClaim", "DeviceClass"):
        assert f'"kind":"{kind}"' in saved, kind


@pytest.mark.parametrize(("mode", "n_bound"), [("hard", 2), ("soft", 4)])
def test_a_shard_is_replayed(
    mode: str, n_bound: int, control_plane: ControlPlane, kubectl: Kubectl, replay: Replay
) -> None:
    kubectl.create_all([queue("default"), *(node(name, gpu=2) for name in ("n1", "n2", "n3"))])
    kubectl.create_all([*gang("a", 2), *gang("b", 2)])
    with foreign_kinds.installed(kubectl, NODE_SHARD):
        foreign_kinds.make(kubectl, NODE_SHARD, "ours", {"schedulerName": "volcano", "nodesDesired": ["n2"]})
        replayed = replay("--shard", "ours", "--shard-mode", mode)
        shard = Shard(node_shard="ours", mode="soft" if mode == "soft" else "hard")
        with KubernetesCluster(control_plane.kubeconfig, shard=shard) as cluster:
            service = Service(cluster, ServiceOptions(config="muster", shard_mode=mode))
            service.turn()
            kubectl.wait(lambda: sum(map(bool, kubectl.nodes_of_pods().values())) == n_bound)
    placed = {name: where for name, where in kubectl.nodes_of_pods().items() if where}
    assert {pod_name.removeprefix("default/"): where for _, pod_name, where, *_ in replayed} == placed
    assert "n2" in placed.values()


def test_nodes_by_labels_are_replayed(control_plane: ControlPlane, kubectl: Kubectl, replay: Replay) -> None:
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=2, labels={"pool": "a"}), node("n2", gpu=4)])
    kubectl.create_all(ranked_gang("old", 2, "low"))
    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig, shard=Shard("pool=a")) as cluster:
        stage = Stage(cluster, kubectl, CONFIG)
        stage.run_until(lambda: all(each["status"]["phase"] == "Running" for each in kubectl.list("Pod")))
        kubectl.create_all(ranked_gang("new", 2, "high"))
        kubectl.wait(lambda: len(stage.scheduler.observe().tasks.ids) == 4)
        replayed = replay("--node-selector", "pool=a")
        assert made_by(stage.run_once()) == replayed
    assert {(kind, where) for kind, _, where, *_ in replayed} == {("evict", "n1"), ("nominate", "n1")}
