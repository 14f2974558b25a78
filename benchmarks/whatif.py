"""What-if on a large cluster that is loaded (R4): CPU seconds from the question to the answer.

5,000 nodes of eight GPUs and 50,000 pods: gangs of eight that hold nearly all GPUs and say for how long, others that
ask for CPUs, and some that wait. Asked is what a submitted gang of 64 GPUs and eight more nodes would do.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from benchmarks.cases import Case
from benchmarks.measure import calibrate
from muster.api import (
    Container,
    KubeObject,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSpec,
    PodStatus,
    Quantity,
    Queue,
    QueueSpec,
    ResourceRequirements,
)
from muster.api.names import EXPECTED_SECONDS, GROUP_NAME
from muster.framework import find_config
from muster.whatif import AddNodes, Options, Submit, load, what_if

_NODES: Final = 5_000
_PODS: Final = 50_000
_GANG: Final = 8
#: Of those that hold no GPU every so many-th waits for some.
_WAITS: Final = 20
_RUNS: Final = 3
_BEGAN: Final = datetime(2026, 1, 5, 8, tzinfo=UTC)
_GPU: Final = ResourceRequirements(
    requests={"cpu": Quantity("8"), "memory": Quantity("64Gi"), "nvidia.com/gpu": Quantity("1")}
)
_CPU: Final = ResourceRequirements(requests={"cpu": Quantity("4"), "memory": Quantity("16Gi")})

WHAT_IF_CASES: Final = (Case("R4", "what-if on 5,000 nodes and 50,000 pods, loaded (CPU)", 1.0, lambda _mirror: None),)


def _nodes() -> Iterator[KubeObject]:
    amounts = {"cpu": "96", "memory": "1024Gi", "nvidia.com/gpu": "8", "pods": "110"}
    status = NodeStatus(allocatable={name: Quantity(text) for name, text in amounts.items()})
    for number in range(_NODES):
        name = f"node-{number:05d}"
        yield Node(metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}), status=status)


def _gang(number: int, nodes: list[str], resources: ResourceRequirements) -> Iterator[KubeObject]:
    """A gang on nodes, one for each pod; "": it waits."""
    name, came = f"job-{number:05d}", _BEGAN + timedelta(seconds=number)
    runs = bool(nodes[0])
    yield PodGroup(
        metadata=ObjectMeta(name=name, namespace="team", uid=f"g{number}", creation_timestamp=came),
        spec=PodGroupSpec(min_member=len(nodes), queue=f"q{number % 4}"),
        status=PodGroupStatus(phase="Running" if runs else "Inqueue"),
    )
    marks = {GROUP_NAME: name, **({EXPECTED_SECONDS: str(40_000 + 3 * number)} if runs else {})}
    for index, node in enumerate(nodes):
        yield Pod(
            metadata=ObjectMeta(
                name=f"{name}-{index}",
                namespace="team",
                uid=f"p{number}-{index}",
                creation_timestamp=came,
                annotations=marks,
            ),
            spec=PodSpec(containers=[Container(name="main", resources=resources)], node_name=node, priority=0),
            status=PodStatus(phase="Running", start_time=came) if runs else PodStatus(phase="Pending"),
        )


def _cluster() -> Iterator[KubeObject]:
    yield from _nodes()
    for number in range(4):
        yield Queue(metadata=ObjectMeta(name=f"q{number}"), spec=QueueSpec(weight=1))
    with_gpus = _NODES - _GANG  # one gang fills a node
    for number in range(_PODS // _GANG):
        if number < with_gpus:
            yield from _gang(number, [f"node-{number:05d}"] * _GANG, _GPU)
        elif number % _WAITS == 0:
            yield from _gang(number, [""] * _GANG, _GPU)
        else:
            first = number * _GANG
            yield from _gang(number, [f"node-{(first + index) % _NODES:05d}" for index in range(_GANG)], _CPU)


def what_if_result(case: Case) -> dict[str, Any]:
    """Measure the case, and return what results.json holds."""
    picture = load(_cluster(), Options(config=find_config("muster")))
    gang = list(_gang(_PODS, [""] * 64, _GPU))
    gc.freeze()  # as a command has it: what was loaded is not looked through again and again
    samples, found = [], None
    for _ in range(_RUNS):
        began = time.process_time()
        found = what_if(picture, [AddNodes(8, "node-00000"), Submit(tuple(gang))])
        samples.append(time.process_time() - began)
    assert found is not None
    return {
        "case": case.name,
        "work": case.work,
        "seconds": min(samples),
        "goal_seconds": case.goal,
        "runs": _RUNS,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calibration_seconds": calibrate(),
        "done": {
            "cycles": found.without.cycles + found.within.cycles,
            "jobs that fare otherwise": len(found.differences),
            "seconds ahead": found.within.seconds,
        },
        "parts": {"snapshot": 0.0, "session": 0.0, "actions": 0.0},
    }
