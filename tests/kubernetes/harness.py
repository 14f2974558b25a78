"""Moved to `muster.testing.control_plane`."""

from muster.testing.control_plane import *  # noqa: F403
