"""Topology spread: how evenly the pods of an application stand over zones, racks or hosts.

`DoNotSchedule`: the difference between the fullest and the emptiest domain may not pass `maxSkew`; `ScheduleAnyway`:
the emptier the domain, the better. As in Kubernetes, only nodes that have every topology key of the pod's constraints
make domains, `nodeAffinityPolicy` and `nodeTaintsPolicy` say which of them count, terminating pods are not counted, and
an empty selector counts nobody. Kubernetes' default constraints, which it derives from Services and workloads, do not
exist here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import Pod, TopologySpreadConstraint
from muster.framework import Verdicts, reason
from muster.plugins.nodes.predicates.neighbours import Neighbours, PodSelector
from muster.plugins.nodes.predicates.node_rules import required_mask
from muster.snapshot import Mask, Rows

TOPOLOGY_SPREAD = reason(
    "topology-spread",
    "would make the pods of the application too uneven",
    eviction_helps=True,
    remedy="free room in the emptier domains, raise maxSkew, or use ScheduleAnyway",
)
TOPOLOGY_LABEL = reason(
    "topology-label",
    "lack the label that the pod is spread over",
    remedy="label the nodes, or change the topology key",
)

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class _Constraint:
    """A constraint of one task, with all that stays the same within a session."""

    topology_key: str
    max_skew: int
    min_domains: int
    #: The domain of each node, -1: none.
    codes: NDArray[np.intp]
    #: Nodes whose pods count.
    counted: Mask
    #: Domains that counted nodes make; one entry more than there are codes, as in `Residents.per_domain`.
    domains: Mask
    #: Tasks that are spread.
    pods: Rows
    is_own_pod: bool


class TopologySpread:
    """The constraints of one kind (HARD or SOFT) of every task that is asked about."""

    def __init__(self, neighbours: Neighbours, kind: str) -> None:
        self._snapshot = neighbours.snapshot
        self._index = neighbours.index
        self._residents = neighbours.residents
        self._taints = neighbours.taints
        self._kind = kind
        self._known: dict[int, tuple[_Constraint, ...]] = {}
        self._counted: dict[tuple[int, str, str], Mask] = {}

    def live(self, task: int) -> bool:
        """Has the task a constraint of this kind?"""
        constraints = self._snapshot.tasks.pods[task].spec.topology_spread_constraints
        return any(given.when_unsatisfiable == self._kind for given in constraints)

    # -- DoNotSchedule ---------------------------------------------------------------------------------------

    def reject(self, task: int, verdicts: Verdicts) -> None:
        """Write the reason against each node that is not yet rejected."""
        for constraint in self._constraints(task):
            counts = self._counts(constraint)
            in_domains = counts[constraint.domains]
            # Fewer domains than there should be: an empty one that is yet to come counts as the emptiest.
            least = int(in_domains.min()) if len(in_domains) >= max(1, constraint.min_domains) else 0
            skew = counts[constraint.codes] + int(constraint.is_own_pod) - least
            fits = verdicts == 0
            verdicts[fits & (constraint.codes < 0)] = TOPOLOGY_LABEL.number
            uneven = (constraint.codes >= 0) & (skew > constraint.max_skew)
            verdicts[fits & uneven] = TOPOLOGY_SPREAD.number

    # -- ScheduleAnyway --------------------------------------------------------------------------------------

    def score(self, task: int, among: Mask) -> NDArray[np.float64] | None:
        """Points 0..100 for each node of `among`, the emptiest domains first; None: nothing to say."""
        constraints = self._constraints(task)
        if not constraints:
            return None
        rated = among & np.logical_and.reduce([constraint.codes >= 0 for constraint in constraints])
        if not rated.any():
            return None
        load = np.zeros(len(rated))
        for constraint in constraints:
            load += self._load(constraint, rated)
        rounded = np.floor(load + 0.5)
        low, high = rounded[rated].min(), rounded[rated].max()
        if high == 0:
            return np.where(rated, 100.0, 0.0)
        return np.where(rated, np.floor(100.0 * (high + low - rounded) / high), 0.0)

    def _load(self, constraint: _Constraint, rated: Mask) -> NDArray[np.float64]:
        """How full each node's domain is; few large domains weigh less than many small ones."""
        if constraint.topology_key == _HOSTNAME:
            sits = self._residents.nodes_of(constraint.pods, terminating=False)
            counts = np.bincount(sits, minlength=len(rated))
            size = int(rated.sum())
        else:
            counts = self._counts(constraint)[constraint.codes]
            size = len(np.unique(constraint.codes[rated]))
        return counts.astype(np.float64) * math.log(size + 2) + float(constraint.max_skew - 1)

    # -- constraints -----------------------------------------------------------------------------------------

    def _counts(self, constraint: _Constraint) -> NDArray[np.int64]:
        """How many of the pods sit on counted nodes of each domain."""
        nodes = self._residents.nodes_of(constraint.pods, terminating=False)
        codes = constraint.codes[nodes[constraint.counted[nodes]]]
        return np.bincount(codes, minlength=len(constraint.domains))

    def _constraints(self, task: int) -> tuple[_Constraint, ...]:
        known = self._known.get(task)
        if known is None:
            known = self._known[task] = self._read(task)
        return known

    def _read(self, task: int) -> tuple[_Constraint, ...]:
        pod = self._snapshot.tasks.pods[task]
        given = [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == self._kind]
        if not given:
            return ()
        labelled = self._labelled(given)
        return tuple(self._constraint(task, pod, one, labelled) for one in given)

    def _constraint(self, task: int, pod: Pod, given: TopologySpreadConstraint, labelled: Mask) -> _Constraint:
        codes = self._snapshot.nodes.labels.codes(given.topology_key)
        counted = labelled & self._included(task, given)
        domains = np.zeros(int(codes.max(initial=-1)) + 2, np.bool_)
        domains[codes[counted]] = True
        selector = self._index.spread_selector(pod, given)
        return _Constraint(
            given.topology_key,
            given.max_skew or 1,  # what a saved cluster leaves out; elsewhere it has to be said
            1 if given.min_domains is None else given.min_domains,
            codes,
            counted,
            domains,
            self._pods(selector),
            selector.matches(pod),
        )

    def _pods(self, selector: PodSelector) -> Rows:
        return self._index.rows(selector) if selector.conditions else np.empty(0, np.intp)

    def _labelled(self, constraints: Sequence[TopologySpreadConstraint]) -> Mask:
        """Nodes that have the topology keys of all constraints."""
        labels = self._snapshot.nodes.labels
        mask = np.ones(len(self._snapshot.nodes), np.bool_)
        for given in constraints:
            mask &= labels.codes(given.topology_key) >= 0
        return mask

    def _included(self, task: int, given: TopologySpreadConstraint) -> Mask:
        """Nodes that the constraint's two policies let count; the same for all tasks of a class."""
        cls = int(self._snapshot.tasks.cls[task])
        key = (cls, given.node_affinity_policy, given.node_taints_policy)
        mask = self._counted.get(key)
        if mask is None:
            mask = np.ones(len(self._snapshot.nodes), np.bool_)
            pod = self._snapshot.classes.pods[cls]
            if given.node_affinity_policy != "Ignore":
                mask &= required_mask(self._snapshot.nodes, pod)
            if given.node_taints_policy == "Honor":
                mask &= ~self._taints.forbidden(pod)
            self._counted[key] = mask
        return mask
