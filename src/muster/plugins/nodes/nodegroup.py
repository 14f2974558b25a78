"""Node groups: queues use the nodes that they name by group, and no others.

Nodes belong to the group in their label `volcano.sh/nodegroup-name`, queues name groups in `spec.affinity`; with
`enableHierarchy` a queue that names none has what the nearest queue above it says. Tasks of queues with different
policies are different classes, so a policy is looked at once per group, whatever the number of nodes. A group that a
queue requires or prefers is open to it, one that it must avoid is not, and one that it would rather avoid is open but
worth less than any other; a group that is not named is closed. These are Volcano's rules: a queue that names only
groups to avoid has none left.

How much of a group a queue may hold (annotation `volcano.sh/nodegroup-resource-limits`) depends on its other pods: such
tasks are placed one by one, and what is held is added up anew whenever it is asked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.api import Quantity, Queue, to_base
from muster.api.names import NODE_GROUP, NODE_GROUP_LIMITS, ROOT_QUEUE
from muster.framework.plugin import Arguments, NodeScores, Plugin
from muster.framework.reasons import FITS, Verdicts, reason
from muster.snapshot import ALLOCATED_STATUSES, NO_ROW, Amounts, Mask, QueueTable, Rows, Snapshot, TaskStatus
from muster.snapshot.classes import Division
from muster.snapshot.records import QueueRecord

if TYPE_CHECKING:
    from muster.framework.session import Session


NO_GROUP = reason("no-node-group", "are in no node group", remedy="label the nodes with volcano.sh/nodegroup-name")
NO_POLICY = reason(
    "queue-without-node-groups",
    "are in a node group, and the pod's queue names none",
    remedy="name node groups in the queue's spec.affinity",
)
OTHER_GROUP = reason(
    "node-group", "are in a node group that the pod's queue does not use", remedy="change the queue's spec.affinity"
)
BAD_LIMITS = reason(
    "node-group-limits-unreadable",
    "cannot be used while the queue's limits per node group cannot be read",
    remedy="correct the queue's annotation volcano.sh/nodegroup-resource-limits",
)
LIMIT_REACHED = reason(
    "node-group-limit",
    "are in a node group of which the pod's queue may not hold more",
    remedy="wait for the queue's own pods to finish, or raise the limit",
)
log = logging.getLogger(__name__)
_FULL: Final = 100.0
_DISLIKED: Final = -1.0
_EXAMPLE: Final = '{"group1": {"cpu": "8", "memory": "32Gi"}}'
#: By group and resource, in base units.
Limits = Mapping[str, Mapping[str, int]]
_NO_LIMIT: Final = np.iinfo(np.int64).max
#: Tasks that hold a place, or are promised one.
_HOLDING: Final = [*ALLOCATED_STATUSES, TaskStatus.PIPELINED]


class NodeGroupArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the nodegroup plugin."""

    strict: Annotated[
        bool,
        Meta(
            description="Whether nodes without a group are closed to everybody; otherwise queues that name no group "
            "use them."
        ),
    ] = True
    in_order: Annotated[
        bool,
        Meta(description="Whether of the groups that a queue prefers the first is the best, the last the least good."),
    ] = msgspec.field(name="enablePreferredOrder", default=False)


class NodeGroup(Plugin):
    """Keep queues on the node groups that they name."""

    name = "nodegroup"
    summary = "Pods go to the node groups that their queue names, and to preferred ones first."
    Args = NodeGroupArguments

    def divide_classes(self, session: Session) -> Division | None:
        """Tell queues with different policies apart; those without any are part 0."""
        snapshot = session.snapshot
        queues = _Queues(snapshot.queues, inherits=session.is_hierarchical(self.name))
        self._policies: list[GroupPolicy | None] = [None, *dict.fromkeys(filter(None, queues.policies))]
        self._unreadable = len(self._policies)
        number = {policy: part for part, policy in enumerate(self._policies)}
        by_queue = [
            self._unreadable if limits is None else number[policy]
            for policy, limits in zip(queues.policies, queues.limits, strict=True)
        ]
        self._limits = queues.limits
        limited = np.array([bool(limits) for limits in queues.limits] + [False], np.bool_)
        rows = _queue_of_tasks(snapshot)
        names = ("", *(repr(policy) for policy in self._policies[1:]), "unreadable")
        return Division(np.array([*by_queue, 0], np.intp)[rows], names, limited[rows])

    def open(self, session: Session) -> None:
        super().open(session)
        arguments = cast("NodeGroupArguments", self.arguments)
        self._strict, self._in_order = arguments.strict, arguments.in_order
        codes, known = session.snapshot.nodes.labels.column(NODE_GROUP)
        self._codes, self._groups = codes, list(known)
        self._rows = _queue_of_tasks(session.snapshot)
        self._held: dict[int, GroupLimits] = {}

    # -- once per class ------------------------------------------------------------------------------------

    def node_mask(self, cls: int) -> Verdicts:
        part = self._part(cls)
        if part == self._unreadable:
            return np.full(len(self._codes), BAD_LIMITS.number, np.int16)
        policy = self._policies[part]
        if policy is None or policy.is_empty:
            outside = NO_GROUP.number if self._strict else FITS
            return np.where(self._codes < 0, outside, NO_POLICY.number).astype(np.int16)
        admitted = [FITS if policy.admits(group) else OTHER_GROUP.number for group in self._groups]
        return self._by_group(np.array([*admitted, NO_GROUP.number], np.int16))

    def node_score(self, cls: int) -> NodeScores:
        part = self._part(cls)
        policy = None if part == self._unreadable else self._policies[part]
        if policy is None or policy.is_empty:
            return NodeScores()
        scores = [policy.score(group, in_order=self._in_order) for group in self._groups]
        fixed: NDArray[np.float64] = np.array([*scores, 0.0])[self._codes]
        return NodeScores(fixed)

    def _part(self, cls: int) -> int:
        return int(self.session.class_parts[self.name][cls])

    def _by_group(self, verdicts: Verdicts) -> Verdicts:
        """Verdicts of all nodes from those of groups; the last one is that of nodes without a group."""
        found: Verdicts = verdicts[self._codes]
        return found

    # -- right before a placement ----------------------------------------------------------------------------

    def live_tasks(self) -> Rows:
        pending = self.session.snapshot.pending_tasks()
        limited: Mask = np.array([bool(limits) for limits in self._limits] + [False], np.bool_)
        rows: Rows = pending[limited[self._rows[pending]]]
        return rows

    def task_mask(self, task: int) -> Verdicts | None:
        queue = int(self._rows[task])
        limits = None if queue == NO_ROW else self._limits[queue]
        if not limits:
            return None
        held = self._held.get(queue)
        if held is None:
            tasks = np.flatnonzero(self._rows == queue).astype(np.intp)
            held = self._held[queue] = GroupLimits(self.session.snapshot, tasks, limits, self._codes, self._groups)
        full = np.append(held.are_full_for(task), np.False_)
        return self._by_group(np.where(full, LIMIT_REACHED.number, FITS).astype(np.int16))


class _Queues:
    """What queues say, by row; a queue that says nothing may have it from the nearest above it that does."""

    def __init__(self, queues: QueueTable, *, inherits: bool) -> None:
        own = [policy_of(record) for record in queues.records]
        self.policies = [self._nearest(queues, row, own) for row in range(len(own))] if inherits else own
        self.limits: list[Limits | None] = [limits_of(record) for record in queues.records]

    @staticmethod
    def _nearest(queues: QueueTable, row: int, own: list[GroupPolicy | None]) -> GroupPolicy | None:
        path = queues.paths[row].tolist()
        root = queues.index.get(ROOT_QUEUE)
        if root is not None and root not in path:
            path.append(root)
        return next((own[above] for above in path if own[above] is not None), None)


def _queue_of_tasks(snapshot: Snapshot) -> Rows:
    """The queue row of every task, NO_ROW where there is none."""
    rows: Rows = np.append(snapshot.jobs.queue, np.intp(NO_ROW))[snapshot.tasks.job]
    return rows


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """The node groups of a queue."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    #: Must be avoided; should be.
    barred: tuple[str, ...] = ()
    disliked: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it names no group at all."""
        return not (self.required or self.preferred or self.barred or self.disliked)

    def admits(self, group: str) -> bool:
        """May pods of the queue go to nodes of the group?"""
        if group in self.disliked:
            return True
        return group in (*self.required, *self.preferred) and group not in self.barred

    def score(self, group: str, *, in_order: bool) -> float:
        """How good nodes of the group are; `in_order`: of the preferred groups the first is the best."""
        if group in self.disliked:
            return _DISLIKED
        score = _FULL if group in self.required else 0.0
        if group in self.preferred:
            better = self.preferred.index(group) / len(self.preferred) if in_order else 0.0
            score += _FULL / 2 * (1.0 - better)
        return score


def policy_of(record: QueueRecord) -> GroupPolicy | None:
    """What a queue says itself; None: nothing."""
    source = record.source
    if not isinstance(source, Queue) or source.spec.affinity is None:
        return None
    likes, dislikes = source.spec.affinity.node_group_affinity, source.spec.affinity.node_group_anti_affinity
    return GroupPolicy(
        required=tuple(likes.required) if likes else (),
        preferred=tuple(likes.preferred) if likes else (),
        barred=tuple(dislikes.required) if dislikes else (),
        disliked=tuple(dislikes.preferred) if dislikes else (),
    )


def limits_of(record: QueueRecord) -> Limits | None:
    """How much of each group a queue may hold; None: what it says cannot be read, so it may hold nothing."""
    return _read_limits(record.annotations.get(NODE_GROUP_LIMITS, ""), record.name)


@lru_cache(maxsize=4096)  # so that a wrong one is logged once
def _read_limits(text: str, queue: str) -> Limits | None:
    try:
        return _parse_limits(text) if text else {}
    except ValueError as error:
        log.warning("event=bad-mark queue=%s mark=%s error=%r", queue, NODE_GROUP_LIMITS, str(error))
        return None


def _parse_limits(text: str) -> Limits:
    try:
        groups = _mapping(json.loads(text), "")
    except json.JSONDecodeError as error:
        raise ValueError(f"expected JSON such as {_EXAMPLE}: {error}") from error
    return {
        group: {name: _amount(name, amount, f"{group}.{name}") for name, amount in _mapping(amounts, group).items()}
        for group, amounts in groups.items()
    }


def _mapping(value: object, place: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    where = f"{place}: " if place else ""
    raise ValueError(f"{where}expected amounts by node group and resource, such as {_EXAMPLE}, got {value!r}")


def _amount(resource: str, value: object, place: str) -> int:
    try:
        return to_base(resource, Quantity(str(value)))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


class GroupLimits:
    """The limits of one queue, by row of `groups`."""

    def __init__(self, snapshot: Snapshot, tasks: Rows, limits: Limits, codes: Rows, groups: Sequence[str]) -> None:
        """`tasks` are the queue's own, `codes` the group of every node, -1 where it has none."""
        self._snapshot = snapshot
        self._tasks = tasks
        self._codes = codes
        #: int64[groups, resources]
        self._most: Amounts = np.full((len(groups), len(snapshot.axis)), _NO_LIMIT, np.int64)
        for row, group in enumerate(groups):
            for resource, amount in limits.get(group, {}).items():
                column = snapshot.axis.index.get(resource)
                if column is not None:
                    self._most[row, column] = amount

    def are_full_for(self, task: int) -> Mask:
        """Groups in which the queue would hold too much with one more such task; what it does not ask for is free."""
        request = self._snapshot.request(task)
        over: Mask = (request > 0) & (self._held() > self._most - request)
        full: Mask = np.any(over, axis=1)
        return full

    def _held(self) -> Amounts:
        table = self._snapshot.tasks
        holding = self._tasks[np.isin(table.status[self._tasks], _HOLDING) & (table.node[self._tasks] != NO_ROW)]
        groups = self._codes[table.node[holding]]
        held: Amounts = np.zeros_like(self._most)
        inside = groups >= 0
        np.add.at(held, groups[inside], self._snapshot.classes.requests[table.cls[holding[inside]], 0])
        return held
