"""Why a job is not running, with the numbers behind it, and what would let it start; how queues stand.

Enters: a session whose actions have run. Leaves: an `Explanation` of one job, or an overview of all queues, as values,
as text and as JSON. Nothing here decides anything.
"""

from muster.explain.job import explain_job, find_job, find_pods, has_job
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
from muster.explain.obstacles import refine_verdict
from muster.explain.queue_overview import Loan, QueueAmounts, QueueOverview, QueueView, queue_overview
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
    "QueueOverview",
    "QueuePicture",
    "QueueView",
    "RoleCount",
    "explain_job",
    "explanation_lines",
    "find_job",
    "find_pods",
    "has_job",
    "headline",
    "queue_overview",
    "refine_verdict",
    "waiting_reason",
]
