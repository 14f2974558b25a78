"""How many places there are, and would be: the arithmetic that spares the solver most of its dry runs.

Counted per class of the beneficiary's tasks over all nodes, on what will be free. A count that is too small proves
that a dry run must fail; one that is large enough proves nothing. Constraints on the network and on other pods are not
looked at, which only makes the count larger. Plain numbers, not arrays: a unit touches few nodes.

A forecast tells which units a search would end up with: for a gang of equal tasks it adds, step by step, the first
units that make one more place, and that can be told from the counts alone. One dry run shows whether it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.api.resources import is_gpu
from muster.engine.boards import Boards
from muster.engine.evictions.solver.pool import Unit
from muster.kernels.placement import FUTURE
from muster.snapshot import Mask, Rows, Snapshot


@dataclass(slots=True)
class Places:
    """Places for one class: how many are wanted, how many there are, and what units would add on each node."""

    #: (resource, amount) of what one task asks for.
    request: list[tuple[int, int]]
    wanted: int
    have: int
    #: What is free on a node. The snapshot must be, whenever something is asked, as it was when places were counted.
    free_on: Callable[[int], list[int]]
    #: Nodes that the class may use; what is free on others does not count.
    usable: Mask
    #: The nodes looked at so far.
    free: dict[int, list[int]] = field(default_factory=dict)
    #: What the units offered so far would free on a node, and the part of it that belongs to jobs on several nodes.
    offered: dict[int, list[int]] = field(default_factory=dict)
    spread: dict[int, list[int]] = field(default_factory=dict)
    spread_gain: int = 0

    def offer(self, unit: Unit) -> None:
        """One more unit may go."""
        is_spread = len(unit.nodes) > 1
        for node, freed in zip(unit.nodes, unit.freed, strict=True):
            self.offered[node] = _sum(self.offered.get(node), freed)
            if is_spread:
                before = self._gain(node, self.spread.get(node))
                self.spread[node] = _sum(self.spread.get(node), freed)
                self.spread_gain += self._gain(node, self.spread[node]) - before

    def _free_on(self, node: int) -> list[int]:
        free = self.free.get(node)
        if free is None:
            free = self.free[node] = self.free_on(node)
        return free

    def gain(self, node: int) -> int:
        """Places at most, here and elsewhere, when everybody offered on the node goes with the rest of their jobs."""
        elsewhere = self.spread_gain - self._gain(node, self.spread.get(node)) if self.spread_gain else 0
        return self._gain(node, self.offered.get(node)) + elsewhere

    def _gain(self, node: int, freed: list[int] | None) -> int:
        if freed is None or not self.usable[node]:
            return 0
        free = self._free_on(node)
        return self._slots(_sum(free, freed)) - self._slots(free)

    def take(self, unit: Unit) -> None:
        """A unit goes for good: count its room as free."""
        for node, freed in zip(unit.nodes, unit.freed, strict=True):
            self.have += self._gain(node, freed)
            self.free[node] = _sum(self._free_on(node), freed)

    def suffice_without(self, back: Iterable[Unit]) -> bool:
        """Would there be enough places if these units, which were taken, stayed after all?"""
        free: dict[int, list[int]] = {}
        left = self.have
        for unit in back:
            for node, freed in zip(unit.nodes, unit.freed, strict=True):
                before = free.get(node) or self.free[node]
                free[node] = [a - b for a, b in zip(before, freed, strict=True)]
                if self.usable[node]:
                    left += self._slots(free[node]) - self._slots(before)
        return left >= self.wanted

    def _slots(self, free: list[int]) -> int:
        slots = self.wanted if not self.request else min([free[r] // amount for r, amount in self.request])
        return max(0, slots)


def _sum(left: list[int] | None, right: list[int]) -> list[int]:
    return right if left is None else [a + b for a, b in zip(left, right, strict=True)]


@dataclass(frozen=True, slots=True)
class _Class:
    """What matters here of a class of tasks."""

    #: Nodes that it may use.
    usable: Mask
    #: What one task asks for, of every resource; and (resource, amount) without those of which it asks for nothing.
    amounts: list[int]
    request: list[tuple[int, int]]
    #: The resource of which it asks for most, as part of what there is.
    scarcest: int


class FreePlaces:
    """Places for tasks in the present state of the snapshot."""

    def __init__(self, snapshot: Snapshot, boards: Boards) -> None:
        self._snapshot = snapshot
        self._boards = boards
        self._known: dict[int, _Class] = {}
        #: By class, as of a length of the touch log.
        self._slots_by_class: dict[int, tuple[int, Rows, int]] = {}
        self._total = snapshot.total()
        #: Columns of GPUs and of slices of them, and whether a class asks for any.
        self.gpus = [column for name, column in snapshot.axis.index.items() if is_gpu(name)]
        asks = snapshot.classes.requests[:, 0, self.gpus]
        self.gpu_classes: list[bool] = np.any(asks > 0, axis=1).tolist()

    def _slots(self, cls: int) -> tuple[Rows, int]:
        """Slots of a class on every node, and their sum; counted once, and then where something was touched."""
        snapshot, known = self._snapshot, self._slots_by_class.get(cls)
        if known is None:
            slots = self._boards.get(cls, FUTURE).slots(snapshot, 0, len(snapshot.nodes))
            total = int(slots.sum())
        else:
            seen, slots, total = known
            if seen == snapshot.touched:
                return slots, total
            total += self._boards.get(cls, FUTURE).recount(snapshot, seen, slots)
        self._slots_by_class[cls] = snapshot.touched, slots, total
        return slots, total

    def _class(self, cls: int) -> _Class:
        known = self._known.get(cls)
        if known is None:
            asked = self._snapshot.classes.requests[cls, 0]
            amounts: list[int] = asked.tolist()
            known = self._known[cls] = _Class(
                usable=np.isfinite(self._boards.fixed(cls)),
                amounts=amounts,
                request=[(resource, amount) for resource, amount in enumerate(amounts) if amount],
                scarcest=int((asked / np.maximum(self._total, 1)).argmax()),
            )
        return known

    def suffices(self, pending: Rows) -> bool:
        """Could all of `pending` have a place now?"""
        if len(pending) == 1:
            return self._slots(int(self._snapshot.tasks.cls[pending[0]]))[1] > 0
        classes, wanted = _classes(self._snapshot, pending)
        return all(self._slots(cls)[1] >= count for cls, count in zip(classes, wanted, strict=True))

    def hold_all(self, tasks: Rows, going: Rows) -> bool:
        """Could all these have a place at once? `going`: those of them that still hold what they would leave free.

        Counted for each class by the resource of which it asks for most: whoever asks for as much of it as several of
        its tasks, and may go nowhere else, takes the places of these.
        """
        snapshot = self._snapshot
        table, requests = snapshot.tasks, snapshot.classes.requests[:, 0]
        free = snapshot.nodes.future_idle()
        np.add.at(free, table.node[going], requests[table.cls[going]])
        classes, counts = _classes(snapshot, tasks)
        for cls in classes:
            known = self._class(cls)
            share = known.amounts[known.scarcest]
            if share == 0:
                continue
            wanted = sum(
                count * (self._class(other).amounts[known.scarcest] // share)
                for other, count in zip(classes, counts, strict=True)
                if self._goes_nowhere_else(other, cls)
            )
            left = free[:, known.scarcest][known.usable]
            if wanted > int((np.maximum(left, 0) // share).sum()):
                return False
        return True

    def _goes_nowhere_else(self, cls: int, other: int) -> bool:
        """Whether a class may use no node that another one may not."""
        return not (self._class(cls).usable & ~self._class(other).usable).any()

    def any_for(self, tasks: Rows) -> bool:
        """Is there a place left for any of these tasks?"""
        return any(self._slots(cls)[1] for cls in _classes(self._snapshot, tasks)[0])

    def reach(self, pending: Rows, tasks: int) -> int:
        """How many of `pending`, from the first, might have a place now; at least `tasks`."""
        classes = self._snapshot.tasks.cls[pending]
        reach = len(pending)
        for cls in np.unique(classes[tasks:]).tolist():
            mine = np.flatnonzero(classes == cls)
            places = self._slots(cls)[1]
            if places < len(mine):
                reach = min(reach, int(mine[places]))
        return max(reach, tasks)

    def count(self, pending: Rows, lo: int = 0, hi: int | None = None) -> list[Places]:
        """Places for every class of `pending` on the nodes lo..hi, with nobody offered."""
        snapshot = self._snapshot
        classes, wanted = _classes(snapshot, pending)
        counts = []
        for cls, count in zip(classes, wanted, strict=True):
            (slots, have), known = self._slots(cls), self._class(cls)
            usable = known.usable
            if hi is not None:
                have = int(slots[lo:hi].sum())
                usable = usable.copy()
                usable[:lo] = usable[hi:] = False
            counts.append(Places(known.request, count, have, snapshot.nodes.future_idle_of, usable))
        return counts


def could_suffice(counts: list[Places], node: int) -> bool:
    """Could there be enough places when everybody offered on the node goes?"""
    return all(count.have + count.gain(node) >= count.wanted for count in counts)


def _classes(snapshot: Snapshot, tasks: Rows) -> tuple[list[int], list[int]]:
    """Classes of tasks, and how many there are of each."""
    if len(tasks) == 1:  # most jobs have one task
        return [int(snapshot.tasks.cls[tasks[0]])], [1]
    counts = Counter(snapshot.tasks.cls[tasks].tolist())
    classes = sorted(counts)
    return classes, [counts[cls] for cls in classes]


# -- forecast --------------------------------------------------------------------------------------------------------


def forecast(places: Places, units: Iterable[Unit]) -> list[Unit] | None:
    """Units that make enough places, in the order in which growth would add them; None: all together do not.

    A unit that adds no place by itself waits on its nodes until others offered there make one together.
    """
    chosen: list[Unit] = []
    waiting: list[Unit] = []
    if places.have >= places.wanted:
        return chosen
    for unit in units:
        waiting.append(unit)
        places.offer(unit)
        added = _added(places, waiting, unit)
        while added:
            chosen.extend(added)
            for one in added:
                places.take(one)
            if places.have >= places.wanted:
                return chosen
            taken = {id(one) for one in added}
            waiting = [one for one in waiting if id(one) not in taken]
            added = _offer_again(places, waiting)
    return None


def _offer_again(places: Places, waiting: list[Unit]) -> list[Unit]:
    """Offer anew those who wait, until some of them make one more place; what was taken may have opened their nodes."""
    places.offered.clear()
    places.spread.clear()
    places.spread_gain = 0
    for position, unit in enumerate(waiting):
        places.offer(unit)
        added = _added(places, waiting, unit, position + 1)
        if added:
            return added
    return []


def _added(places: Places, waiting: list[Unit], last: Unit, upto: int | None = None) -> list[Unit]:
    """Units that make one more place: those of the first `upto` that wait on a node of the last one offered."""
    for node in last.nodes:
        if places.gain(node) > 0:
            return of_jobs_on(node, waiting[:upto])
    return []


def of_jobs_on(node: int, units: Sequence[Unit]) -> list[Unit]:
    """Of these units, all that belong to jobs which have one on the node."""
    jobs = {unit.job for unit in units if node in unit.nodes}
    return [unit for unit in units if unit.job in jobs]
