"""The alphabetical order of jobs, which decides between victims that are alike in everything else.

Callers: the table of jobs; the gang strategy asks. Made on first use and kept until a job comes or goes, so most
cycles find it made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.snapshot.records import JobRecord
from muster.snapshot.rows import Rows


class JobNames:
    """Places of jobs by name."""

    def __init__(self, index: Mapping[str, int]) -> None:
        """`index`: the row of every job, by its name; must not change afterwards."""
        self._index = index
        self._places: NDArray[np.int64] | None = None

    def places(self, jobs: Rows, records: Sequence[JobRecord]) -> NDArray[np.int64]:
        """Numbers that order the jobs by name, which `records` know; few are sorted for themselves."""
        if self._places is None and 4 * len(jobs) < len(self._index):
            names = [records[job].id for job in jobs.tolist()]
            return _ranks(sorted(range(len(names)), key=names.__getitem__))
        if self._places is None:
            self._places = _ranks([self._index[name] for name in sorted(self._index)])
        return self._places[jobs]


def _ranks(order: list[int]) -> NDArray[np.int64]:
    """Where each row stands in an order of rows; rows that are not in it: first."""
    ranks = np.zeros(max(order, default=-1) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
