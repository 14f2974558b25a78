"""Commands of the lab.

In: what options say. Out: tables, JSON, and what `--out` names.
"""
