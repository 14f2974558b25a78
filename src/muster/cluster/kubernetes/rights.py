"""What a scheduler may read of a kind, as the server's answers show it: what to do when it may not, and whom to tell.

Pods and nodes are what scheduling is about, and a NodeShard that somebody asked for: without them there is an error
that says which right is missing. Any other kind is left out with one line in the log and asked for again, less and
less often, until the right is given. A right may come a moment late, when account and role have just been made, so
nothing is said before a few seconds have passed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from muster.api import BackendError
from muster.cluster.kubernetes.backoff import Backoff
from muster.cluster.kubernetes.client import ApiError
from muster.cluster.kubernetes.resources import REQUIRED, Resource

log = logging.getLogger("muster.kubernetes")

#: Seconds that a right has to come.
_PATIENCE_SECONDS: Final = 3.0
#: Seconds between attempts afterwards, at first and in the long run.
_AGAIN_SECONDS: Final = 4.0
_AT_LAST_SECONDS: Final = 60.0


class Rights:
    """Those on one kind."""

    def __init__(self, resource: Resource, clock: Callable[[], float]) -> None:
        self._resource = resource
        self._clock = clock
        self._since: float | None = None
        #: The verb that was refused for longer than patience, "" if none is.
        self._told = ""
        self._soon, self._later = _waits()

    @property
    def is_left_out(self) -> bool:
        """Whether nothing can be read, and scheduling goes on without."""
        return self._told == "list" and self._resource.type not in REQUIRED

    def refuse(self, verb: str, fault: ApiError, *, is_start: bool) -> float:
        """Take in a refusal; return how long to wait. Raises BackendError for what nothing can start without."""
        now = self._clock()
        if self._since is None:
            self._since = now
        if not self._told and now - self._since < _PATIENCE_SECONDS:
            return self._soon.next_s()
        if is_start and self._resource.type in REQUIRED:
            raise BackendError(missing_right(verb, self._resource, fault), retryable=False)
        if self._told != verb:
            self._told = verb
            what = "read again now and then" if verb == "watch" else "left out"
            log.warning(
                "event=right-missing verb=%s resource=%s effect=%r error=%r",
                verb,
                self._resource.name,
                what,
                str(fault),
            )
        return self._later.next_s()

    def grant(self) -> None:
        """Take in that everything works."""
        if self._since is None:
            return
        if self._told:
            log.info("event=right-given resource=%s", self._resource.name)
        self._since, self._told = None, ""
        self._soon, self._later = _waits()


def missing_right(verb: str, resource: Resource, fault: ApiError) -> str:
    """What may not be done, and what would be right."""
    needed = f"list and watch {resource.name} everywhere, as the ClusterRole of deploy/ says"
    return f"may not {verb} {resource.name}: the scheduler's account has to be allowed to {needed} ({fault})"


def _waits() -> tuple[Backoff, Backoff]:
    return Backoff(0.2, 1.0), Backoff(_AGAIN_SECONDS, _AT_LAST_SECONDS)
