"""Policy on nodes: where a pod may run, and where it would rather.

Enters: a class of equal tasks, or a domain for a gang. Leaves: a verdict and a score for all nodes or domains at once.
"""
