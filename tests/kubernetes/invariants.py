"""What must hold in a cluster at any moment, whatever went wrong."""

from __future__ import annotations

from collections import Counter

from tests.kubernetes.kubectl import Json, Kubectl
from tests.properties.hostile_objects import NAMESPACE

GROUP = "scheduling.k8s.io/group-name"


def check(kubectl: Kubectl) -> None:
    """No node is over-committed, and no gang has less than its minimum on nodes, unless nothing at all."""
    check_room(kubectl)
    assert not half_gangs(kubectl)


def half_gangs(kubectl: Kubectl) -> dict[str, int]:
    """Gangs that have pods on nodes, but fewer than their minimum, and how many those are."""
    bound = Counter(each["metadata"].get("annotations", {}).get(GROUP, "") for each in _on_nodes(kubectl))
    minimums = {group["metadata"]["name"]: group["spec"]["minMember"] for group in kubectl.list("PodGroup")}
    return {name: bound[name] for name, minimum in minimums.items() if 0 < bound[name] < minimum}


def check_room(kubectl: Kubectl) -> None:
    """No node is over-committed."""
    used: Counter[str] = Counter()
    for each in _on_nodes(kubectl):
        used[each["spec"]["nodeName"]] += _gpus(each)
    for node in kubectl.list("Node"):
        name = node["metadata"]["name"]
        if name.startswith("evil"):
            continue  # nobody knows what it has
        assert used[name] <= int(node["status"]["allocatable"]["nvidia.com/gpu"]), f"{name} is over-committed"


def _on_nodes(kubectl: Kubectl) -> list[Json]:
    alive = (each for each in kubectl.list("Pod") if each["status"]["phase"] in ("Pending", "Running"))
    return [each for each in alive if each["spec"].get("nodeName") and each["metadata"]["namespace"] != NAMESPACE]


def _gpus(pod: Json) -> int:
    return sum(int(each["resources"]["requests"].get("nvidia.com/gpu", 0)) for each in pod["spec"]["containers"])


def n_promised(kubectl: Kubectl) -> int:
    """Pods that wait for a node that was promised to them; the promise stays on those that got it."""
    pods = kubectl.list("Pod")
    return sum(bool(each["status"].get("nominatedNodeName")) and not each["spec"].get("nodeName") for each in pods)
