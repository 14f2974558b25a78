"""A board: the current score of every node for one task class, kept up to date from the touch log.

Made by the engine from what the plugins say (where the class may go, and how nodes are scored), used by
`Statement.fill`. See `muster.kernels.placement` for how the arrays are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.kernels.placement import BLOCK, MODE, WRITTEN, catch_up, count_slots, recount_slots
from muster.snapshot.columns import Amounts, Mask, Rows
from muster.snapshot.tables import Snapshot


@dataclass(slots=True)
class Board:
    """Score arrays of one class and one fit mode."""

    #: int64[2, resources]
    requests: Amounts
    #: float64[terms, 2 + resources]
    terms: NDArray[np.float64]
    #: float64[2, nodes]: fixed part (-inf: the class may never go there), current score (-inf: does not fit)
    scores: NDArray[np.float64]
    block_max: NDArray[np.float64]
    #: int64[5]: SEEN, WRITTEN, MODE, LO, HI
    span: NDArray[np.int64]

    @classmethod
    def make(cls, requests: Amounts, terms: NDArray[np.float64], fixed: NDArray[np.float64], mode: int) -> Board:
        """Build a board from the fixed part of the scores; it fills itself on first use."""
        scores = np.empty((2, len(fixed)))
        scores[0] = fixed
        blocks = -(-len(fixed) // BLOCK)
        return cls(requests, terms, scores, np.empty(blocks), np.array([-1, 0, mode, 0, len(fixed)], np.int64))

    def within(self, mask: Mask) -> Board:
        """A board of its own for the nodes of a mask."""
        return Board.make(self.requests, self.terms, np.where(mask, self.scores[0], -np.inf), int(self.span[MODE]))

    def current(self, snapshot: Snapshot) -> NDArray[np.float64]:
        """Scores as of now, -inf where one more task does not fit."""
        self.span[WRITTEN] = snapshot.touched
        catch_up(
            snapshot.nodes.state,
            self.requests,
            self.terms,
            self.scores,
            self.block_max,
            snapshot.touch_log,
            self.span,
        )
        row: NDArray[np.float64] = self.scores[1]
        return row

    def has_room(self, snapshot: Snapshot) -> bool:
        """Whether some node can take one more task."""
        self.current(snapshot)
        return bool(self.block_max.max(initial=-np.inf) > -np.inf)

    def slots(self, snapshot: Snapshot, lo: int, hi: int) -> Rows:
        """How many more tasks of the class each of the nodes lo..hi can take."""
        slots = np.empty(hi - lo, np.int32)
        count_slots(snapshot.nodes.state, self.requests[0], self.scores[0], int(self.span[MODE]), lo, slots)
        return slots

    def recount(self, snapshot: Snapshot, since: int, slots: Rows) -> int:
        """Bring `slots` of all nodes up to date with what was touched `since`; return how many more there are now."""
        rows = snapshot.touch_log[since : snapshot.touched]
        return recount_slots(snapshot.nodes.state, self.requests[0], self.scores[0], int(self.span[MODE]), rows, slots)
