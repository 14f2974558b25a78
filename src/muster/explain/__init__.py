"""Why a job is not running, with the numbers behind it, and what would let it start; how queues stand."""

from muster.explain.find import find_job, find_pods, has_job
from muster.explain.job import explain_job
from muster.explain.loans import Loan
from muster.explain.model import (
    ClosestNode,
    Explanation,
    Holder,
    JobState,
    Need,
    NodeGroup,
    Placement,
    QueuePicture,
    RoleCount,
)
from muster.explain.nodes import refine_verdict
from muster.explain.queue_document import tree_document
from muster.explain.queue_tree import QueueAmounts, QueueTree, QueueView, queue_tree
from muster.explain.text import explanation_lines, headline, waiting_reason

__all__ = [
    "ClosestNode",
    "Explanation",
    "Holder",
    "JobState",
    "Loan",
    "Need",
    "NodeGroup",
    "Placement",
    "QueueAmounts",
    "QueuePicture",
    "QueueTree",
    "QueueView",
    "RoleCount",
    "explain_job",
    "explanation_lines",
    "find_job",
    "find_pods",
    "has_job",
    "headline",
    "queue_tree",
    "refine_verdict",
    "tree_document",
    "waiting_reason",
]
