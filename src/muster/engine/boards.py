"""Boards per task class: where the class may go and how good each node is, made once per session.

`Boards` asks the plugins for a class the first time one of its tasks is placed. `boards_of(session)` gives every
action of a session the same boards, so that a later action starts from what an earlier one knows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muster.framework import FITS, NodeScores, Session, Verdicts
from muster.framework.reasons import OUTSIDE_SHARD
from muster.kernels.placement import IDLE
from muster.snapshot import Board

#: Keeps a soft shard's own nodes ahead of all others; far above any sum of weighted scores, and small enough
#: that the scores below it keep seven decimals.
_OWN_SHARD_BONUS = 1e9


class Boards:
    """Boards of one session, by class and fit mode."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._boards: dict[tuple[int, int], Board] = {}
        self._fixed: dict[int, NDArray[np.float64]] = {}
        self._terms: dict[int, NDArray[np.float64]] = {}
        self._scores: dict[int, list[NodeScores]] = {}
        self._outside, self._bonus = self._shard()

    def get(self, cls: int, mode: int = IDLE) -> Board:
        """The board of a class; shared by all its tasks."""
        board = self._boards.get((cls, mode))
        if board is None:
            requests = self._session.snapshot.classes.requests[cls]
            board = Board.make(requests, self.terms(cls), self.fixed(cls), mode)
            self._boards[cls, mode] = board
        return board

    def for_task(self, task: int, mode: int = IDLE) -> Board:
        """A board for one placement of a task for which other pods matter."""
        session = self._session
        cls = int(session.snapshot.tasks.cls[task])
        fixed = self.fixed(cls)
        scores = session.task_scores(task)
        if scores is not None:
            fixed = fixed + scores
        verdicts = session.task_verdicts(task)
        if verdicts is not None:
            fixed = np.where(verdicts == FITS, fixed, -np.inf)
        return Board.make(session.snapshot.classes.requests[cls], self.terms(cls), fixed, mode)

    def verdicts(self, cls: int) -> Verdicts:
        """First reason against each node for a class, free resources and other pods aside."""
        verdicts = self._session.node_verdicts(cls)
        if self._outside is not None:
            verdicts = np.where((verdicts == FITS) & self._outside, OUTSIDE_SHARD.number, verdicts)
        return verdicts

    def fixed(self, cls: int) -> NDArray[np.float64]:
        """The part of the scores that does not change, -inf where the class may not go."""
        fixed = self._fixed.get(cls)
        if fixed is None:
            fixed = np.where(self.verdicts(cls) == FITS, 0.0, -np.inf)
            for scores in self._scores_of(cls):
                if scores.fixed is not None:
                    fixed = fixed + scores.fixed
            if self._bonus is not None:
                fixed = fixed + self._bonus
            self._fixed[cls] = fixed
        return fixed

    def terms(self, cls: int) -> NDArray[np.float64]:
        terms = self._terms.get(cls)
        if terms is None:
            terms = self._terms[cls] = _stack(self._scores_of(cls), len(self._session.snapshot.axis))
        return terms

    def _scores_of(self, cls: int) -> list[NodeScores]:
        """What the plugins say about a class; asked once, for both parts of the scores."""
        scores = self._scores.get(cls)
        if scores is None:
            scores = self._scores[cls] = self._session.node_scores(cls)
        return scores

    def _shard(self) -> tuple[NDArray[np.bool_] | None, NDArray[np.float64] | None]:
        sharding = self._session.config.sharding
        if sharding is None:
            return None, None
        inside = np.array([name in sharding.nodes for name in self._session.snapshot.nodes.names], np.bool_)
        if sharding.mode == "hard":
            return ~inside, None
        return None, np.where(inside, _OWN_SHARD_BONUS, 0.0)


def _stack(scores: Sequence[NodeScores], n_resources: int) -> NDArray[np.float64]:
    rows = [row for one in scores for row in one.terms]
    return np.array(rows, np.float64).reshape(len(rows), 2 + n_resources)


def boards_of(session: Session) -> Boards:
    """The boards that all actions of a session share."""
    boards = session.workspace.get("boards")
    if not isinstance(boards, Boards):
        boards = session.workspace["boards"] = Boards(session)
    return boards
