"""Node order: Kubernetes' scores for nodes, each 0..100, with weights.

Free, used and balanced resources follow the node state and become terms of the placement kernel. Preferred node
affinity and PreferNoSchedule taints are fixed for a class within a session. Preferred pod affinity and topology
spread depend on other pods, so tasks that have or meet them are scored one by one.
Where Kubernetes stretches a score over the nodes that passed its filters, it is stretched here over the nodes
that `node_mask` lets through, whether or not they have room now: the scale is the same for all tasks of a class.
As in Volcano, the weights of preferred node affinity are added up as they are, not stretched.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.framework.plugin import Arguments, NodeScores, Plugin
from muster.kernels.placement import BALANCED, LEAST_ALLOCATED, MOST_ALLOCATED
from muster.plugins.nodes.predicates.neighbours import neighbours_of
from muster.plugins.nodes.predicates.node_rules import preferred_weights
from muster.plugins.nodes.predicates.pod_affinity import PreferredPodAffinity, normalise
from muster.plugins.nodes.predicates.topology_spread import SOFT, TopologySpread
from muster.snapshot import Mask, Rows

if TYPE_CHECKING:
    from muster.framework.session import Session

Weight = Annotated[int, Meta(ge=0, le=1_000_000)]

#: Resources that are compared; a GPU is balanced with them for tasks that ask for one, as in Volcano.
_COMPARED: Final = ("cpu", "memory")
_GPU: Final = "nvidia.com/gpu"


class NodeOrderArguments(Arguments, frozen=True, kw_only=True):
    """Weights of the scores; 0 turns one off."""

    least_requested: Annotated[Weight, Meta(description="Weight of free CPU and memory: spreads load.")] = (
        msgspec.field(name="leastrequested.weight", default=1)
    )
    most_requested: Annotated[Weight, Meta(description="Weight of used CPU and memory: packs load.")] = msgspec.field(
        name="mostrequested.weight", default=0
    )
    balanced_resource: Annotated[
        Weight, Meta(description="Weight of using CPU, memory and, where asked for, GPUs in equal parts.")
    ] = msgspec.field(name="balancedresource.weight", default=1)
    node_affinity: Annotated[Weight, Meta(description="Weight of preferred node affinity.")] = msgspec.field(
        name="nodeaffinity.weight", default=2
    )
    pod_affinity: Annotated[Weight, Meta(description="Weight of preferred pod affinity and anti-affinity.")] = (
        msgspec.field(name="podaffinity.weight", default=2)
    )
    hard_pod_affinity: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="What a required pod affinity of a pod that runs is worth for the pods it names; "
            "0, as in Volcano (Kubernetes: 1).",
        ),
    ] = msgspec.field(name="podaffinity.hardWeight", default=0)
    taint_toleration: Annotated[Weight, Meta(description="Weight of having no PreferNoSchedule taint.")] = (
        msgspec.field(name="tainttoleration.weight", default=3)
    )
    pod_topology_spread: Annotated[
        Weight, Meta(description="Weight of topology spread constraints with ScheduleAnyway.")
    ] = msgspec.field(name="podtopologyspread.weight", default=2)
    image_locality: Annotated[
        Weight, Meta(description="Accepted; without effect, as the images on nodes are not known here.")
    ] = msgspec.field(name="imagelocality.weight", default=1)
    selector_spread: Annotated[
        Weight, Meta(description="Accepted; without effect, as in Volcano since topology spread replaced it.")
    ] = msgspec.field(name="selectorspread.weight", default=0)


class NodeOrder(Plugin):
    """Score nodes as Kubernetes does."""

    name = "nodeorder"
    summary = "Scores nodes by free or used resources, preferred affinity, taints and spread, with weights."
    Args = NodeOrderArguments
    steady_scores = True

    def open(self, session: Session) -> None:
        super().open(session)
        self._snapshot = session.snapshot
        self._weights = cast("NodeOrderArguments", self.arguments)
        self._neighbours = neighbours_of(session)
        self._passing: dict[int, Mask] = {}

    # -- once per class ------------------------------------------------------------------------------------

    def node_score(self, cls: int) -> NodeScores:
        return NodeScores(self._fixed(cls), self._terms(cls))

    def _terms(self, cls: int) -> list[list[float]]:
        axis = self._snapshot.axis
        compared = [float(name in _COMPARED) for name in axis.names]
        balanced = compared.copy()
        gpu = axis.index.get(_GPU)
        if gpu is not None and self._snapshot.classes.requests[cls, 0, gpu] > 0:
            balanced[gpu] = 1.0
        weights = self._weights
        rows = (
            (LEAST_ALLOCATED, weights.least_requested, compared),
            (MOST_ALLOCATED, weights.most_requested, compared),
            (BALANCED, weights.balanced_resource, balanced),
        )
        return [[float(kind), float(weight), *columns] for kind, weight, columns in rows if weight]

    def _fixed(self, cls: int) -> NDArray[np.float64] | None:
        """Points that do not change within a session; None: the same for all nodes."""
        pod = self._snapshot.classes.pods[cls]
        total: NDArray[np.float64] | None = None
        if self._weights.node_affinity:
            preferred = preferred_weights(self._snapshot.nodes, pod)
            if preferred is not None:
                total = self._weights.node_affinity * preferred
        if self._weights.taint_toleration:
            taints = self._neighbours.taints.discouraging(pod)
            if taints is not None:
                points = self._weights.taint_toleration * _fewest_first(taints, self._among(cls))
                total = points if total is None else total + points
        return total

    def _among(self, cls: int) -> Mask:
        """Nodes that the class may go to, room aside."""
        mask = self._passing.get(cls)
        if mask is None:
            mask = self._passing[cls] = self.session.node_verdicts(cls) == 0
        return mask

    # -- right before a placement ----------------------------------------------------------------------------

    def live_tasks(self) -> Rows:
        if not self._neighbours.are_minded:
            return np.empty(0, np.intp)
        pending = self._snapshot.pending_tasks()
        found: set[int] = set()
        for task in pending[self._neighbours.minding[pending]].tolist():
            by_affinity = self._weights.pod_affinity > 0 and self._affinity.live(task)
            if by_affinity or (self._weights.pod_topology_spread > 0 and self._spread.live(task)):
                found.add(task)
        if self._weights.pod_affinity:
            found |= set(self._affinity.concerned()) & set(pending.tolist())
        return np.array(sorted(found), np.intp)

    def task_score(self, task: int) -> NDArray[np.float64] | None:
        if not self._neighbours.are_minded:
            return None
        among = self._among(int(self._snapshot.tasks.cls[task]))
        total: NDArray[np.float64] | None = None
        if self._weights.pod_affinity:
            points = self._affinity.points(task)
            if points is not None:
                total = self._weights.pod_affinity * normalise(points, among)
        if self._weights.pod_topology_spread:
            spread = self._spread.score(task, among)
            if spread is not None:
                weighted = self._weights.pod_topology_spread * spread
                total = weighted if total is None else total + weighted
        return total

    @cached_property
    def _affinity(self) -> PreferredPodAffinity:
        return PreferredPodAffinity(self._neighbours, self._weights.hard_pod_affinity)

    @cached_property
    def _spread(self) -> TopologySpread:
        return TopologySpread(self._neighbours, SOFT)


def _fewest_first(counts: NDArray[np.int64], among: Mask) -> NDArray[np.float64]:
    """100 for nodes with none, 0 for those of `among` with the most, rounded as Kubernetes does."""
    most = int(counts[among].max(initial=0))
    if most == 0:
        return np.full(len(counts), 100.0)
    points: NDArray[np.float64] = (100 - 100 * counts // most).astype(np.float64)
    return np.where(among, points, 0.0)
