"""What must hold in a cluster at any moment, whatever went wrong."""

from __future__ import annotations

from collections import Counter

from tests.kubernetes.kubectl import Json, Kubectl

GROUP = "scheduling.k8s.io/group-name"


def check(kubectl: Kubectl) -> None:
    """No node is over-committed, and no gang has less than its minimum on nodes, unless nothing at all."""
    check_room(kubectl)
    bound = Counter(each["metadata"].get("annotations", {}).get(GROUP, "") for each in _on_nodes(kubectl))
    for group in kubectl.list("PodGroup"):
        name = group["metadata"]["name"]
        assert bound[name] == 0 or bound[name] >= group["spec"]["minMember"], f"{name} is half bound: {bound[name]}"


def check_room(kubectl: Kubectl) -> None:
    """No node is over-committed."""
    used: Counter[str] = Counter()
    for each in _on_nodes(kubectl):
        used[each["spec"]["nodeName"]] += _gpus(each)
    for node in kubectl.list("Node"):
        name = node["metadata"]["name"]
        assert used[name] <= int(node["status"]["allocatable"]["nvidia.com/gpu"]), f"{name} is over-committed"


def _on_nodes(kubectl: Kubectl) -> list[Json]:
    alive = (each for each in kubectl.list("Pod") if each["status"]["phase"] in ("Pending", "Running"))
    return [each for each in alive if each["spec"].get("nodeName")]


def _gpus(pod: Json) -> int:
    return sum(int(each["resources"]["requests"].get("nvidia.com/gpu", 0)) for each in pod["spec"]["containers"])


def n_promised(kubectl: Kubectl) -> int:
    """Pods that wait for a node that was promised to them; the promise stays on those that got it."""
    pods = kubectl.list("Pod")
    return sum(bool(each["status"].get("nominatedNodeName")) and not each["spec"].get("nodeName") for each in pods)
