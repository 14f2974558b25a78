"""What a case needs and Muster does not have: such a case is skipped, with the feature named.

Plugins and actions are skipped while the product itself calls them "not supported yet", so a new one makes its
cases run without a change here, and a name that nobody knows is a failure.
"""

from __future__ import annotations

from conformance.cases import KAI, Case
from conformance.scheduling import config_of
from muster.framework import Registry
from muster.framework.registry import NOT_YET_ACTIONS, NOT_YET_PLUGINS

#: The tag of cases that need a plugin of Volcano's own tests.
_CUSTOM = "custom-plugin"
#: Tags of KAI's cases in which pods ask for less than a GPU, for instances of one, or for devices by claim.
_GPU_SHARING = ("fractional-gpu", "gpu-memory", "mig", "dra")


def missing_feature(case: Case, registry: Registry) -> str:
    """Name what Muster lacks to run the case; "" when it can be run."""
    if case.system == KAI:
        return next((f"GPU sharing ({tag})" for tag in _GPU_SHARING if tag in case.tags), "")
    if case.is_function:
        return ""
    return _missing_part(case, registry)


def _missing_part(case: Case, registry: Registry) -> str:
    """Name the first action, plugin or argument of the configuration that is not there."""
    if _CUSTOM in case.tags:
        return f"{_CUSTOM} (exists in Volcano's tests only)"
    config = case.body["config"]
    for action in config.get("actions") or ():
        if action in NOT_YET_ACTIONS - registry.actions.keys():
            return f"action {action}"
    missing = NOT_YET_PLUGINS - registry.plugins.keys()
    for option in config_of(case).plugin_options():
        if option.name in missing:
            return f"plugin {option.name}"
    return ""
