"""Policy on evictions: who must not go, whatever strategy asks.

Enters: an eviction and its candidates. Leaves: those of them that may go.
"""
