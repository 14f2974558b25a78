"""Node taints as a coded column: nodes with equal taints share a code, and most nodes have none.

Callers: the node table of the mirror, which keeps it until a node changes; the plugins that ask about taints. Like
label columns it is made on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from muster.api import Node, Taint
from muster.snapshot.rows import Mask

TaintKey = tuple[tuple[str, str, str], ...]


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
    def codes(self) -> NDArray[np.int32]:
        """int32[nodes]"""
        return self._coded[1]

    @cached_property
    def _coded(self) -> tuple[list[tuple[Taint, ...]], NDArray[np.int32]]:
        codes = np.zeros(len(self._nodes), np.int32)
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
