"""Boards per task class: where the class may go and how good each node is, made once per session.

`Boards` asks the plugins for a class the first time one of its tasks is placed. `boards_of(session)` gives every
action of a session the same boards, so that a later action starts from what an earlier one knows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.framework import FITS, Session, Verdicts
from muster.framework.reasons import OUTSIDE_SHARD, eviction_helps
from muster.kernels.placement import ANYHOW, IDLE
from muster.snapshot import Board

#: Keeps a soft shard's own nodes ahead of all others; far above any sum of weighted scores, and small enough
#: that the scores below it keep seven decimals.
_OWN_SHARD_BONUS = 1e9


class Boards:
    """Boards of one session, by class and fit mode."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._boards: dict[tuple[int, int], Board] = {}
        self._scores: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._outside, self._bonus = self._shard()

    def get(self, cls: int, mode: int = IDLE) -> Board:
        """The board of a class; shared by all its tasks."""
        board = self._boards.get((cls, mode))
        if board is None:
            fixed, terms = self._scores_of(cls)
            requests = self._session.snapshot.classes.requests[cls]
            board = self._boards[cls, mode] = Board.make(requests, terms, fixed, mode)
        return board

    def for_task(self, task: int, mode: int = IDLE) -> Board:
        """A board for one placement of a task for which other pods matter; anyhow: also where evictions would help."""
        session = self._session
        cls = int(session.snapshot.tasks.cls[task])
        fixed, terms = self._scores_of(cls)
        scores = session.task_scores(task)
        if scores is not None:
            fixed = fixed + scores
        verdicts = session.task_verdicts(task)
        if verdicts is not None:
            fixed = np.where(eviction_helps(verdicts) if mode == ANYHOW else verdicts == FITS, fixed, -np.inf)
        return Board.make(session.snapshot.classes.requests[cls], terms, fixed, mode)

    def verdicts(self, cls: int) -> Verdicts:
        """First reason against each node for a class, free resources and other pods aside."""
        verdicts = self._session.node_verdicts(cls)
        if self._outside is not None:
            verdicts = np.where((verdicts == FITS) & self._outside, OUTSIDE_SHARD.number, verdicts)
        return verdicts

    def fixed(self, cls: int) -> NDArray[np.float64]:
        """The part of the scores that does not change, -inf where the class may not go."""
        return self._scores_of(cls)[0]

    def _scores_of(self, cls: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The fixed part of the scores and the part that changes with what is free; plugins are asked once."""
        if cls not in self._scores:
            scores = self._session.node_scores(cls)
            fixed = np.where(self.verdicts(cls) == FITS, 0.0, -np.inf)
            for part in (*(one.fixed for one in scores), self._bonus):
                fixed = fixed if part is None else fixed + part
            rows = [row for one in scores for row in one.terms]
            terms = np.array(rows, np.float64).reshape(len(rows), 2 + len(self._session.snapshot.axis))
            self._scores[cls] = fixed, terms
        return self._scores[cls]

    def _shard(self) -> tuple[NDArray[np.bool_] | None, NDArray[np.float64] | None]:
        sharding = self._session.config.sharding
        if sharding is None:
            return None, None
        inside = np.array([name in sharding.nodes for name in self._session.snapshot.nodes.names], np.bool_)
        if sharding.mode == "hard":
            return ~inside, None
        return None, np.where(inside, _OWN_SHARD_BONUS, 0.0)


def boards_of(session: Session) -> Boards:
    """The boards that all actions of a session share."""
    boards = session.workspace.get("boards")
    if not isinstance(boards, Boards):
        boards = session.workspace["boards"] = Boards(session)
    return boards
