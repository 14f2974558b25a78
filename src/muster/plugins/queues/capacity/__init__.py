"""Queues that say in amounts what they deserve and may hold, side by side or as a tree.

Enters: the queues of a session. Leaves: their order, what they may hold, and what they must give back.
`standing` holds the figures and the rules of giving back, `plugin` answers by them.
"""

from muster.plugins.queues.capacity.plugin import Capacity

__all__ = ["Capacity"]
