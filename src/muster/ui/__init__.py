"""The dashboard: what the commands know, in a browser, live and from files. It reads and never writes.

Enters: a feed of cycles, from a simulation of files or from the watches of a cluster, and the folders of replays.
Leaves: JSON of every page under /api, a stream of what is new, and the built front end (`static`, made from /ui).
Answers are made from the sessions of cycles by `muster.explain`, as those of the commands are.
"""
