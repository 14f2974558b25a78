"""Muster: a batch scheduler for Kubernetes."""

__version__ = "0.1.0.dev0"
