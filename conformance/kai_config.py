"""The configuration that a KAI cluster case runs with: the profile `kai`, and what the case says otherwise.

Constant in KAI's tests, unlike in production: any number of victims may be moved, and no job is skipped because
a similar one has failed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.cases import Body, Case
from muster.framework import PluginOption, SchedulerConfig, profile

STALE = "stalegangeviction"
#: Plugins of the profile that stand for one of KAI's; the others do what KAI has built in.
_KAI_NAMES = {
    "predicates": "predicates",
    "fairshare": "proportion",
    "priority": "priority",
    "elastic": "elastic",
    "taskorder": "taskorder",
    "nodeplacement": "nodeplacement",
    "resourcetype": "resourcetype",
    "nodeorder": "podaffinity",
    "minruntime": "minruntime",
}


def config_of(case: Case) -> SchedulerConfig:
    """Read a case's configuration."""
    base, given = profile("kai"), case.body.get("config") or {}
    options = tuple(_changed(option, given) for option in base.plugin_options() if _is_on(option, given))
    return replace(
        base, actions=tuple(case.body["actions"]), tiers=(options,), configurations=_configurations(base, case.body)
    )


def _configurations(base: SchedulerConfig, body: Body) -> dict[str, dict[str, Any]]:
    """The arguments of the actions: those of the profile, and what KAI's tests set."""
    # In KAI whose turn it is takes what it may, also where others take it back then.
    as_in_kai = {"useSchedulingSignatures": False, "passOverBlocked": False, "looksAhead": False}
    own: dict[str, dict[str, Any]] = {
        "allocate": {"groupsStartSmall": True},
        "consolidation": {"maxConsolidationPreemptees": -1, **as_in_kai},
        "reclaim": as_in_kai,
        "preempt": as_in_kai,
        STALE: {"gracePeriod": f"{_grace_seconds(body)}s"},
    }
    return {name: {**base.arguments_of(name), **arguments} for name, arguments in own.items()}


def _grace_seconds(body: Body) -> int:
    """How long a gang may stay broken; not at all where whole rounds are run."""
    return int((body.get("config") or {}).get("stalenessGraceSeconds", 0))


def _listed(given: Body) -> dict[str, dict[str, Any]] | None:
    """KAI's names of the plugins that the case lists, with their arguments; None: the default ones."""
    if "schedulerConf" not in given:
        return None
    tiers = given["schedulerConf"]["tiers"]
    return {plugin["name"]: plugin.get("arguments") or {} for tier in tiers for plugin in tier["plugins"]}


def _is_on(option: PluginOption, given: Body) -> bool:
    theirs, listed = _KAI_NAMES.get(option.name), _listed(given)
    if theirs is None:
        return True
    if theirs == "predicates" and given.get("predicatesPluginDisabled"):
        return False
    return listed is None or theirs in listed


def _changed(option: PluginOption, given: Body) -> PluginOption:
    """The option with the arguments that the case gives it."""
    arguments = dict((_listed(given) or {}).get(_KAI_NAMES.get(option.name, ""), {}))
    runtimes = given.get("minRuntime")
    if runtimes and option.name == "minruntime":
        arguments["defaultPreemptMinRuntime"] = f"{runtimes['defaultPreemptSeconds']}s"
        arguments["defaultReclaimMinRuntime"] = f"{runtimes['defaultReclaimSeconds']}s"
        arguments["reclaimResolveMethod"] = runtimes["reclaimResolveMethod"]
    if option.name == "fairshare":
        arguments["countUnrequested"] = True
    return replace(option, arguments={**option.arguments, **arguments})
