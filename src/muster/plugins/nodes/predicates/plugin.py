"""Predicates: the nodes on which a task may run at all, free resources aside.

What follows from the pod and the nodes' own objects is asked once per class (`node_mask`): readiness, cordons, node
selector and affinity, taints, volumes. What depends on other pods is asked right before a placement (`task_mask`), and
only for the tasks that it concerns (`live_tasks`): host ports, required pod affinity and anti-affinity, topology
spread. A cluster without such pods pays one look at the task flags. The rules are Kubernetes'; names and defaults of
the arguments are Volcano's. The number of pods per node is an ordinary resource and not looked at here.

A host port of a node can be held by one pod, per protocol and address; 0.0.0.0 (also written "") stands for all
addresses of the node, so it clashes with every other. Ports of ordinary containers and of sidecars count; other init
containers are gone by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec
import numpy as np
from msgspec import Meta

from muster.api import Pod, ResourceClaim
from muster.framework.plugin import Arguments, Plugin
from muster.framework.reasons import NODE_NOT_READY, Verdicts, reason
from muster.plugins.nodes.predicates.neighbours import Neighbours, neighbours_of
from muster.plugins.nodes.predicates.node_rules import required_affinity, selector_mask, terms_mask
from muster.plugins.nodes.predicates.pod_affinity import RequiredPodAffinity
from muster.plugins.nodes.predicates.topology_spread import HARD, TopologySpread
from muster.plugins.nodes.predicates.volumes import VolumeRules
from muster.snapshot import Rows, TaskStatus
from muster.snapshot.devices import claim_keys, device_nodes

if TYPE_CHECKING:
    from muster.framework.session import Session


UNSCHEDULABLE = reason("unschedulable", "are cordoned", remedy="uncordon the node")
NODE_SELECTOR = reason(
    "node-selector",
    "lack a label that the pod's node selector asks for",
    remedy="label the nodes, or change the node selector",
)
NODE_AFFINITY = reason(
    "node-affinity",
    "do not match the pod's node affinity",
    remedy="label the nodes, or change the required node affinity",
)
DEVICE_NODE = reason(
    "device-node",
    "cannot use the devices that are allocated to the pod",
    remedy="wait for room where the devices are, or have the claim allocated anew",
)
TAINT = reason("taint", "have a taint that the pod does not tolerate", remedy="add a toleration, or remove the taint")

_PROPORTIONAL: Final = "predicate.resources"
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


class PredicatesArguments(Arguments, frozen=True, kw_only=True):
    """Which checks are on."""

    node_affinity: Annotated[bool, Meta(description="Check node selector and required node affinity.")] = msgspec.field(
        name="predicate.NodeAffinityEnable", default=True
    )
    node_ports: Annotated[bool, Meta(description="Check host ports.")] = msgspec.field(
        name="predicate.NodePortsEnable", default=True
    )
    taint_toleration: Annotated[bool, Meta(description="Check NoSchedule and NoExecute taints.")] = msgspec.field(
        name="predicate.TaintTolerationEnable", default=True
    )
    pod_affinity: Annotated[bool, Meta(description="Check required pod affinity and anti-affinity.")] = msgspec.field(
        name="predicate.PodAffinityEnable", default=True
    )
    pod_topology_spread: Annotated[bool, Meta(description="Check topology spread constraints with DoNotSchedule.")] = (
        msgspec.field(name="predicate.PodTopologySpreadEnable", default=True)
    )
    volume_zone: Annotated[bool, Meta(description="Check zone and region labels of bound volumes.")] = msgspec.field(
        name="predicate.VolumeZoneEnable", default=True
    )
    volume_binding: Annotated[
        bool, Meta(description="Check that claims exist, are or can be bound, and volumes can be reached.")
    ] = msgspec.field(name="predicate.VolumeBindingEnable", default=True)
    node_volume_limits: Annotated[
        bool, Meta(description="Accepted; without effect, as the limits of CSI drivers are not known here.")
    ] = msgspec.field(name="predicate.NodeVolumeLimitsEnable", default=True)
    cache: Annotated[
        bool, Meta(description="Accepted; without effect, as answers are always kept per class of tasks.")
    ] = msgspec.field(name="predicate.CacheEnable", default=False)
    gpu_sharing: Annotated[
        bool, Meta(description="Accepted; without effect, as in Volcano since shared GPUs have a plugin of their own.")
    ] = msgspec.field(name="predicate.GPUSharingEnable", default=False)
    gpu_number: Annotated[
        bool, Meta(description="Accepted; without effect, as in Volcano since shared GPUs have a plugin of their own.")
    ] = msgspec.field(name="predicate.GPUNumberEnable", default=False)
    volume_weight: Annotated[
        int, Meta(description="Accepted; without effect, as free storage does not score nodes.")
    ] = msgspec.field(name="volumebinding.weight", default=1)
    volume_timeout_s: Annotated[
        int,
        Meta(ge=1, description="Seconds that a pod waits for its claims to be bound; read when `muster run` starts."),
    ] = msgspec.field(name="volumebinding.bindTimeoutSeconds", default=600)
    volume_shape: Annotated[
        list[dict[str, int]], Meta(description="Accepted; without effect, as free storage does not score nodes.")
    ] = msgspec.field(name="volumebinding.shape", default_factory=list)
    dynamic_resources: Annotated[
        bool,
        Meta(description="Accepted; device claims always count, by device class and driver."),
    ] = msgspec.field(name="predicate.DynamicResourceAllocationEnable", default=False)
    proportional: Annotated[
        bool, Meta(description="Not supported: reserving CPU and memory beside idle GPUs; must be false.")
    ] = msgspec.field(name="predicate.ProportionalEnable", default=False)


class Predicates(Plugin):
    """Rule out nodes on which a task may not run."""

    name = "predicates"
    summary = "Keeps tasks off nodes that do not suit them: labels, taints, ports, other pods, volumes."
    Args = PredicatesArguments

    @staticmethod
    def read_arguments(raw: Mapping[str, Any]) -> Arguments:  # Any: values as YAML gave them
        """Check arguments; `predicate.resources...` belong to the proportional check and mean nothing without it."""
        given = {
            name: value
            for name, value in raw.items()
            if value is not None and name != _PROPORTIONAL and not name.startswith(f"{_PROPORTIONAL}.")
        }
        arguments = msgspec.convert(given, PredicatesArguments, strict=False)
        if arguments.proportional:
            raise ValueError(
                "predicate.ProportionalEnable: expected false, got true; "
                "reserving CPU and memory beside idle GPUs is not supported"
            )
        return arguments

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._on = cast("PredicatesArguments", arguments)
        self.volume_wait_s = float(self._on.volume_timeout_s)

    def open(self, session: Session) -> None:
        super().open(session)
        self._snapshot = session.snapshot
        self._neighbours = neighbours_of(session)

    # -- once per class ------------------------------------------------------------------------------------

    def node_mask(self, cls: int) -> Verdicts:
        nodes, taints = self._snapshot.nodes, self._neighbours.taints
        pod = self._snapshot.classes.pods[cls]
        verdicts = np.zeros(len(nodes), np.int16)
        verdicts[~nodes.ready] = NODE_NOT_READY.number
        verdicts[(verdicts == 0) & taints.barred(pod)] = UNSCHEDULABLE.number
        if self._on.node_affinity:
            if pod.spec.node_selector:
                verdicts[(verdicts == 0) & ~selector_mask(nodes, pod.spec.node_selector)] = NODE_SELECTOR.number
            required = required_affinity(pod)
            if required is not None:
                verdicts[(verdicts == 0) & ~terms_mask(nodes, required)] = NODE_AFFINITY.number
        if self._on.taint_toleration:
            verdicts[(verdicts == 0) & taints.forbidden(pod)] = TAINT.number
        if pod.spec.volumes:
            self._volumes.reject(pod, verdicts)
        for where in device_nodes(self._claims(pod)):
            verdicts[(verdicts == 0) & ~terms_mask(nodes, where)] = DEVICE_NODE.number
        return verdicts

    def _claims(self, pod: Pod) -> Iterator[ResourceClaim]:
        known = self._snapshot.objects.get("ResourceClaim", {})
        found = (known.get(key) for key in claim_keys(pod))
        return (claim for claim in found if isinstance(claim, ResourceClaim))

    # -- right before a placement ----------------------------------------------------------------------------

    def live_tasks(self) -> Rows:
        if not self._neighbours.are_minded:
            return np.empty(0, np.intp)
        pending = self._snapshot.pending_tasks()
        minding = pending[self._neighbours.minding[pending]].tolist()
        own = {task for task in minding if any(rule.live(task) for rule in self._rules)}
        concerned = set(self._affinity.concerned()) if self._on.pod_affinity else set()
        return np.array(sorted(own | (concerned & set(pending.tolist()))), np.intp)

    def task_mask(self, task: int) -> Verdicts | None:
        if not self._neighbours.are_minded:
            return None
        verdicts = np.zeros(len(self._snapshot.nodes), np.int16)
        for rule in self._rules:
            rule.reject(task, verdicts)
        return verdicts if verdicts.any() else None

    @cached_property
    def _rules(self) -> list[HostPorts | RequiredPodAffinity | TopologySpread]:
        """The rules between pods that are on; the first one to reject a node names the reason."""
        rules: list[HostPorts | RequiredPodAffinity | TopologySpread] = []
        if self._on.node_ports:
            rules.append(HostPorts(self._neighbours))
        if self._on.pod_affinity:
            rules.append(self._affinity)
        if self._on.pod_topology_spread:
            rules.append(TopologySpread(self._neighbours, HARD))
        return rules

    @cached_property
    def _affinity(self) -> RequiredPodAffinity:
        return RequiredPodAffinity(self._neighbours)

    @cached_property
    def _volumes(self) -> VolumeRules:
        return VolumeRules(self._snapshot, binding=self._on.volume_binding, zones=self._on.volume_zone)


class HostPorts:
    """Who holds which host port, or would once it is placed."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._residents = neighbours.residents
        self._ports: dict[int, list[HostPort]] = {}
        self._holders: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        self._rivals: dict[HostPort, Rows] = {}
        tasks = neighbours.snapshot.tasks
        flagged = np.flatnonzero(neighbours.minding)
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
            rows = self._rivals[wanted] = np.array(rivals, np.intp)
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
