"""Extension points, sessions, tiers, the registry, reason codes and configuration."""

from muster.framework.config import (
    PluginOption,
    SchedulerConfig,
    Sharding,
    default_config,
    load_config,
    parse_config,
)
from muster.framework.plugin import Arguments, Eviction, NodeScores, Plugin, Purpose, Rejection, Vote
from muster.framework.reasons import FITS, Reason, Verdicts, all_reasons, reason, reason_number
from muster.framework.registry import Action, Registry
from muster.framework.session import Committed, Session
from muster.framework.verdicts import JobVerdict, VerdictCache

__all__ = [
    "FITS",
    "Action",
    "Arguments",
    "Committed",
    "Eviction",
    "JobVerdict",
    "NodeScores",
    "Plugin",
    "PluginOption",
    "Purpose",
    "Reason",
    "Registry",
    "Rejection",
    "SchedulerConfig",
    "Session",
    "Sharding",
    "VerdictCache",
    "Verdicts",
    "Vote",
    "all_reasons",
    "default_config",
    "load_config",
    "parse_config",
    "reason",
    "reason_number",
]
