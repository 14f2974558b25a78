"""Reclaim: let queues that have less than they deserve take it back from queues that have more."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from muster.actions.eviction_arguments import EvictionArguments
from muster.framework import Action, Arguments, Eviction, Session


class ReclaimArguments(EvictionArguments, frozen=True, kw_only=True):
    """Arguments of the reclaim action."""

    gang_aware_dotted: Annotated[bool, msgspec.Meta(description="The same as gangAwareEnable.")] = msgspec.field(
        default=False, name="reclaim.gangAwareEnable"
    )

    @property
    def dotted(self) -> bool:
        return self.gang_aware_dotted


class Reclaim(Action):
    """Go through queues in order; each one that has not had its share serves its jobs in need from other queues."""

    name: ClassVar[str] = "reclaim"
    summary: ClassVar[str] = "Let queues below their share take it back from queues that have more than theirs."
    Args: ClassVar[type[Arguments]] = ReclaimArguments
    read_arguments = ReclaimArguments.read_arguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, ReclaimArguments)
        self.arguments.evict(session, Eviction.RECLAIM, self.name)
