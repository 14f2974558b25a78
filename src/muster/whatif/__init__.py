"""What would happen if: the same picture runs on twice, without some changes and with them.

In: objects of files, of a saved snapshot or of a live cluster, and typed changes. Out: a `Comparison`, as plain data.
Nothing is written anywhere.
"""

from muster.whatif.ask import Options, Picture, load, picture_of, what_if
from muster.whatif.changes import AddNodes, Change, Delete, Drain, SetPriority, Submit, UseConfig
from muster.whatif.comparison import Comparison, Difference, JobComparison, RunTotals
from muster.whatif.estimates import Basis, Estimates
from muster.whatif.fates import Eviction, JobFate, Outcome
from muster.whatif.flags import Flag, read_flags
from muster.whatif.queues import SetQueue

__all__ = [
    "AddNodes",
    "Basis",
    "Change",
    "Comparison",
    "Delete",
    "Difference",
    "Drain",
    "Estimates",
    "Eviction",
    "Flag",
    "JobComparison",
    "JobFate",
    "Options",
    "Outcome",
    "Picture",
    "RunTotals",
    "SetPriority",
    "SetQueue",
    "Submit",
    "UseConfig",
    "load",
    "picture_of",
    "read_flags",
    "what_if",
]
