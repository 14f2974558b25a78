"""Recorded cases of other schedulers, run through Muster: `python -m conformance DIR`."""
