"""Policies to compare with: the default profile without evictions, and a plugin that says who goes first, or waits.

They are configurations like any other, in the same engine: places, gangs, queues and the network count as ever.
"""

from __future__ import annotations

from typing import Final

from muster.api import UserError
from muster.framework import SchedulerConfig, find_config, parse_config
from muster.framework.config import DEFAULT_YAML

PREFIX: Final = "policy:"
_TIERS: Final = DEFAULT_YAML.partition("tiers:")[2]
_FIRST: Final = "  - name: priority\n"


def _policy(plugin: str = "", *, actions: str = "allocate, backfill") -> str:
    line = f"  - {plugin}\n" if plugin else ""
    return f'actions: "{actions}"\ntiers:' + _TIERS.replace(_FIRST, _FIRST + line, 1)


def _before_priority(plugin: str, actions: str) -> str:
    return f'actions: "{actions}"\ntiers:' + _TIERS.replace(_FIRST, f"  - {plugin}\n{_FIRST}", 1)


#: By name: what it is, and its configuration.
POLICIES: Final[dict[str, tuple[str, str]]] = {
    "fifo": (
        "in the order of coming; nobody passes one that cannot start",
        _policy("{name: reservation, arguments: {mode: strict}}"),
    ),
    "skip": ("in the order of coming; who fits may pass who does not", _policy()),
    "sjf": ("the shortest first, by known run times; who fits may pass", _policy("{name: shortestfirst}")),
    "srtf": (
        "the one with least left to run first, by known run times; it takes the place of those with more",
        _before_priority(
            "{name: shortestfirst, arguments: {preempt: true}}", "allocate, backfill, gangpreempt, stalegangeviction"
        ),
    ),
    "easy": (
        "in the order of coming, long jobs set back; with a reservation for the first that cannot start",
        _policy("{name: reservation}"),
    ),
    "easy-fcfs": (
        "in the order of coming alone, with a reservation for the first that cannot start",
        _policy("{name: reservation, arguments: {setback: 0}}"),
    ),
    "easy-shortest": (
        "the shortest first, room is reserved for the one overdue for longest: after a day if as large as a node",
        _policy("{name: reservation, arguments: {order: shortest, patience: 24h}}"),
    ),
    "conservative": (
        "as easy, with reservations for the first eight that cannot start",
        _policy("{name: reservation, arguments: {mode: conservative}}"),
    ),
}


def policy_text(name: str) -> str:
    """The configuration of a policy, as a file has it. Raises UserError for a name that is none."""
    known = POLICIES.get(name)
    if known is None:
        raise UserError(f"there is no policy {name!r}; there are {', '.join(POLICIES)}")
    return known[1]


def find_policy(given: str) -> SchedulerConfig:
    """Read `policy:NAME`, or whatever else names a configuration. Raises UserError."""
    if given.startswith(PREFIX):
        return parse_config(policy_text(given.removeprefix(PREFIX)), given)
    return find_config(given)
