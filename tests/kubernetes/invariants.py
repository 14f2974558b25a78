"""What must hold in a cluster at any moment, whatever went wrong."""

from __future__ import annotations

from collections import Counter

from tests.kubernetes.kubectl import Json, Kubectl

GROUP = "scheduling.k8s.io/group-name"


def check(kubectl: Kubectl) -> None:
    """No node is over-committed, and no gang has less than its minimum on nodes, unless nothing at all."""
    pods = [known for known in kubectl.list("Pod") if known["status"]["phase"] in ("Pending", "Running")]
    used: Counter[str] = Counter()
    bound: Counter[str] = Counter()
    for known in pods:
        if where := known["spec"].get("nodeName"):
            used[where] += _gpus(known)
            bound[known["metadata"].get("annotations", {}).get(GROUP, "")] += 1
    for node in kubectl.list("Node"):
        assert used[node["metadata"]["name"]] <= int(node["status"]["allocatable"]["nvidia.com/gpu"])
    for group in kubectl.list("PodGroup"):
        name = group["metadata"]["name"]
        assert bound[name] == 0 or bound[name] >= group["spec"]["minMember"], f"{name} is half bound: {bound[name]}"


def _gpus(pod: Json) -> int:
    return sum(int(each["resources"]["requests"].get("nvidia.com/gpu", 0)) for each in pod["spec"]["containers"])


def n_promised(kubectl: Kubectl) -> int:
    """Pods that wait for a node that was promised to them; the promise stays on those that got it."""
    pods = kubectl.list("Pod")
    return sum(bool(each["status"].get("nominatedNodeName")) and not each["spec"].get("nodeName") for each in pods)
