"""The solver strategy: jobs as units, scenarios as trials, victims that may be moved instead of evicted."""
