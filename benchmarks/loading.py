"""How long files take to load, and a command on a small one: CPU seconds.

S1 and S2 are a cluster of 5,000 nodes and 20,000 pods, half of them running, as kubectl would write it; S3 is `muster
simulate` of one node and one pod in a process of its own, from start to end; S4 is 100 MB of YAML with 350,000 pods.
Files are made by the benchmark, in a directory that goes away.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.cases import Case
from benchmarks.measure import calibrate
from muster.api import load_files

_N_NODES: Final = 5_000
_N_PODS: Final = 20_000
_N_MANY: Final = 350_000
_RUNS: Final = 5
Document = dict[str, Any]


def _node(number: int) -> Document:
    name = f"node-{number:05d}"
    amounts = {"cpu": "96", "memory": "1024Gi", "nvidia.com/gpu": "8", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"z{number // 1000}",
        "rack": f"r{number // 16}",
    }
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2026-01-05T08:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"n-{number}", "labels": labels},
        "spec": {"providerID": f"metal:///{name}"},
        "status": {"allocatable": amounts, "capacity": dict(amounts), "conditions": [ready]},
    }


def _pod(number: int) -> Document:
    gang = f"job-{number // 8:05d}"
    container = {
        "name": "main",
        "image": "registry.example/train:1.4",
        "command": ["python", "train.py"],
        "resources": {
            "limits": {"nvidia.com/gpu": "1"},
            "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
        },
    }
    spec: Document = {
        "containers": [container],
        "priority": 10,
        "priorityClassName": "normal",
        "restartPolicy": "Never",
        "schedulerName": "volcano",
        "tolerations": [{"effect": "NoSchedule", "key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    status = {"phase": "Pending"}
    if number < _N_PODS // 2:
        spec["nodeName"] = f"node-{number // 8:05d}"
        status = {"phase": "Running", "startTime": "2026-01-05T09:00:00Z"}
    metadata = {
        "name": f"{gang}-{number % 8}",
        "namespace": "team-a",
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "creationTimestamp": f"2026-01-05T{8 + number % 10:02d}:{number % 60:02d}:00Z",
        "annotations": {"scheduling.k8s.io/group-name": gang},
        "labels": {"app": "train", "volcano.sh/task-spec": "worker"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _group(number: int) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": f"job-{number:05d}", "namespace": "team-a"},
        "spec": {"minMember": 8},
    }


def _cluster() -> Iterator[Document]:
    yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "normal"}, "value": 10}
    yield from map(_node, range(_N_NODES))
    yield from map(_group, range(_N_PODS // 8))
    yield from map(_pod, range(_N_PODS))


def _as_yaml(file: Path) -> None:
    with file.open("w") as out:
        for document in _cluster():
            out.write("---\n" + yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False))


def _as_json(file: Path) -> None:
    file.write_text(json.dumps({"apiVersion": "v1", "items": list(_cluster()), "kind": "List"}, indent=4))


_SMALL_POD: Final = """\
---
apiVersion: v1
kind: Pod
metadata:
  name: worker-{number}
  namespace: team-{team}
  annotations:
    scheduling.k8s.io/group-name: job-{gang}
  labels:
    app: train
spec:
  schedulerName: volcano
  containers:
  - name: main
    resources:
      requests:
        cpu: "{cpus}"
        memory: {memory}Gi
        nvidia.com/gpu: "1"
"""


def _many_pods(file: Path) -> None:
    with file.open("w") as out:
        for number in range(_N_MANY):
            out.write(
                _SMALL_POD.format(
                    number=number, team=number % 50, gang=number // 64, cpus=1 + number % 16, memory=4 + number % 64
                )
            )


def _tiny(file: Path) -> None:
    pod = _pod(0)
    del pod["spec"]["nodeName"], pod["spec"]["priorityClassName"], pod["metadata"]["annotations"], pod["status"]
    file.write_text("---\n".join(yaml.safe_dump(document) for document in (_node(0), pod)))


def _load_seconds(file: Path) -> tuple[float, dict[str, int]]:
    begin = time.process_time()
    loaded = load_files([file])
    return time.process_time() - begin, {"objects": len(loaded)}


def _least_load_seconds(file: Path) -> tuple[float, dict[str, int]]:
    """The least of some runs: others on the machine make it more, and nothing makes it less."""
    return min((_load_seconds(file) for _ in range(_RUNS)), key=lambda run: run[0])


def _command_seconds(file: Path) -> tuple[float, dict[str, int]]:
    """A whole process, with the bytecode that an installation has."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        samples = []
        for _ in range(_RUNS + 1):  # the first writes the bytecode
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "muster", "simulate", str(file)]
            subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603 - our own command
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            samples.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(samples[1:]), {"runs": _RUNS}


_Measure = Callable[[Path], tuple[float, dict[str, int]]]
_WAYS: Final[dict[str, tuple[str, Callable[[Path], None], _Measure]]] = {
    "S1": ("cluster.yaml", _as_yaml, _least_load_seconds),
    "S2": ("cluster.json", _as_json, _least_load_seconds),
    "S3": ("tiny.yaml", _tiny, _command_seconds),
    "S4": ("pods.yaml", _many_pods, _load_seconds),
}


def _nothing(_mirror: object) -> None:
    """These cases need no mirror."""


LOADING_CASES: Final = (
    Case("S1", "load 5,000 nodes and 20,000 pods from YAML (CPU)", 2.5, _nothing),
    Case("S2", "load 5,000 nodes and 20,000 pods from JSON (CPU)", 0.6, _nothing),
    Case("S3", "`muster simulate` of one node and one pod, from start to end (CPU)", 0.6, _nothing),
    Case("S4", "load 350,000 pods from 100 MB of YAML (CPU), in at most 4 GiB", 40.0, _nothing),
)


def loading_result(case: Case) -> dict[str, Any]:
    """Measure one case, and return what results.json holds."""
    name, write, measure = _WAYS[case.name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        write(file)
        seconds, done = measure(file)
        done["MB"] = file.stat().st_size // 10**6
    return {
        "case": case.name,
        "work": case.work,
        "seconds": round(seconds, 4),
        "goal_seconds": case.goal,
        "runs": done.pop("runs", 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calibration_seconds": calibrate(),
        "done": done,
        "parts": {"snapshot": 0.0, "session": 0.0, "actions": 0.0},
    }
