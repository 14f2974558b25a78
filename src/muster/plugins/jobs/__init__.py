"""Policy on jobs: what a gang needs to start, and who goes first.

Enters: a job or its tasks. Leaves: how many tasks it lacks, its place in the line, what is kept free for it.
"""
