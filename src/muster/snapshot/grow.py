"""Columns that grow: numpy arrays with spare room, and rows that are handed out and taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Columns:
    """Named arrays of equal length. Freed rows are handed out again, smallest first is not promised."""

    def __init__(self, **columns: DTypeLike) -> None:
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(256, dtype) for name, dtype in columns.items()}
        self._free: list[int] = []
        self.size = 0

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The used part of a column; a view, valid until the next `add`."""
        return self._columns[name][: self.size]

    def add(self) -> int:
        """Hand out a row of zeros."""
        if self._free:
            row = self._free.pop()
            for column in self._columns.values():
                column[row] = 0
            return row
        if self.size == len(next(iter(self._columns.values()))):
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros_like(column)])
        self.size += 1
        return self.size - 1

    def remove(self, row: int) -> None:
        """Take a row back."""
        self._free.append(row)

    def set(self, row: int, **values: float) -> None:
        """Set columns of a row."""
        for name, value in values.items():
            self._columns[name][row] = value


class Names:
    """Numbers for names, given out once and kept: a name that comes back finds its number again."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        #: The last answer of `rows`, and the index that it was for.
        self._answer: tuple[dict[str, int], NDArray[np.int32]] | None = None

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def rows(self, index: dict[str, int]) -> NDArray[np.int32]:
        """For every number, the row of its name in `index`, -1 if it is not there; one -1 more for "no name".

        An index does not change once it is made: as long as the same one is asked about, the answer is kept.
        """
        if self._answer is not None and self._answer[0] is index and len(self._answer[1]) == len(self.numbers) + 1:
            return self._answer[1]
        rows = np.full(len(self.numbers) + 1, -1, np.int32)
        for name, number in self.numbers.items():
            rows[number] = index.get(name, -1)
        self._answer = index, rows
        return rows
