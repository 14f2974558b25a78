"""Host ports: a port of a node can be held by one pod, per protocol and address.

The address 0.0.0.0 (also written "") stands for all addresses of the node, so it clashes with every other. Ports of
ordinary containers and of sidecars count; other init containers are gone by then.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

from muster.api import Pod
from muster.framework import Verdicts, reason
from muster.plugins.predicates.neighbours import Neighbours
from muster.snapshot import NEEDS_LIVE_CHECK, Rows, TaskStatus

HOST_PORT = reason(
    "host-port",
    "have a pod that holds one of the host ports",
    eviction_helps=True,
    remedy="wait for that pod to finish, add nodes, or use another port",
)

_ANY: Final = "0.0.0.0"  # noqa: S104  # an address to compare with, nothing listens here
_FINISHED: Final = (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.GONE)

#: (address, protocol, port)
HostPort = tuple[str, str, int]


class HostPorts:
    """Who holds which host port, or would once it is placed."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._residents = neighbours.residents
        self._ports: dict[int, list[HostPort]] = {}
        self._holders: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        self._rivals: dict[HostPort, Rows] = {}
        tasks = neighbours.snapshot.tasks
        flagged = np.flatnonzero((tasks.flags & NEEDS_LIVE_CHECK) != 0)
        for row in flagged[~np.isin(tasks.status[flagged], _FINISHED)].tolist():
            ports = host_ports(tasks.pods[row])
            if ports:
                self._ports[row] = ports
                for address, protocol, port in ports:
                    self._holders[protocol, port].append((address, row))

    def live(self, task: int) -> bool:
        """Does the task want host ports?"""
        return task in self._ports

    def reject(self, task: int, verdicts: Verdicts) -> None:
        """Write the reason against each node that is not yet rejected."""
        for wanted in self._ports.get(task, ()):
            taken = self._residents.nodes_of(self._rows(wanted))
            taken = taken[verdicts[taken] == 0]
            verdicts[taken] = HOST_PORT.number

    def _rows(self, wanted: HostPort) -> Rows:
        """Tasks that want the same port of the same address."""
        rows = self._rivals.get(wanted)
        if rows is None:
            address, protocol, port = wanted
            holders = self._holders[protocol, port]
            rivals = [row for other, row in holders if _ANY in (address, other) or address == other]
            rows = self._rivals[wanted] = np.array(rivals, np.int32)
        return rows


def host_ports(pod: Pod) -> list[HostPort]:
    """Host ports of a pod, each once, in order."""
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    found = {
        (port.host_ip or _ANY, port.protocol or "TCP", port.host_port)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    }
    return sorted(found)
