"""The classes of the tasks that there are, as rows: one comes with its first task and goes with its last.

With them the resources that tasks ask for are counted. Requests are laid out once per class and moved when the axis
changes, so that a picture costs a copy. Part of the task book.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import Pod
from muster.snapshot.axis import Amounts, ResourceAxis
from muster.snapshot.classes import PodShape
from muster.snapshot.grow import FreeRows
from muster.snapshot.tables import ClassTable

#: Stands in rows that no object lives in.
NOBODY: Final = Pod()


class ResourceUses:
    """How often each resource is named."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def add(self, names: Iterable[str]) -> None:
        for name in names:  # not `update`, which would add the amounts of a mapping
            self._uses[name] += 1

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._uses[name] -= 1
            if not self._uses[name]:
                del self._uses[name]

    def names(self) -> Iterable[str]:
        """Those that somebody names."""
        return self._uses.keys()


class ClassBook:
    """Rows of classes."""

    def __init__(self, resources: ResourceUses) -> None:
        self._resources = resources
        self._rows = FreeRows()
        self._row_of: dict[bytes, int] = {}
        self._shapes: list[PodShape | None] = []
        self._pods: list[Pod] = []
        self._keys: list[bytes] = []
        self._uses: list[int] = []
        self._axis = ResourceAxis()
        self._requests: Amounts = np.zeros((0, 2, len(self._axis)), np.int64)
        #: Rows whose requests are not laid out yet.
        self._new: set[int] = set()

    def __len__(self) -> int:
        """Classes that there are."""
        return len(self._row_of)

    def take(self, shape: PodShape, pod: Pod) -> int:
        """The row of a class that has one more task."""
        row = self._row_of.get(shape.key)
        if row is None:
            row = self._row_of[shape.key] = self._rows.take()
            if row == len(self._shapes):
                self._shapes.append(None)
                self._pods.append(NOBODY)
                self._keys.append(b"")
                self._uses.append(0)
            self._shapes[row], self._pods[row], self._keys[row] = shape, pod, shape.key
            self._resources.add(shape.request)
            self._new.add(row)
        self._uses[row] += 1
        return row

    def give_back(self, row: int) -> None:
        """A class has one task less."""
        self._uses[row] -= 1
        shape = self._shapes[row]
        if self._uses[row] or shape is None:
            return
        del self._row_of[shape.key]
        self._resources.remove(shape.request)
        self._shapes[row], self._pods[row], self._keys[row] = None, NOBODY, b""
        self._new.add(row)
        self._rows.give_back(row)
        self._trim()

    def is_scattered(self) -> bool:
        return self._rows.is_scattered()

    def compact(self) -> NDArray[np.int32]:
        """Move the classes together; returns the new row of each, -1 for free ones."""
        moved = self._rows.compact()
        kept = np.flatnonzero(moved >= 0).tolist()
        self._shapes = [self._shapes[row] for row in kept]
        self._pods = [self._pods[row] for row in kept]
        self._keys = [self._keys[row] for row in kept]
        self._uses = [self._uses[row] for row in kept]
        self._row_of = {key: row for row, key in enumerate(self._keys)}
        self._requests = self._requests[:0]
        self._new = set(range(len(kept)))
        return moved

    def table(self, axis: ResourceAxis) -> ClassTable:
        """The classes, for a picture to own; the axis has every resource that they ask for."""
        self._lay_out(axis)
        return ClassTable(self._requests[: self._rows.size].copy(), list(self._pods), list(self._keys))

    def _trim(self) -> None:
        size = self._rows.size
        del self._shapes[size:], self._pods[size:], self._keys[size:], self._uses[size:]

    def _lay_out(self, axis: ResourceAxis) -> None:
        size = self._rows.size
        if axis.names != self._axis.names or not size <= len(self._requests) <= 4 * max(size, 64):
            # What is laid out names nothing but what the axis had before.
            both = [name for name in axis.names if name in self._axis.index]
            requests = np.zeros((2 * size, 2, len(axis)), np.int64)
            n = min(size, len(self._requests))
            known = self._requests[:n, :, [self._axis.index[name] for name in both]]
            requests[:n, :, [axis.index[name] for name in both]] = known
            self._requests, self._axis = requests, axis
        for row in self._new:
            if row < size:
                shape = self._shapes[row]
                self._requests[row, 0] = 0 if shape is None else axis.vector(shape.request)
                self._requests[row, 1] = 0 if shape is None else axis.vector(shape.scoring)
        self._new.clear()
