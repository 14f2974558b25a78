"""Makes reference pages and pictures from the code, so that they cannot drift from it.

Enters: the commands, plugins, reasons and imports as they are. Leaves: the pages below `docs/` that are marked as made,
and the output of commands in those written by hand. Used in the repository only.
"""
