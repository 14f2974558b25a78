"""Admission rules: what may be written into a cluster, and what is filled in."""

from muster.admission.facts import Facts
from muster.admission.hooks import HOOKS, Hook
from muster.admission.model import CREATE, DELETE, UPDATE, Caution, Known, Request, Settings
from muster.admission.review import BadReviewError, answer
from muster.admission.verdicts import Verdict, judge

__all__ = [
    "CREATE",
    "DELETE",
    "HOOKS",
    "UPDATE",
    "BadReviewError",
    "Caution",
    "Facts",
    "Hook",
    "Known",
    "Request",
    "Settings",
    "Verdict",
    "answer",
    "judge",
]
