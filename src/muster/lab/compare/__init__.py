"""Several configurations on several traces and clusters, several times each, and what may be said of the difference.

In: configurations, inputs and seeds. Out: figures with intervals, and a verdict for each.
"""
