"""Verbs for jobs and queues on a live cluster: make, look at, suspend, resume, open, close, delete.

Enters: names and a few numbers, or a file. Leaves: requests to the API server, and a line that says what was done.
"""
