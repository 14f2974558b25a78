"""Hostile objects that a real API server accepts, before, between and after good gangs: the good ones always start."""

from __future__ import annotations

from functools import partial
from typing import Final

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Kubectl, gang, node, queue
from tests.kubernetes.poison import Poison
from tests.kubernetes.stage import Stage
from tests.properties.hostile_objects import CROWDED

#: Of each kind of place: a hundred objects in all.
_ROUNDS: Final = 5
_OBJECTS: Final = 20
_PATIENCE_S: Final = 60.0


def test_good_gangs_start_whatever_the_server_lets_in(
    control_plane: ControlPlane, cluster: KubernetesCluster, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), *(node(name) for name in ("n1", "n2", CROWDED))])
    stage, poison = Stage(cluster, kubectl), Poison(kubectl, seed=1)
    accepted = quarantined = 0
    with KubernetesCluster(control_plane.kubeconfig) as other:
        standby = Stage(other, kubectl)
        for number in range(_ROUNDS):
            before, between, after = (gang(f"{place}-{number}", 2, gpu=1) for place in ("before", "between", "after"))
            kubectl.create_all([*before, between[0]])
            accepted += poison.put(_OBJECTS)
            kubectl.create_all([*between[1:], *after])
            pods = [f"{place}-{number}-{k}" for place in ("before", "between", "after") for k in (0, 1)]
            stage.run_until(partial(stage.is_bound, *pods), _PATIENCE_S)
            standby.scheduler.observe()
            quarantined += len(stage.scheduler.mirror.quarantine)
            with KubernetesCluster(control_plane.kubeconfig) as anew:  # a restart in the middle of it
                assert Stage(anew, kubectl).run_once().faults == ()
            poison.remove()
            for place in ("before", "between", "after"):
                kubectl.delete("PodGroup", f"{place}-{number}")
            for name in pods:
                kubectl.delete("Pod", name, grace=0)
            stage.run_until(lambda: is_clean(stage), _PATIENCE_S)
            kubectl.wait(lambda: is_clean(standby), _PATIENCE_S)
    assert accepted >= _ROUNDS * _OBJECTS
    assert quarantined > 0
    assert poison.kinds >= {"Pod", "Node", "PodGroup", "Queue", "HyperNode"}
    assert all(result.faults == () for result in stage.results)


def is_clean(stage: Stage) -> bool:
    """Whether nothing is left of anybody."""
    snapshot = stage.scheduler.observe()
    return not len(stage.scheduler.mirror.quarantine) and not snapshot.jobs.live.any() and len(snapshot.nodes) == 3


def test_what_is_wrong_stands_on_the_objects_and_goes_when_it_is_corrected(
    cluster: KubernetesCluster, kubectl: Kubectl
) -> None:
    odd = node("odd")
    odd["status"]["allocatable"]["cpu"] = "10E"
    bad = gang("bad", 1)
    bad[1]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100P"}}
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
    rack = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "rack"}}
    rack |= {"spec": {"tier": 2**40, "members": [member]}}
    kubectl.create_all([queue("default"), node("n1"), odd, rack, *bad, *gang("good", 2)])
    stage = Stage(cluster, kubectl)
    stage.run_until(lambda: stage.is_bound("good-0", "good-1"))

    def condition(kind: str, name: str, wanted: str) -> str:
        known = kubectl.get(kind, name).get("status", {}).get("conditions", [])
        return next((str(each.get("message")) for each in known if each["type"] == wanted), "")

    stage.run_until(lambda: "status.allocatable.cpu" in condition("Node", "odd", "muster.sh/Usable"))
    stage.run_until(lambda: "100P" in condition("Pod", "bad-0", "PodScheduled"))
    stage.run_until(lambda: "Pod default/bad-0" in condition("PodGroup", "bad", "Unschedulable"))
    stage.run_until(lambda: "spec.tier: " in condition("HyperNode", "rack", "Valid"))
    stage.run_until(lambda: {"odd", "bad-0", "rack"} <= told(kubectl))
    kubectl.patch("HyperNode", "rack", {"spec": {"tier": 1}})
    stage.run_until(lambda: condition("HyperNode", "rack", "Valid") == "all of its members were found")
    assert kubectl.get("HyperNode", "rack")["status"]["nodeCount"] == 1
    kubectl.patch("Node", "odd", {"status": {"allocatable": {"cpu": "8"}}}, status=True)
    stage.run_until(lambda: condition("Node", "odd", "muster.sh/Usable") == "can be used")
    stage.run_until(lambda: len(stage.scheduler.mirror.quarantine) == 1)


def told(kubectl: Kubectl) -> set[str]:
    """Names of objects of which an event says that they cannot be used."""
    events = kubectl.request("GET", "/api/v1/events")["items"]
    return {event["involvedObject"]["name"] for event in events if event.get("reason") == "Quarantined"}
