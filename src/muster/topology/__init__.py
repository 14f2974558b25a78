"""Tools around HyperNodes: draw the tree, make it from node labels, check it. Nothing here schedules."""
