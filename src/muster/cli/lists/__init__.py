"""Lists that people know from other schedulers: jobs in line, queues with their shares, nodes with what is free.

Enters: objects of files, of a saved snapshot or of a live cluster. Leaves: tables, or documents for programs.
"""
