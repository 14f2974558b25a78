"""Other pods, for all tasks at once: which match a selector, and who sits where at this moment of the session.

A term of a pod is made canonical (`PodSelector`), so that the same term on a thousand pods is looked up once; the rows
that match it are found through coded label columns that are made on first use, are sorted, and do not change within a
session. Rows of finished pods are included, of free rows not: who sits where is for `Residents` to say, from the task
columns of the moment. Tasks that were placed earlier in the session count there, also those that wait for room; tasks
that the session evicted are gone; pods that were terminating before it are still there, except for topology spread,
which never counts them. Finished pods and pods without a node do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import KubeObject, LabelSelector, Pod, PodAffinityTerm, TopologySpreadConstraint
from muster.framework import Session
from muster.plugins.nodes.predicates.node_rules import NodeTaints
from muster.snapshot import NEEDS_LIVE_CHECK, NO_ROW, Mask, Rows, Snapshot, TaskStatus

#: (label key, operator, sorted values)
Condition = tuple[str, str, tuple[str, ...]]

#: Every namespace has this label with its own name.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_PRESENT: Final = (
    TaskStatus.ALLOCATED,
    TaskStatus.PIPELINED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.UNKNOWN,
)
_COUNTS: Final = np.isin(np.arange(len(TaskStatus)), _PRESENT)


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of some namespaces that meet all conditions; conditions None: no pod at all."""

    namespaces: frozenset[str]
    conditions: tuple[Condition, ...] | None

    def matches(self, pod: Pod) -> bool:
        """Is the pod selected?"""
        if self.conditions is None or pod.namespace not in self.namespaces:
            return False
        return all(_holds(condition, pod.metadata.labels) for condition in self.conditions)


class _Column:
    """One label of all tasks: the code of each task's value (-1: none), and the rows of each value."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self.known: dict[str, int] = {}
        codes: dict[str | None, int] = {None: -1}
        for value in dict.fromkeys(values):
            if value is not None:
                codes[value] = self.known[value] = len(self.known)
        self.codes = np.fromiter(map(codes.__getitem__, values), np.intp, len(values))
        self._order: Rows | None = None
        self._starts: NDArray[np.int64] | None = None

    def rows_of(self, value: str) -> Rows:
        """Rows with this value, sorted."""
        if self._order is None or self._starts is None:
            self._order = np.argsort(self.codes, kind="stable").astype(np.intp)
            self._starts = np.searchsorted(self.codes[self._order], np.arange(len(self.known) + 1))
        code = self.known.get(value)
        if code is None:
            return self._order[:0]
        return self._order[self._starts[code] : self._starts[code + 1]]

    def is_in(self, rows: Rows, values: Iterable[str]) -> Mask:
        """Which of `rows` have one of the values?"""
        wanted = [self.known[value] for value in values if value in self.known]
        if len(wanted) == 1:
            mask: Mask = self.codes[rows] == wanted[0]
            return mask
        return np.isin(self.codes[rows], wanted)


class PodIndex:
    """Finds tasks by namespace and labels."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._pods = snapshot.tasks.pods
        self._live: Mask = snapshot.tasks.status != TaskStatus.GONE
        self._namespaces: Mapping[str, object] = snapshot.objects.get("Namespace", {})
        self._columns: dict[str, _Column] = {}
        self._by_namespace: _Column | None = None
        self._rows: dict[PodSelector, Rows] = {}
        self._scopes: dict[tuple[tuple[str, ...], tuple[Condition, ...]], frozenset[str]] = {}

    # -- canonical selectors -------------------------------------------------------------------------------

    def affinity_selector(self, owner: Pod, term: PodAffinityTerm) -> PodSelector:
        """The pods that a term of `owner` is about."""
        if term.label_selector is None:
            return PodSelector(frozenset(), None)
        labels = owner.metadata.labels
        own = [(key, "In", (labels[key],)) for key in term.match_label_keys if key in labels]
        own += [(key, "NotIn", (labels[key],)) for key in term.mismatch_label_keys if key in labels]
        return PodSelector(self._scope(owner, term), _conditions(term.label_selector, own))

    def spread_selector(self, owner: Pod, constraint: TopologySpreadConstraint) -> PodSelector:
        """The pods that a constraint of `owner` spreads: those of its own namespace."""
        selector = constraint.label_selector
        if selector is None:
            return PodSelector(frozenset(), None)
        labels = owner.metadata.labels
        own = [(key, "In", (labels[key],)) for key in constraint.match_label_keys if key in labels]
        return PodSelector(frozenset((owner.namespace,)), _conditions(selector, own))

    def _scope(self, owner: Pod, term: PodAffinityTerm) -> frozenset[str]:
        """Namespaces of a term: those listed and those selected; the owner's if the term says nothing."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (owner.namespace,))
        key = (tuple(term.namespaces), _conditions(term.namespace_selector))
        if key not in self._scopes:
            selected = (name for name in self._namespace_column().known if self._is_selected(name, key[1]))
            self._scopes[key] = frozenset((*term.namespaces, *selected))
        return self._scopes[key]

    def _is_selected(self, namespace: str, conditions: tuple[Condition, ...]) -> bool:
        known = self._namespaces.get(namespace)
        labels = known.metadata.labels if isinstance(known, KubeObject) else {}
        return all(_holds(condition, {**labels, _NAME_LABEL: namespace}) for condition in conditions)

    # -- rows ----------------------------------------------------------------------------------------------

    def rows(self, selector: PodSelector) -> Rows:
        """Tasks that the selector selects, in row order."""
        found = self._rows.get(selector)
        if found is None:
            found = self._rows[selector] = self._find(selector)
        return found

    def _find(self, selector: PodSelector) -> Rows:
        conditions = selector.conditions
        if conditions is None:
            return np.empty(0, np.intp)
        # Start from the rows of one value where a condition allows it: most selectors pick one application.
        seed = next((c for c in conditions if c[1] == "In" and len(c[2]) == 1), None)
        rows = self._column(seed[0]).rows_of(seed[2][0]) if seed else np.arange(len(self._pods), dtype=np.intp)
        rows = rows[self._live[rows]]
        rows = rows[self._namespace_column().is_in(rows, sorted(selector.namespaces))]
        for condition in conditions:
            if condition is not seed:
                rows = rows[self._meets(rows, condition)]
        return rows

    def _meets(self, rows: Rows, condition: Condition) -> Mask:
        key, operator, values = condition
        column = self._column(key)
        match operator:
            case "In":
                return column.is_in(rows, values)
            case "NotIn":
                return ~column.is_in(rows, values)
            case "Exists":
                return column.codes[rows] >= 0
            case "DoesNotExist":
                return column.codes[rows] < 0
        return np.zeros(len(rows), np.bool_)

    def _column(self, key: str) -> _Column:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column([pod.metadata.labels.get(key) for pod in self._pods])
        return column

    def _namespace_column(self) -> _Column:
        if self._by_namespace is None:
            self._by_namespace = _Column([pod.namespace for pod in self._pods])
        return self._by_namespace


def _conditions(selector: LabelSelector, extra: Iterable[Condition] = ()) -> tuple[Condition, ...]:
    """All conditions of a selector, each once, in a fixed order."""
    found: set[Condition] = {(key, "In", (value,)) for key, value in selector.match_labels.items()}
    found.update((one.key, one.operator, tuple(sorted(one.values))) for one in selector.match_expressions)
    found.update(extra)
    return tuple(sorted(found))


def _holds(condition: Condition, labels: Mapping[str, str]) -> bool:
    key, operator, values = condition
    value = labels.get(key)
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


class Residents:
    """Made when the session opens, so that it can tell who was terminating before."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._tasks = snapshot.tasks
        self._terminating: Mask = snapshot.tasks.status == TaskStatus.RELEASING

    def nodes_of(self, rows: Rows, *, terminating: bool = True) -> Rows:
        """Node rows on which those of `rows` sit that count, in no particular order."""
        present = _COUNTS[self._tasks.status[rows]]
        if terminating:
            present = present | self._terminating[rows]
        nodes = self._tasks.node[rows[present]]
        placed: Rows = nodes[nodes != NO_ROW]
        return placed

    def per_domain(self, rows: Rows, codes: NDArray[np.intp], *, terminating: bool = True) -> NDArray[np.int64]:
        """How many of `rows` sit in each domain of a coded label column.

        The result has one entry more than there are domains, always 0: nodes without the label have the code
        -1, so that `counts[codes]` is right for them too.
        """
        found = codes[self.nodes_of(rows, terminating=terminating)]
        return np.bincount(found[found >= 0], minlength=int(codes.max(initial=-1)) + 2)


class Neighbours:
    """Who sits where, how to find pods by labels, and the taints of nodes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.residents = Residents(snapshot)

    @cached_property
    def index(self) -> PodIndex:
        return PodIndex(self.snapshot)

    @cached_property
    def minding(self) -> Mask:
        """Tasks whose places depend on other pods."""
        minding: Mask = (self.snapshot.tasks.flags & NEEDS_LIVE_CHECK) != 0
        return minding

    @cached_property
    def are_minded(self) -> bool:
        """Whether some pod minds another; where none does, there is nothing to add to any live question."""
        return bool(self.minding.any())

    @cached_property
    def taints(self) -> NodeTaints:
        return NodeTaints(self.snapshot.nodes)


def neighbours_of(session: Session) -> Neighbours:
    """The one that all plugins of a session share."""
    known = session.workspace.get("neighbours")
    if not isinstance(known, Neighbours):
        known = session.workspace["neighbours"] = Neighbours(session.snapshot)
    return known
