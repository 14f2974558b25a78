"""Evictions: who gives way to whom, and nothing is evicted without a placed beneficiary."""
