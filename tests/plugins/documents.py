"""Nodes and pods from the parts of a document that a test is about, written as users write them."""

from __future__ import annotations

from typing import Any

from muster.api import Node, Pod, decode

AMOUNTS = {"cpu": "8", "memory": "8Gi", "pods": "10"}


def node(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    """A node with a little of everything."""
    document: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": AMOUNTS},
    }
    decoded = decode(document)
    assert isinstance(decoded, Node)
    return decoded


def pod(name: str = "p", labels: dict[str, str] | None = None, namespace: str = "default", **spec: Any) -> Pod:
    """A pod that asks for nothing; pending, or running where `nodeName` says."""
    document: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": [{"name": "main"}], **spec},
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }
    decoded = decode(document)
    assert isinstance(decoded, Pod)
    return decoded
