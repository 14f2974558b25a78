"""Muster on a real API server: from the creation of pods to their binding."""
