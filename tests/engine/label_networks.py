"""Clusters with a label topology, and KAI's PodGroups with constraints on it, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from muster.api import (
    KaiPodGroup,
    KaiPodGroupSpec,
    KaiSubGroup,
    KaiTopologyConstraint,
    KubeObject,
    ObjectMeta,
    Pod,
    Topology,
    TopologyLevel,
    TopologySpec,
)
from muster.api.names import KAI_GROUP_NAME, KAI_SUBGROUP
from muster.framework import Session
from muster.snapshot import Rows, TaskStatus
from muster.testing import node, pod
from tests.engine.stage import configured, job_row, open_session

ZONE, RACK = "net/zone", "net/rack"
NETWORK = "network"


def topology(name: str = NETWORK, levels: Sequence[str] = (ZONE, RACK)) -> Topology:
    spec = TopologySpec(levels=[TopologyLevel(node_label=label) for label in levels])
    return Topology(metadata=ObjectMeta(name=name), spec=spec)


def racks(sizes: Mapping[str, Sequence[int]], *, gpu: int = 8, interleaved: bool = False) -> list[KubeObject]:
    """Zones of racks of nodes: {"z0": [2, 3]} is a zone z0 with racks r0 (2 nodes) and r1 (3 nodes).

    Nodes are called z0-r0-n0 and so on; interleaved, n0-z0-r0, so that the nodes of a rack are not next to each other.
    """
    found: list[KubeObject] = [topology()]
    for zone, counts in sizes.items():
        for rack, count in enumerate(counts):
            for number in range(count):
                name = f"n{number}-{zone}-r{rack}" if interleaved else f"{zone}-r{rack}-n{number}"
                found.append(node(name, gpu=gpu, labels={ZONE: zone, RACK: f"r{rack}"}))
    return found


def rack_of(name: str) -> str:
    """z0-r1 of z0-r1-n2 and of n2-z0-r1."""
    return "-".join(part for part in name.split("-") if not part.startswith("n"))


def within(required: str = "", preferred: str = "", name: str = NETWORK) -> KaiTopologyConstraint:
    return KaiTopologyConstraint(topology=name, required_topology_level=required, preferred_topology_level=preferred)


def sub_group(
    name: str, minimum: int | None = None, constraint: KaiTopologyConstraint | None = None, *, parent: str | None = None
) -> KaiSubGroup:
    return KaiSubGroup(name=name, min_member=minimum, parent=parent, topology_constraint=constraint)


def group(
    name: str,
    minimum: int,
    constraint: KaiTopologyConstraint | None = None,
    sub_groups: Sequence[KaiSubGroup] = (),
    *,
    priority: str = "",
) -> KaiPodGroup:
    spec = KaiPodGroupSpec(
        min_member=minimum,
        queue="default",
        topology_constraint=constraint,
        sub_groups=list(sub_groups),
        priority_class_name=priority,
    )
    return KaiPodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def members(
    name: str, count: int, *, role: str = "", on: Sequence[str] = (), gpu: int = 8, **options: Any
) -> list[KubeObject]:
    """Pods name-0 and so on (name-role-0 of a sub-group), the first ones running on the nodes `on`."""
    labels = {KAI_SUBGROUP: role} if role else {}
    prefix = f"{name}-{role}" if role else name
    return [
        pod(
            f"{prefix}-{k}",
            gpu=gpu,
            node=on[k] if k < len(on) else "",
            labels=labels,
            annotations={KAI_GROUP_NAME: name},
            **options,
        )
        for k in range(count)
    ]


def filler(nodes: Iterable[str], *, gpu: int = 8, leaving: bool = False) -> list[Pod]:
    """Lone pods that take so much of each node."""
    found = [pod(f"filler-{name}", gpu=gpu, node=name) for name in nodes]
    for one in found if leaving else ():
        one.metadata.deletion_timestamp = one.metadata.creation_timestamp or _LONG_AGO
    return found


_LONG_AGO = pod("old", created=0.0).metadata.creation_timestamp


def opened(*objects: KubeObject) -> Session:
    """A session without scores: of equal nodes the first by name is taken."""
    return open_session(objects, configured("gang", "predicates"))


def pending(session: Session, name: str) -> Rows:
    """Pending tasks of a job, in the order of their names."""
    tasks = session.snapshot.tasks
    rows = session.snapshot.tasks_of(job_row(session, name))
    waiting = [row for row in rows.tolist() if tasks.status[row] == TaskStatus.PENDING]
    return np.array(sorted(waiting, key=lambda row: tasks.ids[row]), np.intp)
