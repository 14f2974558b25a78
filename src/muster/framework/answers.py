"""What the answers of plugins must be like, and what is said about one that is not.

The table of extension points names one kind of answer for each. The session looks at the answers of plugins that are
not its own, `muster.testing.check_plugin` at everybody's, and the reference page shows the words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from muster.framework.plugin import Departure, NodeScores, Protection, Rejection, Vote
from muster.framework.reasons import FITS, all_reasons
from muster.snapshot import Snapshot
from muster.snapshot.classes import Division

#: Any: an answer of an extension point, and what was asked about, in the order of the parameters.
Test = Callable[[Any, Sequence[Any], Snapshot], bool]


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """A kind of answer: `words` complete "expected ..."."""

    words: str
    is_met: Test

    def problem(self, answer: object, about: Sequence[Any], snapshot: Snapshot) -> str:
        """What is wrong with an answer; "": nothing."""
        return "" if self.is_met(answer, about, snapshot) else f"expected {self.words}, got {_shown(answer)}"

    def or_none(self) -> AnswerKind:
        """None is an answer too."""
        return AnswerKind(
            f"{self.words}, or None", lambda answer, *about: answer is None or self.is_met(answer, *about)
        )


def _shown(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        values = np.array2string(answer.ravel()[:4], separator=", ") + ("..." if answer.size > 4 else "")
        return f"an array of {answer.dtype} with the shape {answer.shape}: {values}"
    if isinstance(answer, NodeScores):
        return f"NodeScores(fixed={_shown(answer.fixed)}, terms of {[len(term) for term in answer.terms]} numbers)"
    shown = repr(answer)
    return shown if len(shown) < 80 else f"{shown[:77]}..."


def _is_column(answer: object, kinds: str, length: int) -> bool:
    is_column = isinstance(answer, np.ndarray) and answer.dtype in kinds.split() and answer.shape == (length,)
    return is_column and bool(np.isfinite(answer).all())  # type: ignore[call-overload]  # an array of numbers by now


def _are_rows(answer: object, allowed: Collection[int]) -> bool:
    is_column = isinstance(answer, np.ndarray) and answer.dtype == np.intp and answer.ndim == 1
    return is_column and set(answer.tolist()) <= set(allowed)  # type: ignore[attr-defined]  # an array by now


def _sorts(answer: object) -> bool:
    try:
        return isinstance((answer,) < (answer,), bool) and not isinstance(answer, np.ndarray)
    except (TypeError, ValueError):  # ValueError: of arrays in tuples nobody knows which is smaller
        return False


def _are_reasons(answer: Any, _about: object, snapshot: Snapshot) -> bool:  # noqa: ANN401  # whatever a plugin answers
    known = {FITS, *(reason.number for reason in all_reasons())}
    return _is_column(answer, "int16", len(snapshot.nodes)) and set(answer.tolist()) <= known


def _are_scores(answer: object, _about: object, snapshot: Snapshot) -> bool:
    if not isinstance(answer, NodeScores) or any(len(term) != 2 + len(snapshot.axis) for term in answer.terms):
        return False
    return answer.fixed is None or _is_column(answer.fixed, "float64", len(snapshot.nodes))


def _is_division(answer: object, _about: object, snapshot: Snapshot) -> bool:
    return (
        isinstance(answer, Division)
        and _is_column(answer.parts, "int64 int32", len(snapshot.tasks))
        and 0 <= int(answer.parts.min(initial=0)) <= int(answer.parts.max(initial=0)) < max(1, len(answer.names))
    )


def _are_departures(answer: object, _about: object, snapshot: Snapshot) -> bool:
    return isinstance(answer, Sequence) and all(
        isinstance(one, Departure) and _are_rows(one.tasks, range(len(snapshot.tasks))) for one in answer
    )


NOTHING: Final = AnswerKind("nothing", lambda answer, *_: answer is None)
KEY: Final = AnswerKind("a number, a text or a tuple of such", lambda answer, *_: _sorts(answer))
COUNT: Final = AnswerKind(
    "a number of zero or more",
    lambda answer, *_: isinstance(answer, int | np.integer) and not isinstance(answer, bool) and int(answer) >= 0,
)
YES_OR_NO: Final = AnswerKind("True or False", lambda answer, *_: isinstance(answer, bool | np.bool_))
REJECTION: Final = AnswerKind("a Rejection", lambda answer, *_: isinstance(answer, Rejection)).or_none()
START: Final = AnswerKind(
    "a Rejection, or bool per node",
    lambda answer, _, snapshot: isinstance(answer, Rejection) or _is_column(answer, "bool", len(snapshot.nodes)),
)
VOTE: Final = AnswerKind("a Vote or a Rejection", lambda answer, *_: isinstance(answer, Vote | Rejection))
DIVISION: Final = AnswerKind("a Division with one part per task and one name per part", _is_division)
NODE_REASONS: Final = AnswerKind("int16 per node: FITS, or the number of a declared reason", _are_reasons)
NODE_SCORES: Final = AnswerKind(
    "NodeScores: `fixed` finite float64 per node, `terms` of 2 + as many numbers as resources", _are_scores
)
NODE_POINTS: Final = AnswerKind(
    "finite float64 per node", lambda answer, _, snapshot: _is_column(answer, "float64", len(snapshot.nodes))
)
TASK_KEYS: Final = AnswerKind(
    "int64 per task", lambda answer, about, _: _is_column(answer, "int64 int32", len(about[0]))
)
JOB_KEYS: Final = AnswerKind(
    "a number per job", lambda answer, about, _: _is_column(answer, "int64 int32 float64 bool", len(about[0]))
)
JOB_MASK: Final = AnswerKind("bool per job", lambda answer, about, _: _is_column(answer, "bool", len(about[-1])))
DOMAIN_POINTS: Final = AnswerKind(
    "finite float64 per domain", lambda answer, about, _: _is_column(answer, "float64", len(about[-1]))
)
DOMAINS: Final = AnswerKind(
    "int64 rows of domains", lambda answer, _, snapshot: _are_rows(answer, range(len(snapshot.topology)))
)
GRADIENTS: Final = AnswerKind(
    "a list of int64 rows of domains",
    lambda answer, about, snapshot: (
        isinstance(answer, Sequence) and all(DOMAINS.is_met(step, about, snapshot) for step in answer)
    ),
)
AMOUNTS: Final = AnswerKind(
    "int64 per resource", lambda answer, _, snapshot: _is_column(answer, "int64", len(snapshot.axis))
)
PENDING_TASKS: Final = AnswerKind(
    "int64 rows of pending tasks", lambda answer, _, snapshot: _are_rows(answer, snapshot.pending_tasks().tolist())
)
CANDIDATES: Final = AnswerKind(
    "int64 rows out of the candidates", lambda answer, about, _: _are_rows(answer, about[-1].tolist())
)
DEPARTURES: Final = AnswerKind("a list of Departures", _are_departures)
PROTECTIONS: Final = AnswerKind(
    "a list of Protections",
    lambda answer, *_: isinstance(answer, Sequence) and all(isinstance(one, Protection) for one in answer),
)
FILTERS: Final = AnswerKind(
    "a list of functions that take a Scenario",
    lambda answer, *_: isinstance(answer, Sequence) and all(map(callable, answer)),
)
