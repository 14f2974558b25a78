"""Why a job is not running, with the numbers behind it, and what would let it start."""

from muster.explain.find import find_job, find_pods
from muster.explain.job import explain_job
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
from muster.explain.text import explanation_lines, headline, waiting_reason

__all__ = [
    "ClosestNode",
    "Explanation",
    "Holder",
    "JobState",
    "Need",
    "NodeGroup",
    "Placement",
    "QueuePicture",
    "RoleCount",
    "explain_job",
    "explanation_lines",
    "find_job",
    "find_pods",
    "headline",
    "refine_verdict",
    "waiting_reason",
]
