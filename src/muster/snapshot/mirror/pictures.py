"""Pictures: the rows of the mirror's books as the tables of one cycle.

Sums and counters are made here, in one pass over the tasks: of jobs, roles, sub-groups, queues and nodes. A picture
owns everything in it that changes.

A pending pod with `status.nominatedNodeName` has room set aside on that node, in the PIPELINED plane, for as long as
the node will have it: what an earlier cycle evicted others for must not be taken by a third. The pod's own job gives
the reservation up in its statement before it is placed. A nomination whose node is gone, or will not have the room
even when everything that terminates is gone, is stale: nothing is reserved and the scheduler clears it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from muster.kernels.placement import BLOCK, FUTURE, fits
from muster.kernels.planes import ALLOCATABLE, PIPELINED, SCORED
from muster.kernels.totals import ABSENT, HOLDS, LEAVES, OCCUPIES, WAITS, add_rows, is_countable, tally_tasks
from muster.snapshot.columns import (
    ALLOCATED_STATUSES,
    ANY_MACHINE,
    CEILING,
    MAX_SUM,
    N_COUNTS,
    NO_ROW,
    OCCUPYING_STATUSES,
    UNLIMITED,
    Amounts,
    Mask,
    ResourceAxis,
    Rows,
    TaskStatus,
    common_ceiling,
    cut,
    impossible,
    limit_columns,
)
from muster.snapshot.growing import GroupBook
from muster.snapshot.mirror.jobs import NO_RULE
from muster.snapshot.mirror.tasks import TaskBook
from muster.snapshot.records import QueueRecord
from muster.snapshot.tables import (
    BEST_EFFORT,
    GATED,
    PREEMPTABLE,
    ClassTable,
    GroupTable,
    JobTable,
    NodeTable,
    QueueTable,
    Snapshot,
    TaskTable,
)
from muster.snapshot.topology import TopologyTable

#: What each state means to the sums.
_KINDS = np.zeros(N_COUNTS, np.uint8)
_KINDS[list(ALLOCATED_STATUSES)] |= HOLDS
_KINDS[list(OCCUPYING_STATUSES)] |= OCCUPIES
_KINDS[TaskStatus.RELEASING] |= LEAVES
_KINDS[TaskStatus.PENDING] |= WAITS
_KINDS[TaskStatus.GONE] |= ABSENT
_MARKS = np.array([BEST_EFFORT, GATED, PREEMPTABLE], np.uint8)

#: Every queue is counted in all above it; nobody stacks more of them, and a chain of thousands would cost everybody.
MAX_QUEUE_LEVELS: Final = 100


def take_picture(
    book: TaskBook,
    axis: ResourceAxis,
    tables: tuple[NodeTable, TopologyTable],
    queues: QueueTable,
    asides: Mapping[str, str],
    objects: Mapping[str, Mapping[str, object]],
) -> Snapshot:
    """Make the tables of a cycle.

    `asides` are jobs that wait for an object that was put aside, and for which; `objects` all that have no table.
    """
    nodes, topology = tables
    classes = book.classes.table(axis)
    tasks = _task_table(book, nodes)
    if not is_countable(classes.requests, nodes.state[ALLOCATABLE], len(tasks), MAX_SUM, CEILING, ANY_MACHINE):
        _limit(tasks, classes, nodes)
    jobs, roles, subgroups = _tally(book, tasks, classes, nodes, queues, asides)
    stale = reserve_nominated(nodes, classes, tasks, book.columns["nominated"])
    return Snapshot(
        axis=axis,
        nodes=nodes,
        classes=classes,
        tasks=tasks,
        jobs=jobs,
        roles=roles,
        subgroups=subgroups,
        queues=queues,
        topology=topology,
        objects={kind: dict(items) for kind, items in objects.items()},
        stale_nominations=stale,
        holds=dict(book.holds),
        touch_log=np.empty(max(1024, BLOCK), np.intp),
        generation=book.generation,
    )


def _limit(tasks: TaskTable, classes: ClassTable, nodes: NodeTable) -> None:
    """Cut amounts down that sums could not hold, and let nobody hold what no machine has."""
    limit_columns(classes.requests, tasks.cls[tasks.status != TaskStatus.GONE], nodes.state[ALLOCATABLE])
    beyond = impossible(classes.requests, nodes.state[ALLOCATABLE])
    if beyond.any():
        holding = np.flatnonzero((_KINDS[tasks.status] & HOLDS) != 0)
        tasks.status[holding[beyond[tasks.cls[holding]]]] = TaskStatus.UNKNOWN


def _task_table(book: TaskBook, nodes: NodeTable) -> TaskTable:
    columns = book.columns
    rows_of_nodes = book.nodes.rows(nodes.index)
    ranks = book.rank_tasks()
    return TaskTable(
        ids=list(book.ids),
        pods=list(book.pods),
        job=columns["job"].copy(),
        cls=columns["cls"].copy(),
        role=columns["role"].copy(),
        subgroup=columns["subgroup"].copy(),
        status=columns["status"].copy(),
        node=rows_of_nodes[columns["node"]],
        nominated=rows_of_nodes[columns["nominated"]],
        reserved=np.zeros(columns.size, np.bool_),
        priority=columns["priority"].copy(),
        rank=ranks.copy(),
        flags=columns["flags"].copy(),
    )


def _tally(
    book: TaskBook,
    tasks: TaskTable,
    classes: ClassTable,
    nodes: NodeTable,
    queues: QueueTable,
    asides: Mapping[str, str],
) -> tuple[JobTable, GroupTable, GroupTable]:
    """Jobs, roles and sub-groups with their sums; what tasks hold is booked on their nodes and queues too."""
    jobs, columns = book.jobs, book.jobs.columns
    n_jobs = columns.size
    allocated, pending = (np.zeros((n_jobs, classes.requests.shape[2]), np.int64) for _ in range(2))
    counts: Rows = np.zeros((n_jobs, N_COUNTS), np.intp)
    roles, subgroups = _group_table(jobs.roles), _group_table(jobs.subgroups)
    unwilling: Mask = np.zeros(n_jobs, np.bool_)
    tally_tasks(
        tasks.cls,
        tasks.status,
        tasks.flags,
        (tasks.job, tasks.role, tasks.subgroup, tasks.node),
        classes.requests,
        _KINDS,
        _MARKS,
        nodes.state,
        (counts, roles.counts, subgroups.counts),
        (allocated, pending),
        unwilling,
    )
    live = columns["live"].copy()
    queue = jobs.queues.rows(queues.index)[columns["queue"]]
    refuses, preemptible = _preemptible(book, unwilling)
    _add_to_queues(queues, np.where(live, queue, np.intp(NO_ROW)), allocated, preemptible)
    table = JobTable(
        records=list(jobs.records),
        index=dict(jobs.rows),
        names=jobs.names(),
        live=live,
        queue=queue,
        min_member=columns["min_member"].copy(),
        min_roles_total=columns["min_roles_total"].copy(),
        priority=columns["priority"].copy(),
        created=columns["created"].copy(),
        phase=columns["phase"].copy(),
        preemptible=preemptible,
        spared=refuses,
        goes_whole=columns["goes_whole"].copy(),
        is_plain=columns["is_plain"].copy(),
        has_network=columns["has_network"].copy(),
        is_stamped_stale=columns["is_stamped_stale"].copy(),
        counts=counts,
        allocated=allocated,
        pending=pending,
        has_group=columns["has_group"].copy(),
        has_source=columns["has_source"].copy(),
        roles=jobs.roles.of_jobs(),
        subgroups=jobs.subgroups.of_jobs(),
        aside={jobs.rows[job]: why for job, why in asides.items() if job in jobs.rows},
    )
    return table, roles, subgroups


def _preemptible(book: TaskBook, unwilling: Mask) -> tuple[Mask, Mask]:
    """Which jobs are nobody's victims, by their own word or by priority; and of which every pod may go.

    `unwilling`: jobs of which some pod may not.
    """
    columns = book.jobs.columns
    said, below = columns["preemptible"], columns["preemptible_below"]
    has_rule = below != NO_RULE
    refuses: Mask = said == 0
    willing = ~unwilling | (said > 0)
    if has_rule.any():
        refuses |= (said < 0) & has_rule & (columns["priority"] >= below)
        willing |= has_rule
    return refuses, ~refuses & willing


def _add_to_queues(queues: QueueTable, queue: Rows, allocated: Amounts, preemptible: Mask) -> None:
    """Count what jobs hold in their queues and those above; `queue` is NO_ROW for jobs that count nowhere."""
    add_rows(queues.own_allocated, queue, allocated)
    for row in np.flatnonzero(queues.own_allocated.any(axis=1)).tolist():
        queues.tree_allocated[queues.paths[row]] += queues.own_allocated[row]
    firm = ((queue != NO_ROW) & ~preemptible).nonzero()[0]
    for job in firm[allocated[firm].any(axis=1)].tolist() if len(firm) else ():
        queues.tree_firm[queues.paths[queue[job]]] += allocated[job]


def _group_table(groups: GroupBook[Any]) -> GroupTable:  # Any: keys are its own business
    columns = groups.columns
    return GroupTable(
        names=list(groups.names),
        job=columns["job"].copy(),
        minimum=columns["minimum"].copy(),
        counts=np.zeros((columns.size, N_COUNTS), np.intp),
        policy=columns["policy"].copy(),
        index=columns["index"].copy(),
    )


def reserve_nominated(nodes: NodeTable, classes: ClassTable, tasks: TaskTable, named: Rows) -> Rows:
    """Reserve room for nominated tasks, higher priority first; return the tasks whose nomination is stale.

    `named` is negative for tasks that name no node at all.
    """
    nominated: Rows = np.flatnonzero(named != NO_ROW).astype(np.intp)
    if len(nominated) == 0:
        return nominated
    nominated = nominated[tasks.status[nominated] == TaskStatus.PENDING]
    stale = []
    for task in sorted(nominated.tolist(), key=lambda task: (-int(tasks.priority[task]), tasks.ids[task])):
        node = int(tasks.nominated[task])
        request, scored = classes.requests[tasks.cls[task]]
        if node == NO_ROW or not nodes.ready[node] or not fits(nodes.state, request, node, FUTURE):
            stale.append(task)
            continue
        nodes.state[PIPELINED, node] += request
        nodes.state[SCORED, node] += scored
        tasks.reserved[task] = True
    return np.array(stale, np.intp)


def build_queues(records: Mapping[str, QueueRecord], axis: ResourceAxis, why: Mapping[str, str]) -> QueueTable:
    """Lay the queues out, sorted by name, with empty totals; `why` names those that were put aside."""
    ordered = _summable([records[name] for name in sorted(records)])
    index = {record.name: row for row, record in enumerate(ordered)}
    parent = np.array([index.get(record.parent, NO_ROW) for record in ordered], np.intp)
    broken: dict[int, str] = {}
    aside: dict[int, str] = {}
    paths = []
    steps = []
    for row, record in enumerate(ordered):
        path, fault = _walk_up(row, ordered, index)
        for above in path if why else ():
            if (wrong := why.get(ordered[above].name)) is not None:
                aside[row] = broken[row] = wrong
        if fault:
            broken[row] = f"queue {record.name}: {fault}"
        paths.append(np.array(path, np.intp))
        steps.append(list(zip(path, (*path[1:], NO_ROW), strict=True)))
    shape = (len(ordered), len(axis))
    own, tree, firm = (np.zeros(shape, np.int64) for _ in range(3))
    parents = frozenset(parent[parent != NO_ROW].tolist())
    upward: Rows = np.full((len(ordered), max(map(len, paths), default=0)), NO_ROW, np.intp)
    for row, path_up in enumerate(paths):
        upward[row, : len(path_up)] = path_up
    return QueueTable(ordered, index, parent, paths, steps, upward, own, tree, firm, parents, broken, aside)


def with_empty_totals(layout: QueueTable, records: list[QueueRecord], axis: ResourceAxis) -> QueueTable:
    """The queues of a layout, as they stand now, for a picture to own."""
    own, tree, firm = np.zeros((3, len(records), len(axis)), np.int64)
    return QueueTable(
        records,
        layout.index,
        layout.parent,
        layout.paths,
        layout.steps,
        layout.upward,
        own,
        tree,
        firm,
        layout.parents,
        layout.broken,
        layout.aside,
        layout.derived,
    )


def _summable(records: list[QueueRecord]) -> list[QueueRecord]:
    """The queues with what they deserve and are guaranteed in amounts that may be added up."""
    most = int(UNLIMITED)
    ceiling = common_ceiling((given for known in records for given in (known.deserved, known.guarantee)), most)
    if ceiling == most:
        return records
    return [
        replace(known, deserved=cut(known.deserved, ceiling, most), guarantee=cut(known.guarantee, ceiling, most))
        for known in records
    ]


def _walk_up(row: int, records: list[QueueRecord], index: dict[str, int]) -> tuple[list[int], str]:
    """Rows from a queue to the top; the second part says what is wrong, "" if nothing is."""
    path = [row]
    while True:
        here = records[path[-1]]
        if not here.parent or here.parent == here.name:
            return path, "" if here.parent != here.name else f"{here.name} is its own parent"
        above = index.get(here.parent)
        if above is None:
            return path, f"parent {here.parent} of {here.name} does not exist"
        if above in path:
            names = " -> ".join(records[step].name for step in [*path[path.index(above) :], above])
            return path, f"parents form a cycle: {names}"
        if len(path) == MAX_QUEUE_LEVELS:
            return path, f"expected at most {MAX_QUEUE_LEVELS} queues one below the other, got more"
        path.append(above)
