"""The gang strategy: victims as bundles of gangs, domain by domain."""
