"""Small hand-made cases in the recorded format, for the tests of the runner."""

import gzip
import json
from pathlib import Path
from typing import Any

from conformance.cases import Case, read_cases
from conformance.disagreements import Disagreements, Entry
from conformance.results import Result
from conformance.runner import Runner
from muster.scheduler import builtin_registry

Body = dict[str, Any]
GANG = {"name": "gang", "enableJobReady": True, "enableJobPipelined": True}
VOLCANO_API = "scheduling.volcano.sh/v1beta1"


def node(name: str, cpu: str) -> Body:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str, group: str, cpu: str = "1", **spec: Any) -> Body:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "annotations": {"scheduling.k8s.io/group-name": group},
        },
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Running" if spec.get("nodeName") else "Pending"},
    }


def group(name: str, minimum: int) -> Body:
    return {
        "apiVersion": VOLCANO_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": minimum, "queue": "q"},
        "status": {"phase": "Inqueue"},
    }


def cluster_case(expect: Body, **changes: Any) -> Body:
    """A gang of two, and a node of two CPUs that holds both."""
    queue = {"apiVersion": VOLCANO_API, "kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 1}}
    case: Body = {
        "id": "area/Test/01-gang-of-two",
        "tags": [],
        "config": {"actions": ["allocate"], "registeredPlugins": ["gang"], "tiers": [{"plugins": [GANG]}]},
        "objects": {
            "nodes": [node("n1", "2")],
            "queues": [queue],
            "podGroups": [group("two", 2)],
            "pods": [pod("a", "two"), pod("b", "two")],
        },
        "expect": expect,
    }
    return {**case, **changes}


def function_case(function: str, given: Body, expect: Body) -> Body:
    return {
        "id": f"area/{function}/01",
        "tags": ["function"],
        "function": function,
        "input": given,
        "expect": expect,
    }


def write_cases(folder: Path, *bodies: Body, name: str = "cases.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(bodies).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def load(tmp_path: Path, body: Body) -> Case:
    return next(read_cases(write_cases(tmp_path, body)))


def run(tmp_path: Path, body: Body, *entries: Entry, strict: bool = False) -> Result:
    """Run one case with a list of decided disagreements."""
    registry = builtin_registry(third_party=False)
    return Runner(registry, Disagreements(list(entries)), strict=strict).run(load(tmp_path, body))
