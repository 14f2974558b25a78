"""What queues say about node groups: which they use or avoid, and how much of each they may hold.

Read by the plugin `nodegroup`. A group that a queue requires or prefers is open to it, one that it must avoid is not,
and one that it would rather avoid is open but worth less than any other; a group that is not named is closed. These are
Volcano's rules: a queue that names only groups to avoid has none left.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from muster.api import Quantity, Queue, to_base
from muster.api.names import NODE_GROUP_LIMITS
from muster.snapshot.records import QueueRecord

log = logging.getLogger(__name__)

_FULL: Final = 100.0
_DISLIKED: Final = -1.0
_EXAMPLE: Final = '{"group1": {"cpu": "8", "memory": "32Gi"}}'

#: By group and resource, in base units.
Limits = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """The node groups of a queue."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    #: Must be avoided; should be.
    barred: tuple[str, ...] = ()
    disliked: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it names no group at all."""
        return not (self.required or self.preferred or self.barred or self.disliked)

    def admits(self, group: str) -> bool:
        """May pods of the queue go to nodes of the group?"""
        if group in self.disliked:
            return True
        return group in (*self.required, *self.preferred) and group not in self.barred

    def score(self, group: str, *, in_order: bool) -> float:
        """How good nodes of the group are; `in_order`: of the preferred groups the first is the best."""
        if group in self.disliked:
            return _DISLIKED
        score = _FULL if group in self.required else 0.0
        if group in self.preferred:
            better = self.preferred.index(group) / len(self.preferred) if in_order else 0.0
            score += _FULL / 2 * (1.0 - better)
        return score


def policy_of(record: QueueRecord) -> GroupPolicy | None:
    """What a queue says itself; None: nothing."""
    source = record.source
    if not isinstance(source, Queue) or source.spec.affinity is None:
        return None
    likes, dislikes = source.spec.affinity.node_group_affinity, source.spec.affinity.node_group_anti_affinity
    return GroupPolicy(
        required=tuple(likes.required) if likes else (),
        preferred=tuple(likes.preferred) if likes else (),
        barred=tuple(dislikes.required) if dislikes else (),
        disliked=tuple(dislikes.preferred) if dislikes else (),
    )


def limits_of(record: QueueRecord) -> Limits | None:
    """How much of each group a queue may hold; None: what it says cannot be read, so it may hold nothing."""
    return _read_limits(record.annotations.get(NODE_GROUP_LIMITS, ""), record.name)


@lru_cache(maxsize=4096)  # so that a wrong one is logged once
def _read_limits(text: str, queue: str) -> Limits | None:
    try:
        return _parse_limits(text) if text else {}
    except ValueError as error:
        log.warning("event=bad-mark queue=%s mark=%s error=%r", queue, NODE_GROUP_LIMITS, str(error))
        return None


def _parse_limits(text: str) -> Limits:
    try:
        groups = _mapping(json.loads(text), "")
    except json.JSONDecodeError as error:
        raise ValueError(f"expected JSON such as {_EXAMPLE}: {error}") from error
    return {
        group: {name: _amount(name, amount, f"{group}.{name}") for name, amount in _mapping(amounts, group).items()}
        for group, amounts in groups.items()
    }


def _mapping(value: object, place: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    where = f"{place}: " if place else ""
    raise ValueError(f"{where}expected amounts by node group and resource, such as {_EXAMPLE}, got {value!r}")


def _amount(resource: str, value: object, place: str) -> int:
    try:
        return to_base(resource, Quantity(str(value)))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
