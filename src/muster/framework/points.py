"""The extension points: what plugins can be asked, in one table.

Each row says which method of `Plugin` it is, how the answers of several plugins become one, what an answer must be like
and which flag of Volcano's configuration file turns it off. Session, configuration, reference pages and the checks of
plugins all go by it. Types come from the methods: `session.asked(JOB_VALID)` is a list of functions from a job to a
`Rejection` or None. The question itself is the method's docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from muster.framework import answers
from muster.framework.answers import AnswerKind
from muster.framework.plugin import Eviction, NodeScores, Plugin, Rejection, Vote
from muster.framework.reasons import FITS, NOT_ADMITTED, Verdicts
from muster.snapshot import Amounts, Mask, Rows

Floats = NDArray[np.float64]

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S", bound=Sized)

#: More tasks than any queue is asked about.
NO_LIMIT: Final = 2**31 - 1


@dataclass(frozen=True)  # no slots: what is made from `Rule[A, R]` is told so
class Rule(Generic[A, R]):
    """How the answers of several plugins, in tier order, become one; `words` complete "answers combine: ..."."""

    words: str
    combine: Callable[[Iterable[A]], R]


class Point(Generic[P, A, R]):
    """An extension point: `P` is what is asked about, `A` a plugin's answer, `R` what becomes of all of them."""

    __slots__ = ("answer", "flag", "method", "name", "rule")

    def __init__(
        self, method: Callable[Concatenate[Plugin, P], A], rule: Rule[A, R], answer: AnswerKind, flag: str = ""
    ) -> None:
        self.method = method
        self.name = method.__name__
        self.rule = rule
        self.answer = answer
        #: Turns the point off for a plugin; "": it is always on.
        self.flag = flag

    @property
    def question(self) -> str:
        return inspect.getdoc(self.method) or ""

    @property
    def contract(self) -> str:
        """What a plugin implements, in a line."""
        signature = str(inspect.signature(self.method)).replace("'", "")
        return f"{self.name}{signature}"

    def is_implemented(self, plugin: type[Plugin]) -> bool:
        return getattr(plugin, self.name) is not self.method


# -- rules -------------------------------------------------------------------------------------------------------------


def _first(given: Iterable[T | None]) -> T | None:
    return next((answer for answer in given if answer is not None), None)


def _first_named(given: Iterable[S | None]) -> S | None:
    return next((answer for answer in given if answer is not None and len(answer)), None)


def _first_reasons(given: Iterable[Verdicts | None]) -> Verdicts | None:
    combined: Verdicts | None = None
    for answer in given:
        if answer is not None:
            combined = answer if combined is None else np.where(combined == FITS, answer, combined)
    return combined


def _sum(given: Iterable[Floats | None]) -> Floats | None:
    total: Floats | None = None
    for answer in given:
        if answer is not None:
            total = answer if total is None else total + answer
    return total


def _united(given: Iterable[Mask]) -> Mask | None:
    masks = list(given)
    return np.logical_or.reduce(masks) if masks else None


def _agreed(given: Iterable[Mask]) -> Mask | None:
    masks = list(given)
    return np.logical_and.reduce(masks) if masks else None


def _intersected(given: Iterable[Rows | None]) -> Rows | None:
    agreed: Rows | None = None
    for answer in given:
        if answer is not None:
            agreed = answer if agreed is None else agreed[np.isin(agreed, answer)]
    return agreed


def _votes(tiers: Iterable[Iterable[Vote | Rejection]]) -> Rejection | None:
    """Why not: a reject wins at once, the first tier with a permit ends the question."""
    for tier in tiers:
        permitted = False
        for vote in tier:
            if isinstance(vote, Rejection):
                return vote
            if vote == Vote.REJECT:
                return Rejection(NOT_ADMITTED)
            permitted = permitted or vote == Vote.PERMIT
        if permitted:
            return None
    return None


def _together(given: Iterable[Iterable[T]]) -> list[T]:
    return [one for answer in given for one in answer]


def _tell(given: Iterable[None]) -> None:
    for _ in given:
        pass


KEYS: Final = Rule[Any, tuple[Any, ...]]("keys are compared plugin by plugin, tier by tier; smaller goes first", tuple)
TELL: Final = Rule[None, None]("every plugin is told", _tell)
EVERY: Final = Rule[bool, bool]("every plugin must agree", all)
EVERY_OF_MANY: Final = Rule[Mask, Mask | None]("every plugin must agree", _agreed)
ANY: Final = Rule[bool, bool]("one yes is enough", any)
LARGEST: Final = Rule[int, int]("the largest answer counts", lambda given: max(given, default=0))
SMALLEST: Final = Rule[int, int]("the smallest answer counts", lambda given: min(given, default=NO_LIMIT))
FIRST_REJECTION: Final = Rule[Rejection | None, Rejection | None](
    "every plugin must agree; the first rejection is told", _first
)
TOLD_ANY: Final = Rule[bool, bool]("every plugin is told, one yes is enough", lambda given: any(list(given)))
FIRST_START: Final = Rule[Any, Any]("the first plugin with an opinion decides", _first)
FIRST_AMOUNTS: Final = Rule[Amounts | None, Amounts | None]("the first plugin with an opinion decides", _first)
FIRST_CHOICE: Final = Rule[Rows | None, Rows | None]("the first plugin with an opinion decides", _first)
FIRST_DOMAINS: Final = Rule[Rows | None, Rows | None]("the first plugin that names domains decides", _first_named)
FIRST_GRADIENTS: Final = Rule[Sequence[Rows] | None, Sequence[Rows] | None](
    "the first plugin that names domains decides", _first_named
)
_FIRST_REASON: Final = "every plugin must agree; the first reason against a node is told"
CLASS_REASONS: Final = Rule[Verdicts, Verdicts | None](_FIRST_REASON, _first_reasons)
TASK_REASONS: Final = Rule[Verdicts | None, Verdicts | None](_FIRST_REASON, _first_reasons)
_ADDED: Final = "scores are added up; larger is better"
TASK_SUM: Final = Rule[Floats | None, Floats | None](_ADDED, _sum)
DOMAIN_SUM: Final = Rule[Floats, Floats | None](_ADDED, _sum)
NODE_SUM: Final = Rule[NodeScores, list[NodeScores]](_ADDED, list)
LISTED: Final = Rule[Any, list[Any]]("what plugins answer is put together", _together)
PARTS: Final = Rule[Any, list[Any]]("each part that some plugin tells apart becomes a class", list)
UNITED: Final = Rule[Mask, Mask | None]("one yes is enough", _united)
VOTES: Final = Rule[Any, Rejection | None](
    "a reject wins at once; the first tier with a permit ends the question", _votes
)
VICTIMS: Final = Rule[Rows | None, Rows | None](
    "who protects must agree, in whatever tier; the others intersect within a tier, the first with an opinion decides",
    _intersected,
)

# -- the table: method, rule, what an answer must be like, flag --------------------------------------------------------

DIVIDE_CLASSES: Final = Point(Plugin.divide_classes, PARTS, answers.DIVISION.or_none())
JOB_ORDER: Final = Point(Plugin.job_order, KEYS, answers.KEY, "enableJobOrder")
JOB_ORDERS: Final = Point(Plugin.job_orders, KEYS, answers.JOB_KEYS, "enableJobOrder")
QUEUE_ORDER: Final = Point(Plugin.queue_order, KEYS, answers.KEY, "enableQueueOrder")
TASK_ORDER: Final = Point(Plugin.task_order, KEYS, answers.TASK_KEYS, "enableTaskOrder")
SUBGROUP_ORDER: Final = Point(Plugin.subgroup_order, KEYS, answers.KEY, "enabledSubJobOrder")
VICTIM_QUEUE_ORDER: Final = Point(Plugin.victim_queue_order, KEYS, answers.KEY)
QUEUE_TURN: Final = Point(Plugin.queue_turn, KEYS, answers.KEY)
VICTIM_ORDER: Final = Point(Plugin.victim_order, KEYS, answers.KEY)
VICTIM_ORDERS: Final = Point(Plugin.victim_orders, KEYS, answers.JOB_KEYS)
JOB_VALID: Final = Point(Plugin.job_valid, FIRST_REJECTION, answers.REJECTION)
JOBS_VALID: Final = Point(Plugin.jobs_valid, EVERY_OF_MANY, answers.JOB_MASK)
JOB_READY: Final = Point(Plugin.job_ready, LARGEST, answers.COUNT, "enableJobReady")
JOB_PIPELINED: Final = Point(Plugin.job_pipelined, LARGEST, answers.COUNT, "enableJobPipelined")
SUBGROUP_READY: Final = Point(Plugin.subgroup_ready, LARGEST, answers.COUNT, "enabledSubJobReady")
SUBGROUP_PIPELINED: Final = Point(Plugin.subgroup_pipelined, LARGEST, answers.COUNT, "enabledSubJobPipelined")
JOB_STARVING: Final = Point(Plugin.job_starving, EVERY, answers.YES_OR_NO, "enableJobStarving")
JOB_ENQUEUEABLE: Final = Point(Plugin.job_enqueueable, VOTES, answers.VOTE, "enableJobEnqueued")
JOB_ENQUEUED: Final = Point(Plugin.job_enqueued, TELL, answers.NOTHING, "enableJobEnqueued")
JOB_WAITS: Final = Point(Plugin.job_waits, TOLD_ANY, answers.YES_OR_NO)
QUEUE_CLOSED: Final = Point(Plugin.queue_closed, FIRST_REJECTION, answers.REJECTION)
START_NODES: Final = Point(Plugin.start_nodes, FIRST_START, answers.START.or_none())
NODE_MASK: Final = Point(Plugin.node_mask, CLASS_REASONS, answers.NODE_REASONS, "enablePredicate")
TASK_MASK: Final = Point(Plugin.task_mask, TASK_REASONS, answers.NODE_REASONS.or_none(), "enablePredicate")
LIVE_TASKS: Final = Point(Plugin.live_tasks, LISTED, answers.PENDING_TASKS)
NODE_SCORE: Final = Point(Plugin.node_score, NODE_SUM, answers.NODE_SCORES, "enableNodeOrder")
TASK_SCORE: Final = Point(Plugin.task_score, TASK_SUM, answers.NODE_POINTS.or_none(), "enableNodeOrder")
DOMAIN_GRADIENTS: Final = Point(
    Plugin.domain_gradients, FIRST_GRADIENTS, answers.GRADIENTS.or_none(), "enabledHyperNodeGradient"
)
DOMAIN_SCORE: Final = Point(Plugin.domain_score, DOMAIN_SUM, answers.DOMAIN_POINTS, "enabledHyperNodeOrder")
EXPECTED_DOMAIN_SCORE: Final = Point(Plugin.expected_domain_score, DOMAIN_SUM, answers.DOMAIN_POINTS)
SEARCH_SPACE: Final = Point(Plugin.search_space, FIRST_DOMAINS, answers.DOMAINS.or_none())
OVERUSED: Final = Point(Plugin.overused, ANY, answers.YES_OR_NO, "enabledOverused")
QUEUE_ALLOCATABLE: Final = Point(Plugin.queue_allocatable, SMALLEST, answers.COUNT, "enabledAllocatable")
QUEUE_DESERVED: Final = Point(Plugin.queue_deserved, FIRST_AMOUNTS, answers.AMOUNTS.or_none())
QUEUE_FAIR_SHARE: Final = Point(Plugin.queue_fair_share, FIRST_AMOUNTS, answers.AMOUNTS.or_none())
OVER_CAPACITY: Final = Point(Plugin.over_capacity, FIRST_REJECTION, answers.REJECTION)
OVER_QUOTA: Final = Point(Plugin.over_quota, FIRST_REJECTION, answers.REJECTION)
PREEMPTIVE: Final = Point(Plugin.preemptive, EVERY, answers.YES_OR_NO, "enablePreemptive")
EVICTABLE: Final = Point(Plugin.evictable, VICTIMS, answers.CANDIDATES.or_none())
PROTECTED: Final = Point(Plugin.protected, UNITED, answers.JOB_MASK)
PROTECTIONS: Final = Point(Plugin.protections, LISTED, answers.PROTECTIONS)
SELECT_VICTIMS: Final = Point(Plugin.select_victims, FIRST_CHOICE, answers.CANDIDATES.or_none())
TASKS_ADDED: Final = Point(Plugin.tasks_added, TELL, answers.NOTHING)
TASKS_REMOVED: Final = Point(Plugin.tasks_removed, TELL, answers.NOTHING)
MUST_LEAVE: Final = Point(Plugin.must_leave, LISTED, answers.DEPARTURES, "enabledVictim")
CAN_RECLAIM: Final = Point(Plugin.can_reclaim, FIRST_REJECTION, answers.REJECTION)
SOLUTION_START: Final = Point(Plugin.solution_start, TELL, answers.NOTHING)
SCENARIO_FILTERS: Final = Point(Plugin.scenario_filters, LISTED, answers.FILTERS)
SCENARIO_VALIDATOR: Final = Point(Plugin.scenario_validator, EVERY, answers.YES_OR_NO)

#: All of them, in the order of the table.
POINTS: Final[tuple[Point[..., Any, Any], ...]] = tuple(
    each for each in list(globals().values()) if isinstance(each, Point)
)

#: Where plugins keep others from being evicted.
PROTECTING: Final = (EVICTABLE, SCENARIO_FILTERS, SCENARIO_VALIDATOR, PROTECTED)

#: The flag that turns off a plugin's opinion on victims that are chosen task by task, by kind of eviction.
EVICTION_FLAGS: Final = {Eviction.PREEMPT: "enablePreemptable", Eviction.RECLAIM: "enableReclaimable"}
#: The flag that changes what a plugin does rather than whether it is asked; off unless set.
HIERARCHY_FLAG: Final = "enableHierarchy"
#: Flags of Volcano's file that concern points Muster does not have; accepted, without effect.
OTHER_FLAGS: Final = frozenset(
    {"enableClusterOrder", "enableNamespaceOrder", "enableBestNode", "enableTargetJob", "enableReservedNodes"}
)


_IMPLEMENTED: Final[dict[type[Plugin], tuple[Point[..., Any, Any], ...]]] = {}


def implemented(plugin: type[Plugin]) -> tuple[Point[..., Any, Any], ...]:
    """The extension points that plugins of a class answer; a class does not change, so it is looked at once."""
    found = _IMPLEMENTED.get(plugin)
    if found is None:
        found = _IMPLEMENTED[plugin] = tuple(point for point in POINTS if point.is_implemented(plugin))
    return found
