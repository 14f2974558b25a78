"""The picture of one cycle as columns, the mirror that keeps it current, the statement that changes it."""

from muster.snapshot.axis import UNLIMITED, Amounts, ResourceAxis
from muster.snapshot.board import Board
from muster.snapshot.intake import Intake
from muster.snapshot.mirror import Mirror
from muster.snapshot.quarantine import Aside, Quarantine
from muster.snapshot.records import GroupConstraint, JobRecord, QueueRecord
from muster.snapshot.rows import NO_ROW, Mask, Pieces, Rows
from muster.snapshot.statement import Operation, OperationKind, Statement
from muster.snapshot.status import (
    ACTIVE_STATUSES,
    ALLOCATED_STATUSES,
    BEST_EFFORT_PENDING,
    READY_STATUSES,
    JobPhase,
    TaskStatus,
)
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
]
