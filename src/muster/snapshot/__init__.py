"""The picture of one cycle as columns, the mirror that keeps it current, the statement that changes it.

Enters: events of a cluster. Leaves: a `Snapshot` for a cycle, and operations that a `Statement` committed, from which
decisions are made. Knows objects and kernels; knows no policy.
"""

from muster.snapshot.columns import (
    ACTIVE_STATUSES,
    ALLOCATED_STATUSES,
    BEST_EFFORT_PENDING,
    NO_ROW,
    READY_STATUSES,
    UNLIMITED,
    Amounts,
    JobPhase,
    Mask,
    Pieces,
    ResourceAxis,
    Rows,
    TaskStatus,
    run_bounds,
    slots_in,
)
from muster.snapshot.mirror import Mirror
from muster.snapshot.mirror.intake import Intake
from muster.snapshot.mirror.quarantine import Aside, Quarantine
from muster.snapshot.operations import Operation, OperationKind
from muster.snapshot.records import GroupConstraint, JobRecord, QueueRecord
from muster.snapshot.statement import Board, Statement
from muster.snapshot.tables import (
    BEST_EFFORT,
    CRITICAL,
    FOREIGN,
    GATED,
    NEEDS_LIVE_CHECK,
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

__all__ = [
    "ACTIVE_STATUSES",
    "ALLOCATED_STATUSES",
    "BEST_EFFORT",
    "BEST_EFFORT_PENDING",
    "CRITICAL",
    "FOREIGN",
    "GATED",
    "NEEDS_LIVE_CHECK",
    "NO_ROW",
    "PREEMPTABLE",
    "READY_STATUSES",
    "UNLIMITED",
    "Amounts",
    "Aside",
    "Board",
    "ClassTable",
    "GroupConstraint",
    "GroupTable",
    "Intake",
    "JobPhase",
    "JobRecord",
    "JobTable",
    "Mask",
    "Mirror",
    "NodeTable",
    "Operation",
    "OperationKind",
    "Pieces",
    "Quarantine",
    "QueueRecord",
    "QueueTable",
    "ResourceAxis",
    "Rows",
    "Snapshot",
    "Statement",
    "TaskStatus",
    "TaskTable",
    "TopologyTable",
    "run_bounds",
    "slots_in",
]
