"""Node labels and taints as coded columns, and the network that labels tell (KAI's Topology).

A label column is int64[nodes]: the code of the node's value for one key, -1 where the label is missing. Selectors
become integer comparisons over all nodes at once. Columns are made on first use and dropped when nodes change, or when
many others have been asked about since: pods may name any key. Nodes with equal taints share a code too.

In a topology of labels level 0 is the root, which holds every node of the topology; level k groups nodes by their
values for the first k labels. A node that lacks one of the labels is in no domain. `order` lists the node rows domain
by domain, so that every domain is a range of it and sums over all domains are differences of prefix sums, however the
node rows themselves are numbered: those stay in the order of names, because names break ties. Domains of one level are
rows next to each other, in the order of their parents and then of their own label values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import Node, Pod, Taint
from muster.snapshot.columns import NO_ROW, Mask, Rows

_MAX_COLUMNS: Final = 256


class NodeLabels:
    """Coded label columns over a fixed list of nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._columns: dict[str, tuple[NDArray[np.intp], dict[str, int]]] = {}

    def column(self, key: str) -> tuple[NDArray[np.intp], Mapping[str, int]]:
        """Return the codes of every node for `key`, and the code of each value."""
        cached = self._columns.pop(key, None)
        if cached is None:
            cached = self._encode(key)
            if len(self._columns) >= _MAX_COLUMNS:
                del self._columns[next(iter(self._columns))]  # the one that was asked about longest ago
        self._columns[key] = cached
        return cached

    def codes(self, key: str) -> NDArray[np.intp]:
        return self.column(key)[0]

    def is_in(self, key: str, values: Iterable[str]) -> NDArray[np.bool_]:
        """Nodes whose value for `key` is one of `values`."""
        codes, known = self.column(key)
        wanted = [known[value] for value in values if value in known]
        return np.isin(codes, wanted) if wanted else np.zeros(len(self._nodes), bool)

    def values(self, key: str) -> list[str | None]:
        """The value of each node for `key`."""
        return [node.metadata.labels.get(key) for node in self._nodes]

    def _encode(self, key: str) -> tuple[NDArray[np.intp], dict[str, int]]:
        known: dict[str, int] = {}
        codes = np.full(len(self._nodes), -1, np.intp)
        for row, value in enumerate(self.values(key)):
            if value is not None:
                codes[row] = known.setdefault(value, len(known))
        return codes, known


TaintKey = tuple[tuple[str, str, str], ...]
_FORBIDDING: Final = ("NoSchedule", "NoExecute")


def tolerates(pod: Pod, taint: Taint) -> bool:
    """Does some toleration of the pod cover the taint?"""
    return any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)


class TaintColumn:
    """The distinct sets of taints of a fixed list of nodes, and which nodes are cordoned."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    @cached_property
    def cordoned(self) -> Mask:
        return np.fromiter((node.spec.unschedulable for node in self._nodes), np.bool_, len(self._nodes))

    @property
    def sets(self) -> list[tuple[Taint, ...]]:
        """The taints that each code stands for; the first are none."""
        return self._coded[0]

    @property
    def codes(self) -> NDArray[np.intp]:
        """int64[nodes]"""
        return self._coded[1]

    def forbidden(self, pod: Pod) -> Mask:
        """The codes of sets with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        answers = [any(t.effect in _FORBIDDING and not tolerates(pod, t) for t in taints) for taints in self.sets]
        mask: Mask = np.array(answers, np.bool_)
        return mask

    def closed_to(self, pods: Iterable[Pod]) -> Mask:
        """Nodes whose taints none of the pods tolerates."""
        closed = np.fromiter((any(t.effect in _FORBIDDING for t in taints) for taints in self.sets), np.bool_)
        # Most pods tolerate the same, and what they tolerate decides.
        alike = {
            tuple((each.key, each.operator, each.value, each.effect) for each in pod.spec.tolerations): pod
            for pod in (pods if closed.any() else ())
        }
        for pod in alike.values():
            closed &= self.forbidden(pod)
            if not closed.any():
                break
        mask: Mask = closed[self.codes]
        return mask

    @cached_property
    def _coded(self) -> tuple[list[tuple[Taint, ...]], NDArray[np.intp]]:
        codes = np.zeros(len(self._nodes), np.intp)
        sets: list[tuple[Taint, ...]] = [()]
        known: dict[TaintKey, int] = {}
        for row, node in enumerate(self._nodes):
            if node.spec.taints:
                key = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
                if key not in known:
                    known[key] = len(sets)
                    sets.append(tuple(node.spec.taints))
                codes[row] = known[key]
        return sets, codes


#: Name of the domain that holds the whole topology.
ROOT_DOMAIN = "root"
ROOT_LEVEL = 0


@dataclass(slots=True)
class LabelTopology:
    """Domains of one topology over the nodes of a snapshot, level by level, the root first."""

    name: str
    #: Node labels, the widest first; level k is `labels[k - 1]`.
    labels: tuple[str, ...]
    #: Label values from the widest level on, joined by dots.
    names: list[str]
    level: Rows
    parent: Rows
    #: Range of `order` that a domain holds.
    lo: Rows
    hi: Rows
    order: Rows
    #: First domain of each level, and the number of domains.
    first: Rows
    #: Labels by other names that levels have.
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def level_of(self, name: str) -> int:
        """The level of a label, or of an alias. Raises ValueError that says which there are."""
        label = name if name in self.labels else self.aliases.get(name, name)
        if label not in self.labels:
            known = ", ".join((*self.labels, *self.aliases)) or "none"
            raise ValueError(f"topology {self.name!r} has no level {name!r}; it has {known}")
        return self.labels.index(label) + 1

    def level_name(self, level: int) -> str:
        return self.labels[level - 1] if level else ROOT_DOMAIN

    def at_level(self, level: int) -> Rows:
        """Domains of one level."""
        return np.arange(self.first[level], self.first[level + 1], dtype=np.intp)

    def nodes(self, domain: int) -> Rows:
        """Node rows of a domain."""
        return self.order[self.lo[domain] : self.hi[domain]]

    def sums(self, values: NDArray[np.integer]) -> NDArray[np.int64]:
        """Sum an array over nodes (of any further shape) for every domain."""
        inside = values[self.order]
        running = np.zeros((len(inside) + 1, *inside.shape[1:]), np.int64)
        np.cumsum(inside, axis=0, out=running[1:])
        totals: NDArray[np.int64] = running[self.hi] - running[self.lo]
        return totals

    def owners(self, level: int, n_nodes: int) -> Rows:
        """Per node: its domain of a level, NO_ROW for nodes outside the topology."""
        owners = np.full(n_nodes, NO_ROW, np.intp)
        domains = self.at_level(level)
        owners[self.order] = np.repeat(domains, self.hi[domains] - self.lo[domains])
        return owners

    def ancestors(self, domains: Rows, level: int) -> Rows:
        """The domains of a level around others, which are of that level or narrower."""
        above = domains.copy()
        narrower = self.level[above] > level
        while narrower.any():
            above[narrower] = self.parent[above[narrower]]
            narrower = self.level[above] > level
        return above

    def common_domain(self, nodes: Rows, narrowest: int | None = None) -> int:
        """The narrowest domain, of level `narrowest` at most, around those of the nodes that are in the topology."""
        known = np.flatnonzero(np.isin(self.order, nodes))
        if len(known) == 0:
            return 0
        around = (self.lo <= known[0]) & (self.hi > known[-1])
        if narrowest is not None:
            around &= self.level <= narrowest
        return int(np.flatnonzero(around)[-1])


def build_label_topology(name: str, levels: Sequence[str], labels: NodeLabels, n_nodes: int) -> LabelTopology:
    """Group nodes by their values for the labels `levels`, from the widest to the narrowest."""
    ranks = [_value_ranks(labels, level) for level in levels]
    inside = np.ones(n_nodes, np.bool_)
    for rank in ranks:
        inside &= rank >= 0
    rows = np.flatnonzero(inside).astype(np.intp)
    order = rows[np.lexsort([rows, *(rank[rows] for rank in reversed(ranks))])]
    begins = np.zeros(len(order), np.bool_)
    begins[:1] = True
    starts = [np.zeros(1, np.int64)]
    for rank in ranks:
        begins[1:] |= np.diff(rank[order]) != 0
        starts.append(np.flatnonzero(begins))
    return _table(name, tuple(levels), labels, order, starts)


def _value_ranks(labels: NodeLabels, key: str) -> Rows:
    """Per node: the place of its value among all values of the label; -1 without the label."""
    codes, known = labels.column(key)
    # One more place at the end, for the code -1.
    ranks = np.full(len(known) + 1, -1, np.intp)
    for place, value in enumerate(sorted(known)):
        ranks[known[value]] = place
    found: Rows = ranks[codes]
    return found


def _table(
    name: str, levels: tuple[str, ...], labels: NodeLabels, order: Rows, starts: list[NDArray[np.int64]]
) -> LabelTopology:
    first = np.concatenate(([0], np.cumsum([len(begin) for begin in starts]))).astype(np.intp)
    lo = np.concatenate(starts).astype(np.intp)
    # Without any node in the topology there is only the root.
    hi = np.concatenate([np.append(begin[1:], len(order))[: len(begin)] for begin in starts]).astype(np.intp)
    level = np.repeat(np.arange(len(starts), dtype=np.intp), np.diff(first))
    parent = np.full(len(lo), NO_ROW, np.intp)
    names = [ROOT_DOMAIN]
    values = [labels.values(key) for key in levels]
    for number in range(1, len(starts)):
        begin = starts[number]
        above = np.searchsorted(starts[number - 1], begin, side="right") - 1
        parent[first[number] : first[number + 1]] = first[number - 1] + above
        nodes = order[begin].tolist()
        names += [".".join(str(value[node]) for value in values[:number]) for node in nodes]
    return LabelTopology(name, levels, names, level, parent, lo, hi, order, first)
