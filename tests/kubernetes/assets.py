"""Moved to `muster.testing.real_parts`."""

from muster.testing.real_parts import *  # noqa: F403
