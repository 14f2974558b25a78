"""Benchmarks: the work of docs/performance.md, run by `make bench`."""
