"""What users read with `kubectl describe`: events and conditions."""

from __future__ import annotations

from muster.cluster.kubernetes import KubernetesCluster
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, priority_class, queue
from tests.kubernetes.stage import WITH_EVICTIONS, Stage


def events(kubectl: Kubectl, kind: str, name: str, reason: str, uid: str = "") -> list[Json]:
    found = kubectl.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [
        each
        for each in found
        if (each["regarding"]["kind"], each["regarding"]["name"], each["reason"]) == (kind, name, reason)
        and each["reportingController"] == "muster"
        and uid in ("", each["regarding"]["uid"])  # other tests may have had objects of the same name
    ]


def test_a_gang_that_is_placed_is_told_once_and_each_pod_its_node(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), node("n2", gpu=2), *gang("placed", 4)])
    stage = Stage(cluster, kubectl)
    uid = kubectl.get("PodGroup", "placed")["metadata"]["uid"]
    stage.run_until(lambda: events(kubectl, "PodGroup", "placed", "Scheduled", uid))
    [told] = events(kubectl, "PodGroup", "placed", "Scheduled", uid)
    assert told["note"].startswith("placed 4 pods on n1 ×2, n2 ×2 (allocate: ")
    stage.run_until(lambda: events(kubectl, "Pod", "placed-3", "Scheduled"))


def test_a_gang_that_waits_says_why_once_for_many_cycles(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), *gang("waits", 3)])
    stage = Stage(cluster, kubectl)
    uid = kubectl.get("PodGroup", "waits")["metadata"]["uid"]

    def reasons() -> list[str]:
        told = events(kubectl, "PodGroup", "waits", "FailedScheduling", uid)
        assert {each["type"] for each in told} <= {"Warning"}
        return sorted(each["note"].partition(":")[0] for each in told)

    stage.run_until(lambda: "insufficient-resources" in reasons())
    for _ in range(10):
        stage.run_once()
    assert reasons() == sorted(set(reasons()))
    condition = kubectl.get("PodGroup", "waits")["status"]["conditions"][0]
    assert condition["message"] in [each["note"] for each in events(kubectl, "PodGroup", "waits", "FailedScheduling")]


def test_an_evicted_pod_is_told_for_whom(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    classes = [priority_class("high", 1000), priority_class("low", 10)]
    kubectl.create_all([queue("default"), *classes, node("n1", gpu=1), pod("victim", priorityClassName="low")])
    stage = Stage(cluster, kubectl, WITH_EVICTIONS)
    stage.run_until(lambda: kubectl.get("Pod", "victim")["status"]["phase"] == "Running")
    documents = gang("winner", 1, group={"priorityClassName": "high"})
    documents[1]["spec"]["priorityClassName"] = "high"
    kubectl.create_all(documents)
    stage.run_until(lambda: events(kubectl, "Pod", "victim", "Evicted"))
    [told] = events(kubectl, "Pod", "victim", "Evicted")  # no other test has a pod of that name
    assert told["note"].startswith("evicted from n1 for default/winner: preempt: ")
    assert (told["related"]["kind"], told["related"]["name"]) == ("PodGroup", "winner")
    stage.run_until(lambda: events(kubectl, "PodGroup", "winner", "Nominated"))


def test_a_pod_without_a_group_says_what_it_waits_for(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), pod("large", gpu=4)])
    stage = Stage(cluster, kubectl)

    def conditions() -> list[Json]:
        found = kubectl.get("Pod", "large")["status"].get("conditions", [])
        return [known for known in found if known["type"] == "PodScheduled"]

    stage.run_until(conditions)
    [said] = conditions()
    assert (said["status"], said["reason"]) == ("False", "Unschedulable")
    assert stage.run_once().updates == ()
    stage.run_until(lambda: events(kubectl, "Pod", "large", "FailedScheduling"))
    assert events(kubectl, "Pod", "large", "FailedScheduling")[0]["note"] == said["message"]
