"""Where a pod may run at all: Kubernetes' rules on nodes, on other pods and on volumes, each for all nodes at once.

Enters: a class of tasks, or one task where other pods matter. Leaves: the reason against each node. `plugin` asks the
rules; each has a module of its own, and `nodeorder` scores nodes by the same ones where they only prefer.
"""

from muster.plugins.nodes.predicates.plugin import Predicates

__all__ = ["Predicates"]
