"""Node labels as dictionary-coded columns, one per label key that anybody asked about.

A column is int32[nodes]: the code of the node's value for that key, -1 where the label is missing. Selectors
become integer comparisons over all nodes at once. Columns are made on first use and dropped when nodes change, or when
many others have been asked about since: pods may name any key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import Node

HOSTNAME = "kubernetes.io/hostname"
_MAX_COLUMNS: Final = 256


class NodeLabels:
    """Coded label columns over a fixed list of nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._columns: dict[str, tuple[NDArray[np.int32], dict[str, int]]] = {}

    def column(self, key: str) -> tuple[NDArray[np.int32], Mapping[str, int]]:
        """Return the codes of every node for `key`, and the code of each value."""
        cached = self._columns.pop(key, None)
        if cached is None:
            cached = self._encode(key)
            if len(self._columns) >= _MAX_COLUMNS:
                del self._columns[next(iter(self._columns))]  # the one that was asked about longest ago
        self._columns[key] = cached
        return cached

    def codes(self, key: str) -> NDArray[np.int32]:
        return self.column(key)[0]

    def is_in(self, key: str, values: Iterable[str]) -> NDArray[np.bool_]:
        """Nodes whose value for `key` is one of `values`."""
        codes, known = self.column(key)
        wanted = [known[value] for value in values if value in known]
        return np.isin(codes, wanted) if wanted else np.zeros(len(self._nodes), bool)

    def values(self, key: str) -> list[str | None]:
        """The value of each node for `key`."""
        return [node.metadata.labels.get(key) for node in self._nodes]

    def _encode(self, key: str) -> tuple[NDArray[np.int32], dict[str, int]]:
        known: dict[str, int] = {}
        codes = np.full(len(self._nodes), -1, np.int32)
        for row, value in enumerate(self.values(key)):
            if value is not None:
                codes[row] = known.setdefault(value, len(known))
        return codes, known
