"""Network topology: prefer domains that the gang fills, and keep other pods away from domains that gangs need.

A domain's score for a gang is how full it would be with the gang in it, as a weighted mean over the resources that
the gang asks for. Pods without a topology constraint are drawn to nodes whose domains are fullest already, lower
tiers counting more, and first of all to nodes outside every domain. Pods with one are packed by the engine; what
Volcano's node scores would say about them is `task_scores`.
Used by the engine through the extension points; called anew for every decision, nothing is kept but the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.engine.constraints import placed_nodes, resolve, why_not_placeable
from muster.engine.domains import ROOT, domain_future_idle, domain_totals, gradients
from muster.engine.gangs import pending_tasks_of, requests_of
from muster.framework.plugin import Arguments, NodeScores, Plugin, Purpose
from muster.framework.registry import Weight, take_weights
from muster.framework.session import Session
from muster.snapshot import NO_ROW, Amounts, Rows

_FULL_SCORE: Final = 100.0
_RESOURCES: Final = "hypernode.binpack.resources"


class NetworkTopologyArguments(Arguments, frozen=True, kw_only=True):
    """Weights of the plugin, of resources and of tiers."""

    weight: Annotated[Weight, Meta(description="How much the plugin's scores count beside others.")] = 1
    cpu: Annotated[Weight, Meta(description="Weight of CPU in how full a domain is.")] = msgspec.field(
        name="hypernode.binpack.cpu", default=1
    )
    memory: Annotated[Weight, Meta(description="Weight of memory in how full a domain is.")] = msgspec.field(
        name="hypernode.binpack.memory", default=1
    )
    resources: Annotated[
        dict[str, Weight],
        Meta(
            description="Other resources with a weight of their own, separated by commas, such as `nvidia.com/gpu`; "
            "the weight of each is `hypernode.binpack.resources.<name>`. Those not listed count with weight 1."
        ),
    ] = msgspec.field(name=_RESOURCES, default_factory=dict)
    normal_pods: Annotated[
        bool, Meta(description="Whether pods without a topology constraint are drawn to full domains.")
    ] = msgspec.field(name="hypernode.binpack.normal-pod.enable", default=True)
    fading: Annotated[
        float,
        Meta(
            ge=0, description="For those pods, each tier counts with this number times what the tier below it counts."
        ),
    ] = msgspec.field(name="hypernode.binpack.normal-pod.fading", default=0.8)
    max_evict_domains: Annotated[
        int, Meta(ge=1, description="In how many domains at most evictions are tried for a job.")
    ] = msgspec.field(name="hypernode.gradient.evict.max-hypernodes", default=8)


class NetworkTopologyAware(Plugin):
    """Fill domains that are partly used, so that whole ones stay free for large gangs."""

    name = "network-topology-aware"
    summary = "Scores network domains by how full a gang makes them; keeps other pods out of free domains."
    Args = NetworkTopologyArguments
    search_space_is_final = False

    @staticmethod
    def read_arguments(raw: Mapping[str, Any]) -> Arguments:  # Any: values as YAML gave them
        """Check arguments, also those whose names hold resource names."""
        given = {name: value for name, value in raw.items() if value is not None}
        given[_RESOURCES] = take_weights(given, _RESOURCES)
        return msgspec.convert(given, NetworkTopologyArguments, strict=False)

    def open(self, session: Session) -> None:
        super().open(session)
        own = cast("NetworkTopologyArguments", self.arguments)
        #: Per resource, what it weighs in how full a domain is; NaN: it does not count at all.
        self._weights: NDArray[np.float64] = np.array(
            [
                {"cpu": float(own.cpu), "memory": float(own.memory), "pods": np.nan}.get(
                    name, float(own.resources.get(name, 1))
                )
                for name in session.snapshot.axis.names
            ]
        )
        #: What a full domain scores.
        self._scale = _FULL_SCORE * own.weight

    # -- domains ---------------------------------------------------------------------------------------------

    def domain_score(self, job: int, subgroup: int, domains: Rows) -> NDArray[np.float64]:
        snapshot = self.session.snapshot
        request = requests_of(snapshot, pending_tasks_of(snapshot, job, subgroup))
        scores = fullness(*domain_totals(snapshot, domains), request, self._weights)
        return self._scale * self._break_ties(scores, job, subgroup, domains)

    def expected_domain_score(self, request: Amounts, used: Amounts, allocatable: Amounts) -> NDArray[np.float64]:
        return self._scale * fullness(used, allocatable, request, self._weights)

    def _break_ties(self, scores: NDArray[np.float64], job: int, subgroup: int, domains: Rows) -> NDArray[np.float64]:
        """Domains that are best alike: the share of the gang's tasks that each holds already is added."""
        snapshot = self.session.snapshot
        nodes = placed_nodes(snapshot, job, subgroup)
        if len(scores) < 2 or len(nodes) == 0:
            return scores
        best = scores == scores.max()
        if best.sum() < 2:
            return scores
        within = (nodes >= snapshot.topology.lo[domains][:, None]) & (nodes < snapshot.topology.hi[domains][:, None])
        scores[best] += within.sum(axis=1)[best] / self._task_count(job, subgroup)
        return scores

    def _task_count(self, job: int, subgroup: int) -> int:
        own = self.session.snapshot.tasks_of(job)
        if subgroup == NO_ROW:
            return len(own)
        return int((self.session.snapshot.tasks.subgroup[own] == subgroup).sum())

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        """For evictions: small domains before large ones, then those where the least is missing, then by name."""
        session, topology = self.session, self.session.snapshot.topology
        record = session.snapshot.jobs.records[job]
        if purpose is not Purpose.EVICT or record.topology is None or why_not_placeable(session, job) is not None:
            return None
        placed = topology.domain_of_nodes(placed_nodes(session.snapshot, job))
        steps = gradients(topology, resolve(record.topology, topology), ROOT, placed)
        if not steps:
            return None
        domains = np.concatenate(steps)
        need = self._least_need(job)
        _, allocatable = domain_totals(session.snapshot, domains)
        # With everything evicted there would be this much; what does not fit even then is no candidate.
        domains = domains[(allocatable >= need).all(axis=1)]
        cost = self._cost_to_enter(need, domains)
        names = topology.names
        order = sorted(
            range(len(domains)), key=lambda k: (int(topology.tier[domains[k]]), cost[k], names[int(domains[k])])
        )
        limit = cast("NetworkTopologyArguments", self.arguments).max_evict_domains
        best: Rows = domains[order[:limit]]
        return best

    def _least_need(self, job: int) -> Amounts:
        """What the job asks for at least, per resource: no choice of so many of its pending tasks asks for less."""
        snapshot = self.session.snapshot
        requests = np.sort(snapshot.classes.requests[snapshot.tasks.cls[pending_tasks_of(snapshot, job)], 0], axis=0)
        least: Amounts = requests[: max(1, self.session.job_deficit(job))].sum(axis=0)
        return least

    def _cost_to_enter(self, need: Amounts, domains: Rows) -> NDArray[np.float64]:
        """The largest part of what is needed of a resource that a domain will not have free."""
        asked = need > 0
        if not asked.any():
            return np.zeros(len(domains))
        missing = np.maximum(need - domain_future_idle(self.session.snapshot, domains), 0)
        cost: NDArray[np.float64] = (missing[:, asked] / need[asked]).max(axis=1)
        return cost

    # -- nodes -----------------------------------------------------------------------------------------------

    def node_score(self, cls: int) -> NodeScores:
        """How full the domains around each node are, from the lowest tier to the root.

        Tasks with a topology constraint may share a class with others. They are placed inside one leaf at a
        time, where this score is the same for every node, so it does not matter to them. The state is that of the
        moment when the class is first placed: domains change too little within a cycle to score them anew.
        """
        own = cast("NetworkTopologyArguments", self.arguments)
        if not own.normal_pods or len(self.session.snapshot.topology) == 1 or self._scale == 0:
            return NodeScores()
        return NodeScores(fixed=self._scale * self._surroundings(cls, own.fading))

    def _surroundings(self, cls: int, fading: float) -> NDArray[np.float64]:
        snapshot = self.session.snapshot
        domains = snapshot.topology.inside(ROOT)
        request = snapshot.classes.requests[cls, 0]
        # One more score at the end: nodes without a domain at a tier count as if it were full.
        scores = np.append(fullness(*domain_totals(snapshot, domains), request, self._weights), 1.0)
        total, weight_sum = np.zeros(len(snapshot.nodes)), 0.0
        for step, owner in enumerate(snapshot.topology.owners_by_tier()):
            weight = fading**step
            total += weight * scores[owner]
            weight_sum += weight
        return total / weight_sum if weight_sum > 0 else total

    def task_scores(self, task: int, nodes: Rows | None = None, near: int = NO_ROW) -> NDArray[np.float64]:
        """What Volcano's node scores say about one task: the engine's packing has the same order in view.

        With a topology constraint: the lower the tier of the smallest domain around both the node and the gang
        (`near`, or where its placed tasks are), the better; nodes that are best alike also get the share of the
        gang's tasks in their own domain. Without one: see `node_score`.
        """
        snapshot = self.session.snapshot
        rows = np.arange(len(snapshot.nodes), dtype=np.intp) if nodes is None else nodes
        if not self._is_constrained(task):
            fixed = self.node_score(int(snapshot.tasks.cls[task])).fixed
            return np.zeros(len(rows)) if fixed is None else fixed[rows]
        job = int(snapshot.tasks.job[task])
        subgroup = int(snapshot.tasks.subgroup[task]) if snapshot.jobs.records[job].sub_groups else NO_ROW
        if near == NO_ROW:
            near = snapshot.topology.domain_of_nodes(placed_nodes(snapshot, job, subgroup))
        if near == NO_ROW:
            return np.zeros(len(rows))
        leaves = snapshot.topology.leaf[rows]
        return self._scale * self._break_ties(self._nearness(leaves, near), job, subgroup, leaves)

    def _nearness(self, leaves: Rows, near: int) -> NDArray[np.float64]:
        topology = self.session.snapshot.topology
        # Tiers are labels in order: what counts is how many of them lie between.
        steps = np.searchsorted(np.unique(topology.tier), topology.tier)
        scores = np.ones(len(leaves))
        for k, leaf in enumerate(leaves.tolist()):
            if leaf == ROOT:
                scores[k] = 0.0  # in no HyperNode: near to nothing
            elif leaf != near and steps[ROOT]:
                scores[k] = 1 - steps[topology.lca(leaf, near)] / steps[ROOT]
        return scores

    def _is_constrained(self, task: int) -> bool:
        """Whether the task's sub-group has a topology constraint; tasks of no policy are held by the job's."""
        snapshot = self.session.snapshot
        record = snapshot.jobs.records[int(snapshot.tasks.job[task])]
        policy = int(snapshot.subgroups.policy[snapshot.tasks.subgroup[task]]) if record.sub_groups else NO_ROW
        own = record.topology if policy == NO_ROW else record.sub_groups[policy].network_topology
        return own is not None


def fullness(
    used: Amounts, allocatable: Amounts, request: Amounts, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weighted mean of the used fractions with the request added, 0..1; 0 where a resource would overflow.

    Only resources that are requested count. `weights`: per resource; NaN: not looked at, not even for overflow.
    """
    asked = (request > 0) & ~np.isnan(weights)
    total = float(weights[asked].sum())
    if not asked.any() or total <= 0:
        return np.zeros(len(used))
    after = used[:, asked] + request[asked]
    room = allocatable[:, asked]
    shares = after / np.maximum(room, 1)
    scores: NDArray[np.float64] = np.where((after <= room).all(axis=1), shares @ weights[asked] / total, 0.0)
    return scores
