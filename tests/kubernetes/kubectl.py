"""What users do with kubectl, for tests: apply, get, delete, over plain HTTP and one request at a time.

Independent of Muster's own client on purpose, so that a mistake there does not hide itself.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import yaml

from muster.testing.control_plane import ControlPlane

Json = dict[str, Any]

_PLURALS = {
    "Pod": ("api/v1", "pods"),
    "Node": ("api/v1", "nodes"),
    "Namespace": ("api/v1", "namespaces"),
    "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "ReplicaSet": ("apis/apps/v1", "replicasets"),
    "Job": ("apis/batch/v1", "jobs"),
    "VolcanoJob": ("apis/batch.volcano.sh/v1alpha1", "jobs"),
    "VolcanoCronJob": ("apis/batch.volcano.sh/v1alpha1", "cronjobs"),
    "JobFlow": ("apis/flow.volcano.sh/v1alpha1", "jobflows"),
    "JobTemplate": ("apis/flow.volcano.sh/v1alpha1", "jobtemplates"),
    "Command": ("apis/bus.volcano.sh/v1alpha1", "commands"),
    "Service": ("api/v1", "services"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Secret": ("api/v1", "secrets"),
    "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies"),
    "Event": ("api/v1", "events"),
    "Lease": ("apis/coordination.k8s.io/v1", "leases"),
    "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets"),
    "PodGroup": ("apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    "Queue": ("apis/scheduling.volcano.sh/v1beta1", "queues"),
    "HyperNode": ("apis/topology.volcano.sh/v1alpha1", "hypernodes"),
    "CustomResourceDefinition": ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "KaiPodGroup": ("apis/scheduling.run.ai/v2alpha2", "podgroups"),
    "KaiQueue": ("apis/scheduling.run.ai/v2", "queues"),
    "Topology": ("apis/kai.scheduler/v1alpha1", "topologies"),
}
_OF_THE_CLUSTER = frozenset(
    {"Node", "Namespace", "PriorityClass", "Queue", "HyperNode", "CustomResourceDefinition", "KaiQueue", "Topology"}
)
_PATIENCE_S = 15.0
_MADE_BY_TESTS = (
    "Deployment",
    "ReplicaSet",
    "Job",
    "VolcanoCronJob",
    "JobFlow",
    "JobTemplate",
    "VolcanoJob",
    "Command",
    "Lease",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "Queue",
    "HyperNode",
    "PriorityClass",
    "Node",
)


class RefusedError(Exception):
    """The server's answer, when it is no success."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"{status}: {text}")


class Kubectl:
    """A user with all rights."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._connection: http.client.HTTPSConnection | None = None

    def apply(self, text: str) -> None:
        """Make the objects of a YAML text."""
        for document in yaml.safe_load_all(text):
            if document:
                self.create(document)

    def create(self, document: Json) -> Json:
        path = _path(kind_of(document), document["metadata"].get("namespace", "default"))
        return self.request("POST", path, document)

    def create_all(self, documents: Iterable[Json]) -> None:
        for document in documents:
            self.create(document)

    def get(self, kind: str, name: str, namespace: str = "default") -> Json:
        return self.request("GET", f"{_path(kind, namespace)}/{name}")

    def watch(self, kind: str) -> Iterator[Json]:
        """What happens to objects of a kind from now on, on connections of its own, until the server is gone.

        A server ends watches of those who are slow to read; they go on from what they read last.
        """
        root, plural = _PLURALS[kind]
        version = self.request("GET", f"/{root}/{plural}?limit=1")["metadata"]["resourceVersion"]
        return self._events(f"/{root}/{plural}?watch=1&resourceVersion=", version)

    def _events(self, path: str, version: str) -> Iterator[Json]:
        while True:
            apart = Kubectl(self._plane)._connect()
            apart.timeout = None  # nothing may happen for long
            try:
                apart.request("GET", f"{path}{version}", headers={"Authorization": f"Bearer {self._plane.token}"})
                answer = apart.getresponse()
            except OSError:
                return
            for event in _lines(apart, answer):
                if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
                    return  # what was missed cannot be had any more
                version = event["object"]["metadata"]["resourceVersion"]
                yield event

    def list(self, kind: str) -> list[Json]:
        root, plural = _PLURALS[kind]
        items: list[Json] = self.request("GET", f"/{root}/{plural}")["items"]
        return items

    def delete(self, kind: str, name: str, namespace: str = "default", *, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.request("DELETE", f"{_path(kind, namespace)}/{name}", options)

    def patch(self, kind: str, name: str, body: Json, namespace: str = "default", *, status: bool = False) -> Json:
        tail = "/status" if status else ""
        return self.request("PATCH", f"{_path(kind, namespace)}/{name}{tail}", body, "application/merge-patch+json")

    def nodes_of_pods(self) -> dict[str, str]:
        """The node of every pod, "" for those that wait."""
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.list("Pod")}

    def wait(self, what: Callable[[], object], seconds: float = 20.0) -> None:
        """Wait until something holds."""
        until = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < until, f"did not come true in {seconds} s"
            time.sleep(0.05)

    def delete_everything(self) -> None:
        """Delete what tests make, all of a kind and namespace at once, without waiting for grace periods."""
        for kind in _MADE_BY_TESTS:
            things = [thing["metadata"] for thing in self.list(kind)]
            if any(thing["name"].startswith("system-") for thing in things):  # of the server's own
                paths = [f"{_path(kind, '')}/{thing['name']}" for thing in things if thing["name"][:7] != "system-"]
            else:
                namespaces = {thing.get("namespace", "") for thing in things}
                paths = [_path(kind, namespace) for namespace in sorted(namespaces) if namespace[:5] != "kube-"]
            for path in paths:
                self._delete_if_there(path)
        self.wait(lambda: not self.list("Pod") and not self.list("Node"))

    def _delete_if_there(self, path: str) -> None:
        try:
            self.request("DELETE", path, {"gracePeriodSeconds": 0})
        except RefusedError as refused:
            if refused.status != 404:  # it has gone by itself meanwhile
                raise

    def request(self, method: str, path: str, body: Json | None = None, content_type: str = "application/json") -> Json:
        """Send one request; like kubectl, wait while a server that just started asks for it. Raises RefusedError."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._request(method, path, body, content_type)
            except RefusedError as refused:
                if refused.status != 429 or time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def _request(self, method: str, path: str, body: Json | None, content_type: str) -> Json:
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": content_type}
        is_kept = self._connection is not None
        connection = self._connect()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except http.client.RemoteDisconnected:
            self.close()
            if not is_kept or method != "GET":  # a change may have been made all the same
                raise
            return self._request(method, path, body, content_type)  # nobody had used the connection for long
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if answer.status >= 400:
            raise RefusedError(answer.status, text.decode())
        found: Json = json.loads(text)
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            unchecked = ssl._create_unverified_context()
            self._connection = http.client.HTTPSConnection("127.0.0.1", self._plane.port, timeout=30, context=unchecked)
        return self._connection


def _lines(connection: http.client.HTTPSConnection, answer: http.client.HTTPResponse) -> Iterator[Json]:
    with contextlib.closing(connection), contextlib.suppress(OSError, ValueError):
        for line in answer:
            yield json.loads(line)


def kind_of(document: Json) -> str:
    """The name under which this module knows the kind of a document."""
    kind: str = document["kind"]
    if document["apiVersion"].startswith("batch.volcano.sh/"):
        return f"Volcano{kind}"
    return f"Kai{kind}" if document["apiVersion"].startswith("scheduling.run.ai/") else kind


def _path(kind: str, namespace: str) -> str:
    root, plural = _PLURALS[kind]
    return f"/{root}/{plural}" if kind in _OF_THE_CLUSTER else f"/{root}/namespaces/{namespace}/{plural}"


def gang(
    name: str, n_pods: int, *, gpu: int = 1, minimum: int | None = None, group: Json | None = None
) -> Sequence[Json]:
    """A PodGroup of Volcano and its pods."""
    spec = {"minMember": n_pods if minimum is None else minimum, **(group or {})}
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    return [head, *(pod(f"{name}-{number}", gpu=gpu, group=name) for number in range(n_pods))]


def pod(name: str, *, gpu: int = 1, group: str = "", **spec: object) -> Json:
    """A pod for Volcano's scheduler."""
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    amounts = {"cpu": "1", "nvidia.com/gpu": str(gpu)}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def node(name: str, *, gpu: int = 8, labels: Json | None = None) -> Json:
    """A node that KWOK keeps alive."""
    amounts = {"cpu": "96", "memory": "1024Gi", "nvidia.com/gpu": str(gpu), "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def queue(name: str, **spec: object) -> Json:
    """A queue of Volcano."""
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**head, "spec": {"weight": 1, **spec}}


def priority_class(name: str, value: int) -> Json:
    """A priority class."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value}
