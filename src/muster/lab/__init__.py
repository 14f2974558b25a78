"""The lab: replay traces through the real scheduler on a virtual clock, ask what if, compare policies.

In: a trace of jobs, nodes, a configuration. Out: a `Report` with waits, utilisation, lost work and fairness.
"""
