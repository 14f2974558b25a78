"""What columns hold: row numbers, amounts along the resource axis, task states and job phases as small integers.

The counters of a job, role or sub-group are a row of `N_COUNTS` numbers: one per state, then the pending
tasks that ask for nothing (`BEST_EFFORT_PENDING`), which gangs count as ready.

Amounts of objects fit 64 bits (see `muster.api.resources`), sums over a cluster need not. So that nobody who adds
up has to ask, the columns are made such that no sum passes 2^60:

- An amount counts up to `CEILING`; no machine comes near it.
- If what all pods ask for and all nodes offer of a resource still comes to more than `MAX_SUM`, each amount of that
  resource counts up to an equal part of `MAX_SUM`. With 100,000 pods that is 10 TiB of memory: everybody but the ones
  who made the sum absurd is counted exactly.
- A node with more counts as one with just as much; a pod that asks for more fits on no node.
- What queues deserve, and what jobs state as their minimum, has a total of its own, by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from muster.api import Pod

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
NO_ROW: Final = -1


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows in pieces that follow each other; a piece is cut out only when somebody asks for it."""

    rows: Rows
    #: Where pieces begin, and where the last one ends.
    bounds: Rows

    def __getitem__(self, piece: int) -> Rows:
        return self.rows[self.bounds[piece] : self.bounds[piece + 1]]

    def sizes(self) -> Rows:
        return np.diff(self.bounds)


def run_bounds(values: NDArray[Any]) -> Rows:  # Any: whatever can be compared
    """Where each run of equal values begins, and where the last one ends."""
    begins = np.ones(len(values) + 1, np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:-1])
    bounds: Rows = begins.nonzero()[0]
    return bounds


Amounts = NDArray[np.int64]
#: An amount that nothing reaches: what a limit that is not set stands for. Sums of two stay inside int64.
UNLIMITED: Final = np.int64(2**61)
_FIRST: Final = ("cpu", "memory", "pods")
#: More tasks than any node is asked about.
_MANY: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ResourceAxis:
    """Resource names in column order: cpu, memory, pods, then the others by name."""

    names: tuple[str, ...] = _FIRST
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {name: column for column, name in enumerate(self.names)})

    def __len__(self) -> int:
        return len(self.names)

    def extended(self, names: Iterable[str]) -> ResourceAxis:
        """Return an axis that also has `names`; the order depends on the set of names alone."""
        others = (set(self.names) | set(names)) - set(_FIRST)
        return ResourceAxis((*_FIRST, *sorted(others)))

    def vector(self, amounts: Mapping[str, int], missing: int = 0) -> Amounts:
        """Lay amounts out in column order; resources the axis does not have are left out."""
        row = np.full(len(self.names), missing, np.int64)
        for name, amount in amounts.items():
            column = self.index.get(name)
            if column is not None:
                row[column] = amount
        return row

    def amounts(self, row: Amounts) -> dict[str, int]:
        """Name the non-zero amounts of a row."""
        return {name: int(amount) for name, amount in zip(self.names, row, strict=True) if amount}


#: Scores multiply amounts by a hundred.
CEILING: Final = 2**56
#: Half of `UNLIMITED`, so that no sum is taken for one without end.
MAX_SUM: Final = 2**60
#: More than one machine has of anything but bytes, and a terabyte.
ANY_MACHINE: Final = 2**40


def limit_columns(requests: Amounts, classes: Rows, allocatable: Amounts) -> None:
    """Cut the requests of classes and the capacity of nodes down, in place, to amounts that may be added up.

    requests     int64[n_classes, 2, n_resources]
    classes      int64[n_tasks]                    class of each task that there is
    allocatable  int64[n_nodes, n_resources]
    """
    counts = np.bincount(classes, minlength=len(requests)).astype(np.float64)
    asked = np.tensordot(counts, requests.astype(np.float64), axes=1).max(axis=0)
    total = asked + allocatable.sum(axis=0, dtype=np.float64)
    equal_part = MAX_SUM // max(len(classes) + len(allocatable), 1)
    ceiling = np.where(total > MAX_SUM, min(equal_part, CEILING), CEILING).astype(np.int64)
    np.minimum(requests, ceiling + 1, out=requests)
    np.minimum(allocatable, ceiling, out=allocatable)


def impossible(requests: Amounts, allocatable: Amounts) -> Mask:
    """Classes that ask for more than the whole cluster has, and than any machine: such pods run nowhere.

    Somebody may still say that one does. It takes its node's room, but it does not count as what its queue holds.
    """
    most = np.maximum(allocatable.sum(axis=0), ANY_MACHINE)
    return np.asarray((requests[:, 0] > most).any(axis=1), np.bool_)


def summable(table: Amounts) -> Amounts:
    """The rows of a table, cut down to amounts that may be added up."""
    if len(table) == 0 or table.sum(axis=0, dtype=np.float64).max(initial=0) <= MAX_SUM:
        return table
    return np.minimum(table, MAX_SUM // len(table))


def common_ceiling(lists: Iterable[Mapping[str, int]], most: int) -> int:
    """How far amounts of these resource lists count, so that the sum of none of their resources passes `MAX_SUM`.

    `most` and more has no end and is in no sum.
    """
    sums: dict[str, int] = {}
    count = 0
    for amounts in lists:
        count += 1
        for name, amount in amounts.items():
            if amount < most:
                sums[name] = sums.get(name, 0) + amount
    return most if max(sums.values(), default=0) <= MAX_SUM else MAX_SUM // count


def cut(amounts: Mapping[str, int], ceiling: int, most: int) -> dict[str, int]:
    """The amounts, each up to a ceiling; what has no end stays so."""
    return {name: amount if amount >= most else min(amount, ceiling) for name, amount in amounts.items()}


_Enum = TypeVar("_Enum", bound=type[Enum])


def quick_to_name(kind: _Enum) -> _Enum:
    """Keep the members of an enum where attributes of a class are found at once; Python 3.11 searches for them."""
    for name, member in kind.__members__.items():
        type.__setattr__(kind, name, member)
    return kind


@quick_to_name
class TaskStatus(IntEnum):
    """Where a task stands; the names are those that users know from Volcano."""

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9
    #: The row is free: no task lives in it.
    GONE = 10

    @property
    def label(self) -> str:
        return self.name.capitalize()


N_STATUSES: Final = 11
BEST_EFFORT_PENDING: Final = 11
N_COUNTS: Final = 12
#: Holds its requests in job and queue totals.
ALLOCATED_STATUSES: Final = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
)
#: Has a place, or is promised one.
ACTIVE_STATUSES: Final = (*ALLOCATED_STATUSES, TaskStatus.PIPELINED)
#: Counts towards a gang's minimum.
READY_STATUSES: Final = (*ALLOCATED_STATUSES, TaskStatus.SUCCEEDED)
#: Has ended, well or not.
FINISHED_STATUSES: Final = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
#: Takes room on its node.
OCCUPYING_STATUSES: Final = (*ALLOCATED_STATUSES, TaskStatus.RELEASING, TaskStatus.UNKNOWN)


@quick_to_name
class JobPhase(IntEnum):
    """The phase of a PodGroup."""

    PENDING = 0
    INQUEUE = 1
    RUNNING = 2
    UNKNOWN = 3
    COMPLETED = 4

    @property
    def label(self) -> str:
        return self.name.capitalize()


_PHASES: Final = {phase.label: phase for phase in JobPhase}


def phase_of(text: str) -> JobPhase:
    """Read a PodGroup phase; an empty or unknown one is Pending."""
    return _PHASES.get(text, JobPhase.PENDING)


def status_of(pod: Pod) -> TaskStatus:
    """Derive a task's state from its pod, as the cluster reports it."""
    phase = pod.status.phase
    if phase == "Succeeded":
        return TaskStatus.SUCCEEDED
    if phase == "Failed":
        return TaskStatus.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return TaskStatus.RELEASING
    if phase == "Running":
        return TaskStatus.RUNNING
    if phase in ("Pending", ""):
        return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING
    return TaskStatus.UNKNOWN


def slots_in(free: Amounts, request: Amounts) -> NDArray[np.int64]:
    """How many tasks with this request fit into each row of free amounts; resources not asked for do not matter."""
    slots = np.full(len(free), _MANY, np.int64)
    for column in np.flatnonzero(request > 0).tolist():
        np.minimum(slots, np.maximum(free[:, column], 0) // request[column], out=slots)
    return slots
