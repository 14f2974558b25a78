"""What users of Volcano do with kubectl: apply, look, apply again, delete."""

from __future__ import annotations

import yaml

from muster.api.names import START_STAMP
from muster.cluster.kubernetes import KubernetesCluster
from tests.kubernetes.kubectl import Json, Kubectl, node
from tests.kubernetes.stage import Stage

MANIFEST = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec:
  weight: 2
  reclaimable: true
  capability: {cpu: "64", nvidia.com/gpu: "8"}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train, namespace: default}
spec:
  minMember: 2
  minResources: {cpu: "4", nvidia.com/gpu: "2"}
  queue: research
  priorityClassName: ""
---
apiVersion: v1
kind: Pod
metadata:
  name: train-0
  namespace: default
  annotations: {scheduling.k8s.io/group-name: train}
spec:
  schedulerName: volcano
  restartPolicy: Never
  containers:
  - name: main
    image: busybox
    resources:
      requests: {cpu: "2", nvidia.com/gpu: "1"}
      limits: {nvidia.com/gpu: "1"}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-1
  namespace: default
  annotations: {scheduling.k8s.io/group-name: train}
spec:
  schedulerName: volcano
  restartPolicy: Never
  containers:
  - name: main
    image: busybox
    resources:
      requests: {cpu: "2", nvidia.com/gpu: "1"}
      limits: {nvidia.com/gpu: "1"}
"""

_PATHS = {
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
    "Pod": "/api/v1/namespaces/default/pods",
}


def apply(kubectl: Kubectl, text: str) -> None:
    """`kubectl apply --server-side`: a conflict with what Muster wrote would be an error."""
    for document in yaml.safe_load_all(text):
        path = f"{_PATHS[document['kind']]}/{document['metadata']['name']}?fieldManager=kubectl"
        kubectl.request("PATCH", path, document, "application/apply-patch+yaml")


def group(kubectl: Kubectl) -> Json:
    return kubectl.get("PodGroup", "train")


def test_a_pod_group_is_applied_runs_is_applied_again_and_deleted(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    stage = Stage(cluster, kubectl)
    apply(kubectl, MANIFEST)
    stage.run_until(lambda: group(kubectl).get("status", {}).get("phase") in ("Pending", "Inqueue"))
    kubectl.create(node("n1", gpu=2))
    stage.run_until(lambda: group(kubectl)["status"].get("running") == 2)
    assert group(kubectl)["status"]["phase"] == "Running"
    assert kubectl.nodes_of_pods() == {"train-0": "n1", "train-1": "n1"}

    started = group(kubectl)["metadata"]["annotations"][START_STAMP]
    apply(kubectl, MANIFEST)
    assert group(kubectl)["metadata"]["annotations"][START_STAMP] == started
    assert group(kubectl)["status"]["running"] == 2

    for name in ("train-0", "train-1"):
        kubectl.delete("Pod", name)
    stage.run_until(lambda: not kubectl.list("Pod"))
    stage.run_until(lambda: group(kubectl)["status"].get("running", 0) == 0)
    kubectl.delete("PodGroup", "train")
    stage.run_until(lambda: not kubectl.list("PodGroup"))


def test_a_gang_that_does_not_fit_says_so_where_its_users_look(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create(node("n1", gpu=1))
    apply(kubectl, MANIFEST)
    stage = Stage(cluster, kubectl)

    def told() -> list[tuple[str, str]]:
        conditions = group(kubectl).get("status", {}).get("conditions", [])
        return [(known["type"], known["status"]) for known in conditions]

    stage.run_until(lambda: ("Unschedulable", "True") in told())
    assert set(kubectl.nodes_of_pods().values()) == {""}
    kubectl.create(node("n2", gpu=1))
    stage.run_until(lambda: stage.is_bound("train-0", "train-1"))
    stage.run_until(lambda: ("Unschedulable", "True") not in told())
