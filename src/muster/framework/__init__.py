"""Extension points, sessions, tiers, the registry, reason codes and configuration."""

from muster.framework.config import (
    PluginOption,
    SchedulerConfig,
    Sharding,
    default_config,
    load_config,
    parse_config,
)
from muster.framework.plugin import (
    Arguments,
    Departure,
    Eviction,
    Evictor,
    NodeScores,
    Plugin,
    Purpose,
    Rejection,
    Scenario,
    ScenarioFilter,
    UsageHistory,
    Vote,
)
from muster.framework.profiles import PROFILES, Profile, find_config, profile, profile_yaml
from muster.framework.reasons import FITS, Reason, Verdicts, all_reasons, reason, reason_number
from muster.framework.registry import Action, Registry
from muster.framework.session import Committed, Session
from muster.framework.tallies import MADE_ROOM, ActionTally
from muster.framework.verdicts import JobVerdict, VerdictCache

__all__ = [
    "FITS",
    "MADE_ROOM",
    "PROFILES",
    "Action",
    "ActionTally",
    "Arguments",
    "Committed",
    "Departure",
    "Eviction",
    "Evictor",
    "JobVerdict",
    "NodeScores",
    "Plugin",
    "PluginOption",
    "Profile",
    "Purpose",
    "Reason",
    "Registry",
    "Rejection",
    "Scenario",
    "ScenarioFilter",
    "SchedulerConfig",
    "Session",
    "Sharding",
    "UsageHistory",
    "VerdictCache",
    "Verdicts",
    "Vote",
    "all_reasons",
    "default_config",
    "find_config",
    "load_config",
    "parse_config",
    "profile",
    "profile_yaml",
    "reason",
    "reason_number",
]
