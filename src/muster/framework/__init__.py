"""How policy is asked for: the contract of plugins, the table of extension points, and the session that asks.

Enters: a snapshot, a configuration and a registry. Leaves: what actions commit, and verdicts on jobs that stay behind.
`points` is the table, `plugin` the contract, `questions` and `victim_questions` are how answers are asked for.
"""

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
    Protection,
    Purpose,
    Rejection,
    Scenario,
    ScenarioFilter,
    UsageHistory,
    Vote,
)
from muster.framework.points import NO_LIMIT
from muster.framework.profiles import PROFILES, Profile, find_config, profile, profile_yaml
from muster.framework.reasons import (
    FITS,
    NO_CLASS,
    JobVerdict,
    Reason,
    VerdictCache,
    Verdicts,
    all_reasons,
    reason,
    reason_number,
    reason_of,
)
from muster.framework.registry import Action, Registry
from muster.framework.session import MADE_ROOM, ActionTally, Committed, Session
from muster.snapshot.classes import Division

__all__ = [
    "FITS",
    "MADE_ROOM",
    "NO_CLASS",
    "NO_LIMIT",
    "PROFILES",
    "Action",
    "ActionTally",
    "Arguments",
    "Committed",
    "Departure",
    "Division",
    "Eviction",
    "Evictor",
    "JobVerdict",
    "NodeScores",
    "Plugin",
    "PluginOption",
    "Profile",
    "Protection",
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
    "reason_of",
]
