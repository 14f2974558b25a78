"""Volcano's Job: a PodGroup, pods and what stands beside them, until it is complete or has failed for good.

Enters: a Job with all that it has made (`Observed`). Leaves: a `Plan`. `reconcile` is the story by phases, `policies`
what happens and what is to be done then, `pods` and `groups` what is made, `status` how it is all counted.
"""
