"""HyperNodes that follow the network: made from node labels, or from what a manager of switches answers.

Enters: nodes, HyperNodes, and the ConfigMap that says where to look. Leaves: plans that make, change and delete those
HyperNodes that carry the name of their source; all others are somebody else's. How HyperNodes are is the scheduler's
to write.
"""
