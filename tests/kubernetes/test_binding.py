from __future__ import annotations

from collections import Counter

from muster.cluster.kubernetes import KubernetesCluster
from tests.kubernetes.kubectl import Kubectl, gang, node, pod, queue
from tests.kubernetes.stage import Stage


def test_a_gang_of_volcano_runs_on_nodes_of_kwok(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4), node("n2", gpu=4), *gang("train", 8)])
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: all(kubectl.nodes_of_pods().values()))
    assert Counter(kubectl.nodes_of_pods().values()) == {"n1": 4, "n2": 4}
    stage.run_until(lambda: kubectl.get("PodGroup", "train").get("status", {}).get("running") == 8)
    assert kubectl.get("PodGroup", "train")["status"]["phase"] == "Running"


def test_half_a_gang_never_starts_and_its_pods_say_why(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 5)])
    stage = Stage(cluster, kubectl)

    def conditions() -> list[tuple[str, str]]:
        found = (known["status"].get("conditions", []) for known in kubectl.list("Pod"))
        return [(each["status"], each["reason"]) for known in found for each in known if each["type"] == "PodScheduled"]

    stage.run_until(lambda: conditions() == [("False", "Unschedulable")] * 5)
    assert set(kubectl.nodes_of_pods().values()) == {""}
    group = kubectl.get("PodGroup", "train")["status"]
    assert [known["type"] for known in group["conditions"]] == ["Unschedulable"]


def test_a_bound_pod_is_not_bound_again_before_the_watch_shows_it(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), *gang("train", 2)])
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: any(result.decisions for result in stage.results))
    for _ in range(5):
        stage.run_once()
    assert sum(len(result.decisions) for result in stage.results) == 2


def test_pods_of_other_schedulers_take_room_and_are_left_alone(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    other = pod("other", gpu=2, schedulerName="default-scheduler", nodeName="n1")
    kubectl.create_all([queue("default"), node("n1", gpu=2), node("n2", gpu=1), other, pod("waits", gpu=1)])
    kubectl.create(pod("not-ours", gpu=1, schedulerName="default-scheduler"))
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: stage.is_bound("waits"))
    assert kubectl.nodes_of_pods() == {"other": "n1", "waits": "n2", "not-ours": ""}


def test_what_runs_is_found_again_after_a_restart(
    cluster: KubernetesCluster, another_cluster: KubernetesCluster, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=3), *gang("first", 2)])
    Stage(cluster, kubectl).run_until(lambda: all(kubectl.nodes_of_pods().values()))
    kubectl.create_all(gang("second", 2))
    later = Stage(another_cluster, kubectl)
    later.run_until(lambda: "conditions" in kubectl.get("PodGroup", "second").get("status", {}))
    assert [made.pod for result in later.results for made in result.decisions] == []
