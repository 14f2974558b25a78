"""What a process does once so that its first decision is as fast as the others. Called by the service.

Compiled code is loaded when it is first called, which takes longer than most cycles: `warm_up` places a gang that
nobody sees. Objects that will live as long as the process are taken out of the collector's sight: it would look at
hundreds of thousands of them again and again, and stop the watches while it does.
"""

from __future__ import annotations

import gc
import logging
import sys
from typing import Final

from muster.api import Container, Node, ObjectMeta, Pod, PodGroup, PodGroupSpec, PodSpec, Quantity, Queue
from muster.api.objects.node import NodeStatus
from muster.api.objects.pod import ResourceRequirements
from muster.framework import Registry, SchedulerConfig, Session
from muster.snapshot import Mirror

log = logging.getLogger("muster.server")

#: Objects made before the youngest are looked at; the default, 700, is a few pods.
_YOUNG: Final = 50_000
#: Seconds that a cycle may keep the watches from running, and they it.
_SWITCH_SECONDS: Final = 0.001


def warm_up(config: SchedulerConfig, registry: Registry) -> None:
    """Run the actions once on a picture of one node and a gang of two."""
    mirror = Mirror()
    for item in _picture():
        mirror.upsert(item)
    try:
        session = Session(mirror.snapshot(), config, registry)
        for name in config.actions:
            registry.make_action(name, config.arguments_of(name)).run(session)
    except Exception as fault:  # noqa: BLE001  # a plugin that fails here fails in cycles too, and is reported there
        log.warning("event=warm-up-failed error=%r", str(fault))


def settle_memory() -> None:
    """Leave what is there now to live on, and let threads take turns quickly."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)
    sys.setswitchinterval(_SWITCH_SECONDS)


def _picture() -> list[Node | Queue | PodGroup | Pod]:
    amounts = {"cpu": Quantity.of("1"), "pods": Quantity.of("9")}
    requests = ResourceRequirements(requests={"cpu": Quantity.of("100m")})
    pods = [
        Pod(
            metadata=ObjectMeta(name=name, annotations={"scheduling.k8s.io/group-name": "warm-up"}),
            spec=PodSpec(containers=[Container(name="main", resources=requests)]),
        )
        for name in ("a", "b")
    ]
    return [
        Node(metadata=ObjectMeta(name="warm-up"), status=NodeStatus(allocatable=amounts, capacity=amounts)),
        Queue(metadata=ObjectMeta(name="default")),
        PodGroup(metadata=ObjectMeta(name="warm-up"), spec=PodGroupSpec(min_member=2, queue="default")),
        *pods,
    ]
