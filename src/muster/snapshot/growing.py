"""Columns that grow and shrink: arrays with spare room, rows that are handed out and taken back, numbers of names.

What is handed out follows what is there: free rows are filled first, smallest first, those at the end are let go, and
arrays that have become much too large are cut. Where live rows lie scattered among many free ones, `Columns.compact`
moves them together; whoever keeps row numbers has to be told.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")
_FIRST_SIZE: Final = 256
#: Free rows that are not worth moving others for.
_FEW: Final = 1024


class FreeRows:
    """Rows handed out one by one; those taken back are handed out again, smallest first."""

    def __init__(self) -> None:
        self.size = 0
        self._free: set[int] = set()
        #: The same as a heap, with rows that are not free any more among them.
        self._heap: list[int] = []

    def __len__(self) -> int:
        """Rows in use."""
        return self.size - len(self._free)

    def take(self) -> int:
        while self._heap:
            row = heapq.heappop(self._heap)
            if row in self._free:
                self._free.remove(row)
                return row
        self.size += 1
        return self.size - 1

    def give_back(self, row: int) -> None:
        """Take a row back, and let go of the rows at the end that nobody has."""
        self._free.add(row)
        heapq.heappush(self._heap, row)
        while self.size and self.size - 1 in self._free:
            self.size -= 1
            self._free.remove(self.size)
        if not self._free:
            self._heap.clear()

    def is_scattered(self) -> bool:
        """Whether most rows are free, and too many for it not to matter."""
        return len(self._free) > max(_FEW, len(self))

    def compact(self) -> NDArray[np.int32]:
        """Renumber the rows in use from 0 on, in order; returns the new number of each row, -1 for free ones."""
        in_use = np.ones(self.size, np.bool_)
        in_use[list(self._free)] = False
        moved = np.where(in_use, np.cumsum(in_use) - 1, -1).astype(np.int32)
        self.size = int(in_use.sum())
        self._free.clear()
        self._heap.clear()
        return moved


class Columns:
    """Named arrays of equal length."""

    def __init__(self, **columns: DTypeLike) -> None:
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(_FIRST_SIZE, dtype) for name, dtype in columns.items()}
        self._rows = FreeRows()

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The used part of a column; a view, valid until the next `add` or `remove`."""
        return self._columns[name][: self.size]

    def __len__(self) -> int:
        """Rows in use."""
        return len(self._rows)

    @property
    def size(self) -> int:
        """Rows in use, and the free ones between them."""
        return self._rows.size

    def add(self) -> int:
        """Hand out a row of zeros."""
        row = self._rows.take()
        if self.size > self._room():
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros_like(column)])
        for column in self._columns.values():
            column[row] = 0
        return row

    def remove(self, row: int) -> None:
        """Take a row back."""
        self._rows.give_back(row)
        if self._room() > _FIRST_SIZE and self.size < self._room() // 4:
            self._cut(max(_FIRST_SIZE, 2 * self.size))

    def set(self, row: int, **values: float) -> None:
        """Set columns of a row."""
        for name, value in values.items():
            self._columns[name][row] = value

    def is_scattered(self) -> bool:
        return self._rows.is_scattered()

    def compact(self) -> NDArray[np.int32]:
        """Move the rows in use together, in order; returns the new number of each row, -1 for free ones."""
        moved = self._rows.compact()
        kept = np.flatnonzero(moved >= 0)
        for column in self._columns.values():
            column[: len(kept)] = column[kept]
        self._cut(max(_FIRST_SIZE, 2 * self.size))
        return moved

    def _room(self) -> int:
        return len(next(iter(self._columns.values())))

    def _cut(self, room: int) -> None:
        for name, column in self._columns.items():
            self._columns[name] = column[:room].copy()


class Names:
    """Numbers for names, as long as somebody uses them; -1 for no name."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._uses: list[int] = []
        self._rows = FreeRows()
        #: The last answer of `rows`, and the index that it was for.
        self._answer: tuple[dict[str, int], NDArray[np.int32]] | None = None

    def __len__(self) -> int:
        """Names in use."""
        return len(self._numbers)

    def take(self, name: str) -> int:
        """The number of a name that is used once more; "" has none."""
        if not name:
            return -1
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._rows.take()
            if number == len(self._names):
                self._names.append(name)
                self._uses.append(0)
            self._names[number] = name
            self._answer = None
        self._uses[number] += 1
        return number

    def give_back(self, number: int) -> None:
        """A number is used once less."""
        if number < 0:
            return
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[self._names[number]]
            self._names[number] = ""
            self._rows.give_back(number)
            del self._names[self._rows.size :], self._uses[self._rows.size :]
            self._answer = None

    def rows(self, index: dict[str, int]) -> NDArray[np.int32]:
        """For every number, the row of its name in `index`, -1 if it is not there; one -1 more for "no name".

        An index does not change once it is made: as long as the same one is asked about, the answer is kept.
        """
        if self._answer is not None and self._answer[0] is index:
            return self._answer[1]
        rows = np.full(self._rows.size + 1, -1, np.int32)
        for name, number in self._numbers.items():
            rows[number] = index.get(name, -1)
        self._answer = index, rows
        return rows


def kept(items: Sequence[T], moved: NDArray[np.int32]) -> list[T]:
    """The items of rows that are in use, in order, after `Columns.compact`."""
    return [items[row] for row in np.flatnonzero(moved >= 0).tolist()]


def renumber(column: NDArray[np.int32], moved: NDArray[np.int32]) -> None:
    """Give row numbers in a column their new values; no row stays no row."""
    used = column >= 0
    column[used] = moved[column[used]]
