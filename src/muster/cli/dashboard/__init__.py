"""`muster ui`: what is to be shown, read and checked, and handed to the server of the dashboard.

Enters: files, a cluster, a snapshot or folders of replays, as options name them. Leaves: a server, until interrupted.
"""
