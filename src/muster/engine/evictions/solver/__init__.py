"""The solver strategy: jobs as units, scenarios as trials, victims that may be moved instead of evicted.

Enters: what a gang needs and the line of its victims. Leaves: a plan that the validators have seen.
"""
