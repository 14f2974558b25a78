"""The registry that every command and test starts from: what Muster ships, plus what is installed beside it."""

from __future__ import annotations

from muster.actions import BUILTIN as ACTIONS
from muster.framework import Registry
from muster.plugins import BUILTIN as PLUGINS


def builtin_registry(*, third_party: bool = True) -> Registry:
    """Return the built-in plugins and actions, with those of installed packages unless told otherwise."""
    registry = Registry.of(PLUGINS, ACTIONS)
    if third_party:
        registry.load_entry_points()
    return registry
