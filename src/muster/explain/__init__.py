"""Why a job is not running, with the numbers behind it, and what would let it start; how queues stand.

Enters: a session whose actions have run. Leaves: an `Explanation` of one job, or an overview of all queues, as values,
as text and as JSON. Nothing here decides anything.
"""

from muster.explain.job import explain_job, find_job, find_pods, has_job
from muster.explain.lists import JobRow, LinePlace, ListState, NodeRow, job_rows, node_rows
from muster.explain.model import (
    ClosestNode,
    Explanation,
    Forecast,
    Holder,
    JobState,
    Need,
    NodeGroup,
    Placement,
    QueuePicture,
    RoleCount,
)
from muster.explain.queue_overview import Loan, QueueAmounts, QueueOverview, QueueView, queue_overview
from muster.explain.text import explanation_lines, headline, waiting_reason
from muster.explain.why import Whys

__all__ = [
    "ClosestNode",
    "Explanation",
    "Forecast",
    "Holder",
    "JobRow",
    "JobState",
    "LinePlace",
    "ListState",
    "Loan",
    "Need",
    "NodeGroup",
    "NodeRow",
    "Placement",
    "QueueAmounts",
    "QueueOverview",
    "QueuePicture",
    "QueueView",
    "RoleCount",
    "Whys",
    "explain_job",
    "explanation_lines",
    "find_job",
    "find_pods",
    "has_job",
    "headline",
    "job_rows",
    "node_rows",
    "queue_overview",
    "waiting_reason",
]
