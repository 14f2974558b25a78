"""What the cases create, as requests: path and body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from muster.api.kinds import decode_as
from muster.api.objects.batch import Job
from muster.controllers.jobs.pods import PodMaker

Json = dict[str, Any]  # Any: a document

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
NODES = "/api/v1/nodes"
GPU = "nvidia.com/gpu"
ONE_GPU: Json = {"cpu": "1", "memory": "4Gi", GPU: "1"}
STARTED = "2026-01-01T00:00:00Z"


class Request(NamedTuple):
    """Where to send what."""

    path: str
    body: bytes


def nodes(count: int) -> Iterator[Request]:
    """Nodes of 96 CPUs, 1 TiB and 8 GPUs."""
    amounts = {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}
    for number in range(count):
        name = node_name(number)
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready(STARTED)]}
        yield _request(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})


def node_name(number: int) -> str:
    """The name of a node by its number."""
    return f"node-{number:05d}"


def ready(beat: str) -> Json:
    """The condition that a kubelet writes again with every heartbeat."""
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": beat,
        "lastTransitionTime": STARTED,
    }


def queue() -> Request:
    """The queue that all gangs are in."""
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    return _request("/apis/scheduling.volcano.sh/v1beta1/queues", {**head, "spec": {"weight": 1}})


def priority_class(name: str, value: int) -> Request:
    """A priority class."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return _request("/apis/scheduling.k8s.io/v1/priorityclasses", {**head, "value": value})


def group(name: str, size: int, **spec: object) -> Request:
    """A PodGroup of which all members must run."""
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    return _request(GROUPS, {**head, "spec": {"minMember": size, **spec}})


def pod(name: str, *, of: str = "", **spec: object) -> Request:
    """A pod of a gang, or a pod alone for whoever serves its schedulerName."""
    annotations = {"scheduling.k8s.io/group-name": of} if of else {}
    meta = {"name": name, "labels": {"app": "benchmark"}, "annotations": annotations}
    whole = {"schedulerName": "volcano", "containers": [container(ONE_GPU)], **spec}
    return _request(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole})


def job(name: str, replicas: int, **spec: object) -> Request:
    """A Job of Volcano whose pods must run together."""
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
    template = {"metadata": {"labels": {"app": "benchmark"}}, "spec": {"containers": [container(ONE_GPU)]}}
    whole = {
        "minAvailable": replicas,
        "schedulerName": "volcano",
        "queue": "default",
        "tasks": [{"name": "main", "replicas": replicas, "template": template}],
        **spec,
    }
    return _request(JOBS, {**head, "spec": whole})


def pods_of_job(name: str, replicas: int) -> Iterator[Request]:
    """The pods of such a Job as controllers make them; the Job itself need not be there."""
    made = decode_as(msgspec.json.decode(job(name, replicas).body), Job)
    made.metadata.namespace, made.metadata.uid = NAMESPACE, "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
    maker = PodMaker(made, made.spec.tasks[0], [])
    for index in range(replicas):
        yield _request(PODS, maker.make(index))


def ended_job(name: str) -> Request:
    """The status of a Job that is complete, and that nothing stands beside any more."""
    state = {"phase": "Completed", "lastTransitionTime": STARTED}
    conditions = [{"status": "Completed", "lastTransitionTime": STARTED}]
    status = {"state": state, "conditions": conditions, "minAvailable": 8, "succeeded": 0, "version": 1}
    return _request(f"{JOBS}/{name}/status", {"status": status})


def succeeded(name: str) -> Request:
    """The status of a pod that has ended well, as a kubelet writes it."""
    return _request(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})


def container(amounts: Json) -> Json:
    """A container that asks for what it may use."""
    return {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}


def gang(name: str, size: int, **spec: object) -> Iterator[Request]:
    """The pods of a gang; its group is made apart."""
    for number in range(size):
        yield pod(f"{name}-{number:04d}", of=name, **spec)


def binding(name: str, node: str) -> Request:
    """A Binding, as raw rates are measured with."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    return _request(f"{PODS}/{name}/binding", body)


def nomination(name: str, node: str) -> Request:
    """The note that a pod waits for a node."""
    return _request(f"{PODS}/{name}/status", {"status": {"nominatedNodeName": node}})


def eviction(name: str) -> Request:
    """The question whether a pod may be asked to leave, and the asking."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return _request(f"{PODS}/{name}/eviction", body)


def running(name: str) -> Request:
    """The status of a pod that runs, as a kubelet writes it."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": STARTED}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    container = {
        "name": "main",
        "image": "none",
        "imageID": "none",
        "ready": True,
        "restartCount": 0,
        "started": True,
        "state": {"running": {"startedAt": STARTED}},
    }
    status = {
        "phase": "Running",
        "startTime": STARTED,
        "hostIP": "10.0.0.1",
        "podIP": "10.0.0.2",
        "podIPs": [{"ip": "10.0.0.2"}],
        "conditions": conditions,
        "containerStatuses": [container],
    }
    return _request(f"{PODS}/{name}/status", {"status": status})


def heartbeat(node: str, beat: str) -> Request:
    """What a kubelet writes when nothing has changed."""
    return _request(f"{NODES}/{node}/status", {"status": {"conditions": [ready(beat)]}})


def _request(path: str, body: Json) -> Request:
    return Request(path, msgspec.json.encode(body))
