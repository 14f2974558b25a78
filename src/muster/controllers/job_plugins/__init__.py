"""Plugins of Jobs: what pods of a Job have to know of each other, put into their documents and beside them.

Enters: a Job, and the document of a pod that is about to be made. Leaves: the pod with hosts, ranks, ports and keys,
and Services, ConfigMaps, Secrets and NetworkPolicies. One's own come by the entry-point group `muster.job_plugins`.
"""

from muster.controllers.job_plugins.contract import (
    JobPlugin,
    JobPluginError,
    argument_problems,
    plugin_names,
    plugins_of,
)

__all__ = ["JobPlugin", "JobPluginError", "argument_problems", "plugin_names", "plugins_of"]
