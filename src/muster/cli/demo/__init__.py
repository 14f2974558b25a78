"""A small cluster, a handful of jobs, and the story that `muster demo` tells about them.

Enters: the objects in its folders. Leaves: text on the terminal, made by the real scheduler on the embedded cluster.
"""
