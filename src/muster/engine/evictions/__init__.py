"""Evictions: who gives way to whom, and nothing is evicted without a placed beneficiary.

Enters: a session, the kind of eviction, a strategy and limits (`pipeline.run`). Leaves: committed statements with the
record of every victim, or why nobody was evicted. `gang`, `task` and `solver` are three ways to choose victims.
"""
