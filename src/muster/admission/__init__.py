"""Admission: what may be written into a cluster, and what is filled in, as rules that know nothing of servers.

Enters: an AdmissionReview as bytes, and what the cluster has (`Facts`, or `live.LiveFacts` from watches).
Leaves: the answer as bytes, with the `Verdict`; and the webhook configurations that make an API server ask (`hooks`).
"""

from muster.admission.hooks import HOOKS, Hook
from muster.admission.request import CREATE, DELETE, UPDATE, Caution, Facts, Known, Request, Settings
from muster.admission.review import BadReviewError, Verdict, answer, judge

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
