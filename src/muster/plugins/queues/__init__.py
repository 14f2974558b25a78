"""Policy on queues: what each may hold, what it is owed, and whose turn it is.

Enters: queues with what they hold and what waits in them. Leaves: order, limits, and who may take back from whom.
"""
