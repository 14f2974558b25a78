"""Fair shares for a tree of queues, as in KAI: quotas are guaranteed, the rest is divided by priority and weight.

Enters: queues, what they ask for and what they had. Leaves: their turns, their limits, and who must give to whom.
What they are entitled to is divided down the `tree` by `division`; `rules` say what follows from the outcome.
"""

from muster.plugins.queues.fairshare.plugin import FairShare

__all__ = ["FairShare"]
