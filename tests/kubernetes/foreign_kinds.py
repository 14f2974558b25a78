"""Definitions of kinds that other projects install, as loose as the server takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.kubernetes.kubectl import Json, Kubectl, RefusedError


def definition(group: str, version: str, kind: str, plural: str, *, namespaced: bool = False) -> Json:
    """A kind of which the server checks nothing."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


NODE_SHARD = definition("shard.volcano.sh", "v1alpha1", "NodeShard", "nodeshards")
KAI_QUEUE = definition("scheduling.run.ai", "v2", "Queue", "queues")
KAI_GROUP = definition("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", namespaced=True)
KUEUE_TOPOLOGY = definition("kueue.x-k8s.io", "v1beta1", "Topology", "topologies")


@contextmanager
def installed(kubectl: Kubectl, *definitions: Json) -> Iterator[None]:
    """Kinds that are there for a while, and their objects with them."""
    for each in definitions:
        kubectl.create(each)
    try:
        for each in definitions:
            kubectl.wait(partial(is_served, kubectl, path_of(each)))
        yield
    finally:
        for each in definitions:
            kubectl.delete("CustomResourceDefinition", each["metadata"]["name"])
        for each in definitions:
            kubectl.wait(partial(is_gone, kubectl, path_of(each)))


def path_of(definition: Json, namespace: str = "") -> str:
    """Where the objects of a kind are."""
    spec = definition["spec"]
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}{inside}/{spec['names']['plural']}"


def is_served(kubectl: Kubectl, path: str) -> bool:
    try:
        kubectl.request("GET", path)
    except RefusedError as refused:
        if refused.status not in (404, 405):
            raise
        return False
    return True


def is_gone(kubectl: Kubectl, path: str) -> bool:
    return not is_served(kubectl, path)


def make(kubectl: Kubectl, definition: Json, name: str, spec: Json, labels: Json | None = None) -> None:
    """Make an object of such a kind."""
    document = {
        "apiVersion": f"{definition['spec']['group']}/{definition['spec']['versions'][0]['name']}",
        "kind": definition["spec"]["names"]["kind"],
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
    }
    namespace = "default" if definition["spec"]["scope"] == "Namespaced" else ""
    kubectl.request("POST", path_of(definition, namespace), document)
