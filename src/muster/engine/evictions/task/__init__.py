"""The task strategy: victims task by task and node by node, as in Volcano.

Enters: the tasks that a job waits for and the candidates of every node. Leaves: a plan for all that it lacks.
"""
