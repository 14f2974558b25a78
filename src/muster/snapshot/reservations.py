"""Room for nominated pods: what an earlier cycle evicted others for must not be taken by a third.

A pending pod with `status.nominatedNodeName` has room set aside on that node, in the PIPELINED plane, for as long as
the node will have it. The pod's own job gives the reservation up in its statement before it is placed. A nomination
whose node is gone, or will not have the room even when everything that terminates is gone, is stale: nothing is
reserved and the scheduler clears it.
"""

from __future__ import annotations

import numpy as np

from muster.kernels.placement import FUTURE, fits
from muster.kernels.planes import PIPELINED, SCORED
from muster.snapshot.columns import NO_ROW, Rows, TaskStatus
from muster.snapshot.tables import ClassTable, NodeTable, TaskTable


def reserve_nominated(nodes: NodeTable, classes: ClassTable, tasks: TaskTable, named: Rows) -> Rows:
    """Reserve room for nominated tasks, higher priority first; return the tasks whose nomination is stale.

    `named` is negative for tasks that name no node at all.
    """
    nominated = np.flatnonzero((tasks.status == TaskStatus.PENDING) & (named != NO_ROW))
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
    return np.array(stale, np.int32)
