"""What queues deserve and may have at most, flat or as a tree, and what they must give back.

Flat: every queue stands for itself, and what is guaranteed to others or held by pods of other schedulers is off limits.
Tree: a queue's limit follows from its parent's limit less what is guaranteed to its siblings, and an amount that it
does not limit itself is its parent's. The queue `root` is on top of everything and unlimited unless it says otherwise;
a queue without a parent hangs under it. All of this is fixed when the session opens.

One `Reclaim` serves one question: it remembers what it has taken from queues so far, so that a queue is not
taken below its guarantee, nor taken from any more once it is down to what it deserves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from muster.api.names import ROOT_QUEUE
from muster.framework import NO_LIMIT
from muster.plugins.queues.queue_books import QueueBooks, is_counted
from muster.snapshot import NO_ROW, UNLIMITED, Amounts, Mask, QueueTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.framework.session import Session


@dataclass(slots=True)
class Standing:
    """Fixed figures of all queues; rows are queues, columns resources."""

    deserved: Amounts
    #: Resources for which the queue says what it deserves, zero included.
    named: Mask
    guarantees: Amounts
    limits: Amounts
    #: Rows of each queue's ancestors, the nearest first.
    ancestors: list[list[int]]
    #: Queues that take jobs: all of them, or those without children in a tree.
    is_leaf: list[bool]
    #: Row of the queue `root` of a tree, NO_ROW if there is none.
    root: int = NO_ROW
    #: Queues that hang under the root without naming it.
    adopted: list[int] = field(default_factory=list)

    def depth_shared(self, one: int, other: int) -> int:
        """How many ancestors two queues have in common, counted from the top."""
        shared = 0
        for a, b in zip(reversed(self.ancestors[one]), reversed(self.ancestors[other]), strict=False):
            if a != b:
                break
            shared += 1
        return shared


def queue_share(deserved: Sequence[int], allocated: Sequence[int], ignored: int = -1) -> float:
    """How much of what it deserves a queue has, of the resource it has most of; one if it deserves nothing.

    A queue that deserves nothing thus comes after all queues that have less than they deserve. `ignored` is
    the column of pods: deserving pods alone is deserving nothing.
    """
    share, is_best_effort = 0.0, True
    for column, amount in enumerate(deserved):
        if amount > 0:
            share = max(share, allocated[column] / amount)
            is_best_effort = is_best_effort and column == ignored
    return 1.0 if is_best_effort else share


def flat_standing(session: Session, books: QueueBooks) -> Standing:
    """Queues side by side."""
    guarantees = books.guarantees()
    promised = guarantees.sum(axis=0)
    # Nothing is divided here: nodes behind taints are no part of a share, and limit nobody.
    capacity = session.shared_total + session.behind_taints
    limits = np.minimum(np.maximum(capacity - promised, 0) + guarantees, books.capabilities())
    deserved, named = _deserved(session, books)
    # A limit counts for what the cluster has; a queue may deserve what is yet to be added.
    exists = (session.total > promised) | (guarantees > 0)
    exists[:, [session.snapshot.axis.index[name] for name in ("cpu", "memory")]] = True
    deserved = np.where(exists, np.minimum(deserved, limits), deserved)
    n = len(session.snapshot.queues)
    return Standing(
        np.maximum(deserved, guarantees), named | (guarantees > 0), guarantees, limits, [[]] * n, [True] * n
    )


def tree_standing(session: Session, books: QueueBooks) -> Standing:
    """Queues as a tree."""
    queues = session.snapshot.queues
    root = queues.index.get(ROOT_QUEUE, NO_ROW)
    ancestors, adopted = _lines(queues, root)
    children: list[list[int]] = [[] for _ in range(len(queues))]
    for row, line in enumerate(ancestors):
        if line:
            children[line[0]].append(row)
    guarantees = books.guarantees()
    deserved, named = _deserved(session, books)
    deserved = np.maximum(deserved, guarantees)
    limits = books.capabilities()
    _cap_root(session, limits, root)
    # Parents before children: the nearer to the top, the shorter the line of ancestors.
    for row in sorted(range(len(queues)), key=lambda row: (len(ancestors[row]), row)):
        below = children[row]
        promised = guarantees[below].sum(axis=0)
        for child in below:
            left = np.maximum(limits[row] - promised, 0) + guarantees[child]
            limits[child] = np.minimum(left, limits[child])
    if root != NO_ROW:
        guarantees[root] = guarantees[children[root]].sum(axis=0)
        # Queues of KAI may deserve without end, and sums of that many would overflow.
        endless = deserved[children[root]] >= UNLIMITED
        sums = np.where(endless, 0, deserved[children[root]]).sum(axis=0)
        deserved[root] = np.where(endless.any(axis=0), UNLIMITED, sums)
    is_leaf = [not below for below in children]
    return Standing(deserved, named | (guarantees > 0), guarantees, limits, ancestors, is_leaf, root, adopted)


def _deserved(session: Session, books: QueueBooks) -> tuple[Amounts, Mask]:
    """What queues say they deserve, and of which resources they say so."""
    axis = session.snapshot.axis
    records = session.snapshot.queues.records
    table: Amounts = np.zeros((len(records), len(axis)), np.int64)
    named: Mask = np.zeros(table.shape, np.bool_)
    for row, record in enumerate(records):
        table[row] = books.vector(record.deserved)
        for name in record.deserved:
            if name in axis.index and is_counted(name):
                # A cpu or memory of zero is the same as none.
                named[row, axis.index[name]] = name not in ("cpu", "memory") or record.deserved[name] > 0
    return table, named


def _lines(queues: QueueTable, root: int) -> tuple[list[list[int]], list[int]]:
    """Ancestors of every queue, the nearest first, and the queues that were put under the root."""
    ancestors, adopted = [], []
    for row in range(len(queues)):
        line: list[int] = queues.paths[row][1:].tolist()
        top = line[-1] if line else row
        if root not in (NO_ROW, top) and row not in queues.broken:
            if not line:
                adopted.append(row)
            line.append(root)
        ancestors.append(line)
    return ancestors, adopted


def _cap_root(session: Session, limits: Amounts, root: int) -> None:
    """Leave the root unlimited, except for resources that the cluster does not have at all."""
    if root == NO_ROW:
        return
    missing = session.total == 0
    missing[[session.snapshot.axis.index[name] for name in ("cpu", "memory")]] = False
    limits[root] = np.where(missing & (limits[root] >= UNLIMITED), 0, limits[root])


class TreeKey:
    """Where a queue stands among the leaves of a tree.

    Two leaves are compared where their lines part: by the shares of the two queues below their nearest common
    ancestor. Leaves whose branches stand equal are equal, whatever is further down, as in Volcano.
    """

    __slots__ = ("_ranks", "_rows")

    def __init__(self, rows: list[int], ranks: list[tuple[float, bool]]) -> None:
        #: From below the root down to the queue itself.
        self._rows = rows
        self._ranks = ranks

    def _parting(self, other: TreeKey) -> tuple[tuple[float, bool], tuple[float, bool]] | None:
        for level, (mine, theirs) in enumerate(zip(self._rows, other._rows, strict=False)):
            if mine != theirs:
                return self._ranks[level], other._ranks[level]
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeKey):
            return NotImplemented
        parting = self._parting(other)
        return parting is None or parting[0] == parting[1]

    def __lt__(self, other: TreeKey) -> bool:
        parting = self._parting(other)
        return parting is not None and parting[0] < parting[1]

    __hash__ = None  # type: ignore[assignment]  # equality is not transitive, so keys must not go into sets


class Reclaim:
    """Takes candidates one by one, in the order in which they are offered."""

    def __init__(self, standing: Standing, levels: int, pods: int, held: Callable[[int], Amounts]) -> None:
        self._standing = standing
        #: How many levels of ancestors have a say.
        self._levels = levels
        self._pods = pods
        self._held = held
        self._left: dict[int, Amounts] = {}

    def takes_many(self, reclaimer: int, wanted: Amounts, source: int, offered: Amounts, count: int) -> int:
        """How many of `count` tasks that ask for `offered` may go from `source`, one by one, for one with `wanted`."""
        if not self._overlaps(wanted, offered):
            return 0
        going = min(count, self._above_guarantee(source, offered))
        if self._is_unentitled(source, offered):
            if self._share_ancestor(reclaimer, source) and self._is_unentitled(reclaimer, wanted):
                return 0
        else:
            going = min(going, self._while_over(source, offered))
        line = self._line_to_check(reclaimer, source)
        for row in line:
            if not self._is_unentitled(row, offered):
                going = min(going, self._while_over(row, offered))
        if going <= 0:
            return 0
        for row in (source, *line):
            self._left[row] = self._of(row) - going * offered
        return going

    def _above_guarantee(self, queue: int, request: Amounts) -> int:
        """How many such tasks the queue can lose before it is below what is guaranteed to it."""
        beyond = self._of(queue) - self._standing.guarantees[queue]
        asked = request > 0
        if (beyond < 0).any() or not asked.any():
            return 0 if (beyond < 0).any() else NO_LIMIT
        return int((beyond[asked] // request[asked]).min())

    def _of(self, queue: int) -> Amounts:
        """What a queue still holds."""
        if queue not in self._left:
            self._left[queue] = self._held(queue)
        return self._left[queue]

    def _overlaps(self, wanted: Amounts, offered: Amounts) -> bool:
        """Does the task hold anything that is wanted?"""
        useful = (wanted > 0) & (offered > 0)
        useful[self._pods] = False
        return bool(useful.any())

    def _is_unentitled(self, queue: int, request: Amounts) -> bool:
        """Does the queue deserve nothing of what is requested?"""
        return not ((request > 0) & (self._standing.deserved[queue] > 0)).any()

    def _while_over(self, queue: int, request: Amounts) -> int:
        """How many such tasks can go while the queue holds more than it deserves of something that they have."""
        counted = (request > 0) & self._standing.named[queue]
        counted[self._pods] = False
        if not counted.any():
            return 0
        beyond = self._of(queue)[counted] - self._standing.deserved[queue][counted]
        return max(0, int((-(-beyond // request[counted])).max()))

    def _near(self, queue: int) -> list[int]:
        """The ancestors that have a say, the nearest first."""
        return self._standing.ancestors[queue][: self._levels]

    def _share_ancestor(self, one: int, other: int) -> bool:
        common = set(self._near(one)) & set(self._near(other))
        return bool(common - {self._standing.root})

    def _line_to_check(self, reclaimer: int, source: int) -> list[int]:
        """Ancestors of the source that must be over as well: those that are not the reclaimer's own."""
        mine, theirs = self._near(reclaimer), self._near(source)
        mine += [-1] * (len(theirs) - len(mine))
        return [row for own, row in zip(mine, theirs, strict=False) if row not in (own, self._standing.root)]
