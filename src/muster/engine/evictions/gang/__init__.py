"""The gang strategy: victims as bundles of gangs, domain by domain.

Enters: what a gang needs and whom it might evict. Leaves: a plan whose bundles are proved by dry runs.
"""
