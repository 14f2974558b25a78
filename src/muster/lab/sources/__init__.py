"""Where jobs and nodes of a replay come from: tables, objects, and what a running scheduler logged.

In: names of files, and options on which part of them counts. Out: a trace, and the objects of a cluster.
"""
