"""What users read with `kubectl describe`: events and conditions."""

from __future__ import annotations

from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import profile
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, priority_class, queue
from tests.kubernetes.stage import WITH_EVICTIONS, Stage


def events(kubectl: Kubectl, kind: str, name: str, reason: str, uid: str = "") -> list[Json]:
    found = kubectl.request("GET", "/api/v1/namespaces/default/events")["items"]
    return [
        each
        for each in found
        if (each["involvedObject"]["kind"], each["involvedObject"]["name"], each["reason"]) == (kind, name, reason)
        and each["source"]["component"] == "muster"
        and uid in ("", each["involvedObject"]["uid"])  # other tests may have had objects of the same name
    ]


def condition(thing: Json, kind: str) -> Json:
    """The condition of a type, with all that it says; empty if there is none."""
    found = [known for known in thing.get("status", {}).get("conditions", []) if known["type"] == kind]
    return found[0] if found else {}


def test_a_gang_that_is_placed_is_told_once_and_each_pod_its_node(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), node("n2", gpu=2), *gang("placed", 4)])
    stage = Stage(cluster, kubectl)
    uid = kubectl.get("PodGroup", "placed")["metadata"]["uid"]
    stage.run_until(lambda: events(kubectl, "PodGroup", "placed", "Scheduled", uid))
    [told] = events(kubectl, "PodGroup", "placed", "Scheduled", uid)
    assert told["message"].startswith("placed 4 pods on n1 ×2, n2 ×2 (allocate: ")
    stage.run_until(lambda: events(kubectl, "Pod", "placed-3", "Scheduled"))
    stage.run_until(lambda: condition(kubectl.get("PodGroup", "placed"), "Scheduled"))
    said = condition(kubectl.get("PodGroup", "placed"), "Scheduled")
    assert (said["status"], said["reason"]) == ("True", "tasks in gang are ready to be scheduled")


def test_a_gang_that_waits_says_why_once_for_many_cycles(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=2), *gang("waits", 3)])
    stage = Stage(cluster, kubectl)
    uid = kubectl.get("PodGroup", "waits")["metadata"]["uid"]

    def reasons() -> list[str]:
        told = events(kubectl, "PodGroup", "waits", "Unschedulable", uid)
        assert {each["type"] for each in told} <= {"Warning"}
        return sorted(each["message"].partition(":")[0] for each in told)

    stage.run_until(lambda: "insufficient-resources" in reasons())
    for _ in range(10):
        stage.run_once()
    assert reasons() == sorted(set(reasons()))
    # A busy server hears of the events first.
    stage.run_until(lambda: condition(kubectl.get("PodGroup", "waits"), "Unschedulable"))
    said = condition(kubectl.get("PodGroup", "waits"), "Unschedulable")
    assert (said["status"], said["reason"]) == ("True", "NotEnoughResources")
    told = events(kubectl, "PodGroup", "waits", "Unschedulable", uid)
    assert said["message"] in [each["message"] for each in told]
    assert said["message"].startswith(
        "insufficient-resources: no node has room for 1 of 3 pods; "
        "it needs 3 GPUs, 2 GPUs are free, 1 GPU missing; nodes: 1 could take one (n1)"
    )
    version = kubectl.get("PodGroup", "waits")["metadata"]["resourceVersion"]
    for _ in range(5):
        stage.run_once()
    assert kubectl.get("PodGroup", "waits")["metadata"]["resourceVersion"] == version, "written only when it changes"
    assert all(each["count"] >= 1 and each["lastTimestamp"] >= each["firstTimestamp"] for each in told)
    stage.run_until(lambda: events(kubectl, "Pod", "waits-2", "FailedScheduling"))
    [pod_told] = events(kubectl, "Pod", "waits-2", "FailedScheduling")
    pod_said = condition(kubectl.get("Pod", "waits-2"), "PodScheduled")
    assert "it needs 3 GPUs, 2 GPUs are free, 1 GPU missing" in pod_told["message"]
    assert pod_said["message"] == pod_told["message"], "as in `kubectl describe pod`"
    kubectl.create(node("n2", gpu=2))
    stage.run_until(lambda: condition(kubectl.get("PodGroup", "waits"), "Scheduled").get("status") == "True")
    assert not condition(kubectl.get("PodGroup", "waits"), "Unschedulable")


def test_an_evicted_pod_is_told_for_whom(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    classes = [priority_class("high", 1000), priority_class("low", 10)]
    kubectl.create_all([queue("default"), *classes, node("n1", gpu=1), pod("victim", priorityClassName="low")])
    stage = Stage(cluster, kubectl, WITH_EVICTIONS)
    stage.run_until(lambda: kubectl.get("Pod", "victim")["status"]["phase"] == "Running")
    documents = gang("winner", 1, group={"priorityClassName": "high"})
    documents[1]["spec"]["priorityClassName"] = "high"
    kubectl.create_all(documents)
    stage.run_until(lambda: events(kubectl, "Pod", "victim", "Evict"))
    [told] = events(kubectl, "Pod", "victim", "Evict")  # no other test has a pod of that name
    assert told["message"].startswith("evicted from n1 for default/winner: preempt: ")
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
    assert events(kubectl, "Pod", "large", "FailedScheduling")[0]["message"] == said["message"]


def test_a_job_that_enqueue_refuses_says_what_refused_it(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), queue("small", capability={"cpu": "1"}), node("n1")])
    kubectl.create_all(gang("refused", 2, group={"queue": "small", "minResources": {"cpu": "2"}})[:1])
    stage = Stage(cluster, kubectl, profile("volcano"))
    stage.run_until(lambda: condition(kubectl.get("PodGroup", "refused"), "Unschedulable"))
    said = condition(kubectl.get("PodGroup", "refused"), "Unschedulable")
    assert said["message"].startswith("not-admitted: ")
    assert "queue resource quota insufficient: queue small: insufficient cpu: 0 of 1 taken, 2 wanted" in said["message"]
    stage.run_until(lambda: events(kubectl, "PodGroup", "refused", "Unschedulable"))
    assert events(kubectl, "PodGroup", "refused", "Unschedulable")[0]["message"] == said["message"]
    assert kubectl.get("PodGroup", "refused")["status"]["phase"] == "Pending"


def test_the_gang_of_an_evicted_pod_is_told_as_well(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    classes = [priority_class("high", 1000), priority_class("low", 10)]
    loser = gang("loser", 1, group={"priorityClassName": "low"})
    loser[1]["spec"]["priorityClassName"] = "low"
    kubectl.create_all([queue("default"), *classes, node("n1", gpu=1), *loser])
    stage = Stage(cluster, kubectl, WITH_EVICTIONS)
    stage.run_until(lambda: kubectl.get("Pod", "loser-0")["status"]["phase"] == "Running")
    winner = gang("over", 1, group={"priorityClassName": "high"})
    winner[1]["spec"]["priorityClassName"] = "high"
    kubectl.create_all(winner)
    stage.run_until(lambda: events(kubectl, "PodGroup", "loser", "Evict"))
    [told] = events(kubectl, "PodGroup", "loser", "Evict")
    assert told["lastTimestamp"]
