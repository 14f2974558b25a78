"""Columns that grow and shrink: arrays with spare room, rows that are handed out and taken back, numbers of names.

What is handed out follows what is there: free rows are filled first, smallest first, those at the end are let go, and
arrays that have become much too large are cut. Where live rows lie scattered among many free ones, `Columns.compact`
moves them together; whoever keeps row numbers has to be told.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from muster.snapshot.columns import NO_ROW, Rows

T = TypeVar("T")
#: What tells the groups of one job apart.
K = TypeVar("K", bound=Hashable)
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

    def compact(self) -> NDArray[np.intp]:
        """Renumber the rows in use from 0 on, in order; returns the new number of each row, -1 for free ones."""
        in_use = np.ones(self.size, np.bool_)
        in_use[list(self._free)] = False
        moved = np.where(in_use, np.cumsum(in_use) - 1, -1).astype(np.intp)
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

    def add(self, **values: float) -> int:
        """Hand out a row with these values, else zeros."""
        row = self._rows.take()
        if self.size > self._room():
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros_like(column)])
        for name, column in self._columns.items():
            column[row] = values.get(name, 0)
        return row

    def remove(self, row: int) -> None:
        """Take a row back."""
        self._rows.give_back(row)
        if self._room() > _FIRST_SIZE and self.size < self._room() // 4:
            self._cut(max(_FIRST_SIZE, 2 * self.size))

    def get(self, row: int, *names: str) -> list[int]:
        """What columns of a row hold."""
        columns = self._columns
        return [columns[name].item(row) for name in names]

    def set(self, row: int, **values: float) -> None:
        """Set columns of a row."""
        for name, value in values.items():
            self._columns[name][row] = value

    def is_scattered(self) -> bool:
        return self._rows.is_scattered()

    def compact(self) -> NDArray[np.intp]:
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
        self._answer: tuple[dict[str, int], NDArray[np.intp]] | None = None

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

    def rows(self, index: dict[str, int]) -> NDArray[np.intp]:
        """For every number, the row of its name in `index`, -1 if it is not there; one -1 more for "no name".

        An index does not change once it is made: as long as the same one is asked about, the answer is kept.
        """
        if self._answer is not None and self._answer[0] is index:
            return self._answer[1]
        rows = np.full(self._rows.size + 1, -1, np.intp)
        for name, number in self._numbers.items():
            rows[number] = index.get(name, -1)
        self._answer = index, rows
        return rows


def kept(items: Sequence[T], moved: NDArray[np.intp]) -> list[T]:
    """The items of rows that are in use, in order, after `Columns.compact`."""
    return [items[row] for row in np.flatnonzero(moved >= 0).tolist()]


def renumber(column: NDArray[np.intp], moved: NDArray[np.intp]) -> None:
    """Give row numbers in a column their new values; no row stays no row."""
    used = column >= 0
    column[used] = moved[column[used]]


class GroupBook(Generic[K]):
    """Groups by job and key."""

    def __init__(self) -> None:
        self.columns = Columns(job=np.intp, minimum=np.intp, policy=np.intp, index=np.intp, uses=np.intp)
        self.names: list[str] = []
        self._rows: list[dict[K, int]] = []
        #: Rows of every job, for snapshots to share, and the jobs for which they have to be listed anew.
        self._listed: list[tuple[int, ...]] = []
        self._unlisted: set[int] = set()
        self._keys: list[K | None] = []

    def add_job(self, job: int) -> None:
        """Make place for the groups of a job, which has none."""
        if job == len(self._rows):
            self._rows.append({})
            self._listed.append(())

    def of_jobs(self) -> list[tuple[int, ...]]:
        """The rows of every job. Listed when somebody asks: a job may have a hundred thousand groups."""
        for job in self._unlisted:
            self._listed[job] = tuple(self._rows[job].values())
        self._unlisted.clear()
        return list(self._listed)

    def find(self, job: int, key: K) -> int | None:
        return self._rows[job].get(key)

    def add(self, job: int, key: K, name: str, *, minimum: int, policy: int = NO_ROW, index: int = 0) -> int:
        """Make a group that a job does not have yet."""
        row = self.columns.add()
        if row == len(self.names):
            self.names.append("")
            self._keys.append(None)
        self.names[row], self._keys[row] = name, key
        self.columns.set(row, job=job, minimum=minimum, policy=policy, index=index)
        self._rows[job][key] = row
        self._unlisted.add(job)
        return row

    def enter(self, row: int) -> None:
        """Count a task in."""
        (uses,) = self.columns.get(row, "uses")
        self.columns.set(row, uses=uses + 1)

    def leave(self, row: int, keep: Container[K] = ()) -> None:
        """Count a task out; with the last the group goes, unless its key is among those to keep."""
        self.columns["uses"][row] -= 1
        key = self._keys[row]
        if self.columns["uses"][row] or key is None or key in keep:
            return
        job = int(self.columns["job"][row])
        del self._rows[job][key]
        self._unlisted.add(job)
        self._free(row)

    def drop(self, job: int) -> None:
        """Let all groups of a job go."""
        for row in self._rows[job].values():
            self._free(row)
        self._rows[job].clear()
        self._unlisted.add(job)

    def trim(self, n_jobs: int) -> None:
        """Forget jobs from a row on; they have no groups any more."""
        del self._rows[n_jobs:], self._listed[n_jobs:]
        self._unlisted = {job for job in self._unlisted if job < n_jobs}

    def _free(self, row: int) -> None:
        self.names[row], self._keys[row] = "", None
        self.columns.set(row, job=NO_ROW)
        self.columns.remove(row)
        del self.names[self.columns.size :], self._keys[self.columns.size :]

    # -- rows that move --------------------------------------------------------------------------------------

    def move_jobs(self, moved: Rows) -> None:
        """Follow jobs to their new rows."""
        self._rows = kept(self._rows, moved)
        self._list_all()
        renumber(self.columns["job"], moved)

    def compact(self) -> Rows:
        """Move the groups together; returns the new row of each."""
        moved = self.columns.compact()
        self.names, self._keys = kept(self.names, moved), kept(self._keys, moved)
        self._rows = [{key: int(moved[row]) for key, row in known.items()} for known in self._rows]
        self._list_all()
        return moved

    def _list_all(self) -> None:
        self._listed = [tuple(known.values()) for known in self._rows]
        self._unlisted.clear()
