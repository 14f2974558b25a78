"""The network topology for people: seen, checked, and made from labels of nodes.

Enters: HyperNodes, Topologies, nodes and pods as they stand in files or in a cluster. Leaves: the tree with what is
free in it, as text, JSON, Graphviz or SVG (`view`, `drawings`, `svg`); findings (`check`); new HyperNodes
(`generate`).
"""
