"""The task strategy: victims task by task and node by node, as in Volcano."""
