"""Pod affinity and anti-affinity: with which pods a task shares a domain of nodes, and with which it must not.

A domain is the set of nodes with the same value of the term's topology key. Required anti-affinity works both ways: a
pod that sits somewhere also keeps others away; preferred terms of such pods pull and push in the same manner.
Everything that does not change within a session is worked out once per term; what a question costs is one count over
the pods that a term concerns. Who sits where is `Residents`' answer of the moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.api import Affinity, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from muster.framework import Verdicts, reason
from muster.plugins.nodes.predicates.neighbours import Neighbours, PodSelector
from muster.snapshot import NEEDS_LIVE_CHECK, Mask, Rows, TaskStatus

POD_AFFINITY = reason(
    "pod-affinity",
    "have none of the pods near that the pod must be with",
    remedy="start those pods first, or relax the pod affinity",
)
POD_ANTI_AFFINITY = reason(
    "pod-anti-affinity",
    "are near pods that the pod must keep away from",
    eviction_helps=True,
    remedy="wait for those pods to finish, add nodes, or relax the pod anti-affinity",
)
OTHERS_ANTI_AFFINITY = reason(
    "others-anti-affinity",
    "are near pods that keep the pod away",
    eviction_helps=True,
    remedy="wait for those pods to finish, add nodes, or relax their pod anti-affinity",
)

_FINISHED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.GONE)


@dataclass(frozen=True, slots=True)
class Term:
    """Pods and the label that makes domains; the weight is 0 for required terms, negative for keeping away."""

    selector: PodSelector
    topology_key: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class _Owned:
    """A term and the tasks whose pods have it."""

    term: Term
    owners: Rows


class AffinityRules:
    """What required and preferred terms have in common: parsing, and who has which term."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._snapshot = neighbours.snapshot
        self._index = neighbours.index
        self._residents = neighbours.residents

    def codes(self, term: Term) -> NDArray[np.intp]:
        return self._snapshot.nodes.labels.codes(term.topology_key)

    def near(self, rows: Rows, term: Term) -> NDArray[np.int64]:
        """How many of `rows` sit in each node's domain."""
        codes = self.codes(term)
        counts: NDArray[np.int64] = self._residents.per_domain(rows, codes)[codes]
        return counts

    def term(self, pod: Pod, given: PodAffinityTerm, weight: int = 0) -> Term:
        return Term(self._index.affinity_selector(pod, given), given.topology_key, weight)

    def selected(self, term: Term) -> Rows:
        """Tasks that a term is about."""
        return self._index.rows(term.selector)

    def own(self, read: Callable[[Pod, Affinity], Iterable[Term]]) -> list[_Owned]:
        """Collect the terms of all unfinished pods, each distinct one once, in row order."""
        tasks = self._snapshot.tasks
        flagged = np.flatnonzero((tasks.flags & NEEDS_LIVE_CHECK) != 0)
        owners: dict[Term, list[int]] = defaultdict(list)
        for row in flagged[~np.isin(tasks.status[flagged], _FINISHED)].tolist():
            pod = tasks.pods[row]
            if pod.spec.affinity is not None:
                for term in read(pod, pod.spec.affinity):
                    owners[term].append(row)
        return [_Owned(term, np.array(rows, np.intp)) for term, rows in owners.items()]

    def concerned(self, owned: Iterable[_Owned]) -> dict[int, list[_Owned]]:
        """Turn owned terms round: which of them are about each pending task?"""
        pending = self._snapshot.tasks.status == TaskStatus.PENDING
        found: dict[int, list[_Owned]] = defaultdict(list)
        for entry in owned:
            rows = self.selected(entry.term)
            for row in rows[pending[rows]].tolist():
                found[row].append(entry)
        return dict(found)


@dataclass(frozen=True, slots=True)
class _Required:
    """Required terms of one task."""

    affinity: tuple[Term, ...]
    #: Tasks that all affinity terms are about: only those count for any of the terms, as in Kubernetes.
    companions: Rows
    is_own_companion: bool
    anti: tuple[Term, ...]


class RequiredPodAffinity:
    """Where required terms, a task's own and those of others, let it go."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._rules = AffinityRules(neighbours)
        self._snapshot = neighbours.snapshot
        self._others = self._rules.concerned(self._rules.own(self._anti_terms))
        self._own: dict[int, _Required] = {}

    def live(self, task: int) -> bool:
        """Do other pods matter to the task at all?"""
        if task in self._others:
            return True
        affinity = self._snapshot.tasks.pods[task].spec.affinity
        return affinity is not None and bool(_required(affinity.pod_affinity) or _required(affinity.pod_anti_affinity))

    def concerned(self) -> Iterable[int]:
        """Pending tasks that other pods' terms are about."""
        return self._others.keys()

    def reject(self, task: int, verdicts: Verdicts) -> None:
        """Write the reason against each node that is not yet rejected."""
        required = self._required(task)
        if required.affinity:
            _reject(verdicts, ~self._with_companions(required), POD_AFFINITY.number)
        for term in required.anti:
            _reject(verdicts, self._rules.near(self._rules.selected(term), term) > 0, POD_ANTI_AFFINITY.number)
        for entry in self._others.get(task, ()):
            _reject(verdicts, self._rules.near(entry.owners, entry.term) > 0, OTHERS_ANTI_AFFINITY.number)

    def _with_companions(self, required: _Required) -> Mask:
        """Nodes where every affinity term finds a companion, or all labelled ones for the first of a series."""
        labelled = np.ones(len(self._snapshot.nodes), np.bool_)
        together = labelled.copy()
        anywhere = False
        for term in required.affinity:
            labelled &= self._rules.codes(term) >= 0
            near = self._rules.near(required.companions, term) > 0
            anywhere = anywhere or bool(near.any())
            together &= near
        if not anywhere and required.is_own_companion:
            return labelled
        return together

    def _required(self, task: int) -> _Required:
        known = self._own.get(task)
        if known is None:
            known = self._own[task] = self._read(self._snapshot.tasks.pods[task])
        return known

    def _read(self, pod: Pod) -> _Required:
        given = pod.spec.affinity or Affinity()
        affinity = tuple(self._rules.term(pod, term) for term in _required(given.pod_affinity))
        companions = np.empty(0, np.intp)
        if affinity:
            companions = self._rules.selected(affinity[0])
            for term in affinity[1:]:
                companions = np.intersect1d(companions, self._rules.selected(term), assume_unique=True)
        return _Required(
            affinity,
            companions,
            all(term.selector.matches(pod) for term in affinity),
            tuple(self._anti_terms(pod, given)),
        )

    def _anti_terms(self, pod: Pod, affinity: Affinity) -> Iterable[Term]:
        return (self._rules.term(pod, term) for term in _required(affinity.pod_anti_affinity))


class PreferredPodAffinity:
    """How much preferred terms, a task's own and those of others, speak for each node."""

    def __init__(self, neighbours: Neighbours, required_weight: int = 0) -> None:
        self._rules = AffinityRules(neighbours)
        self._snapshot = neighbours.snapshot
        #: What a required affinity term of a pod that sits somewhere is worth for those it is about.
        self._required_weight = required_weight
        self._others = self._rules.concerned(self._rules.own(self._terms_for_others))
        self._own: dict[int, tuple[Term, ...]] = {}

    def live(self, task: int) -> bool:
        """Has the task, or some pod about it, a preference?"""
        affinity = self._snapshot.tasks.pods[task].spec.affinity
        own = affinity is not None and (_preferred(affinity.pod_affinity) or _preferred(affinity.pod_anti_affinity))
        return task in self._others or bool(own)

    def concerned(self) -> Iterable[int]:
        """Pending tasks that other pods' terms are about."""
        return self._others.keys()

    def points(self, task: int) -> NDArray[np.int64] | None:
        """Sum of the weights of all matching pods in each node's domains; None: no pod matches anywhere."""
        total = np.zeros(len(self._snapshot.nodes), np.int64)
        matched = False
        wanted = [(term, self._rules.selected(term)) for term in self._terms(task)]
        wanted += [(entry.term, entry.owners) for entry in self._others.get(task, ())]
        for term, rows in wanted:
            near = self._rules.near(rows, term)
            if near.any():
                matched = True
                total += term.weight * near
        return total if matched else None

    def _terms(self, task: int) -> tuple[Term, ...]:
        known = self._own.get(task)
        if known is None:
            pod = self._snapshot.tasks.pods[task]
            known = tuple(self._preferences(pod, pod.spec.affinity or Affinity()))
            self._own[task] = known
        return known

    def _preferences(self, pod: Pod, affinity: Affinity) -> Iterable[Term]:
        for weighted in _preferred(affinity.pod_affinity):
            yield self._rules.term(pod, weighted.pod_affinity_term, weighted.weight)
        for weighted in _preferred(affinity.pod_anti_affinity):
            yield self._rules.term(pod, weighted.pod_affinity_term, -weighted.weight)

    def _terms_for_others(self, pod: Pod, affinity: Affinity) -> Iterable[Term]:
        yield from self._preferences(pod, affinity)
        if self._required_weight:
            for term in _required(affinity.pod_affinity):
                yield self._rules.term(pod, term, self._required_weight)


def normalise(points: NDArray[np.int64], among: Mask) -> NDArray[np.float64]:
    """Stretch points to 0..100 between the worst and the best of the nodes in `among`, rounded down."""
    if not among.any():
        return np.zeros(len(points))
    low, high = int(points[among].min()), int(points[among].max())
    if high == low:
        return np.zeros(len(points))
    scores: NDArray[np.float64] = np.trunc(100.0 * ((points - low) / (high - low)))
    return np.where(among, scores, 0.0)


def _reject(verdicts: Verdicts, against: Mask, number: int) -> None:
    verdicts[against & (verdicts == 0)] = number


def _required(affinity: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return affinity.required if affinity else ()


def _preferred(affinity: PodAffinity | None) -> Sequence[WeightedPodAffinityTerm]:
    return affinity.preferred if affinity else ()
