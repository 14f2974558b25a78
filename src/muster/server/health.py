"""Whether the service does its work, and whether a new start would help: what probes are told.

Work is done when cycles succeed, the watches are current, and no waiting pod is left undecided for long. A replica that
does not lead decides nothing, but keeps its picture current. Trouble that may pass makes it not ready; trouble that has
lasted, unhealthy, so that it is started anew. A leader whose cycles keep failing gives the lease up: another replica
may do better, with a picture of its own. Written by the service's thread, read by that of the probes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Failed cycles in a row after which we are not ready, and after which the lease is given up.
UNREADY_AFTER: Final = 3
GIVE_UP_AFTER: Final = 10
#: A loop that has not come round for this long is stuck.
_STUCK_S: Final = 120.0
#: How long watches may be silent, or pods undecided, until we are not ready and not healthy.
_UNREADY_S: Final = 120.0
_UNHEALTHY_S: Final = 600.0

#: As `LiveCluster.trouble`.
Trouble = Callable[[float], str]


class Health:
    """What has worked lately."""

    def __init__(self, trouble: Trouble, clock: Callable[[], float] = time.monotonic) -> None:
        self._trouble = trouble
        self._clock = clock
        self._is_up = False
        self._beat = clock()
        #: Since when pods may wait for a decision that no cycle has made; None: all that were seen are decided.
        self._undecided_since: float | None = None
        self.n_failed = 0
        self._fault = ""
        #: Set once so many cycles have failed that another replica should lead; only a cycle that succeeds ends it.
        self._has_given_up = False

    def start(self) -> None:
        """The cluster has been read."""
        self._is_up = True
        self._beat = self._clock()

    def stop(self) -> None:
        self._is_up = False

    def begin(self, *, leads: bool) -> None:
        """The loop comes round; a leader is about to decide."""
        self._beat = self._clock()
        if not leads:
            self._undecided_since = None
        elif self._undecided_since is None:
            self._undecided_since = self._beat

    def succeed(self) -> None:
        """A cycle has looked at every pod; or, in a replica that does not lead, at every event."""
        self.n_failed, self._fault = 0, ""
        self._undecided_since = None

    def recover(self) -> None:
        """A cycle of a leader has succeeded."""
        self.succeed()
        self._has_given_up = False

    def fail(self, fault: str) -> bool:
        """Take in that a cycle, or a look, failed; True when it is time to let another replica lead."""
        self.n_failed += 1
        self._fault = fault
        if self.n_failed < GIVE_UP_AFTER:
            return False
        self.n_failed = 0  # as many attempts again, should nobody else take over
        self._has_given_up = True
        return True

    def undecided_s(self) -> float:
        """The longest that a pod can have waited for a decision."""
        since = self._undecided_since
        return 0.0 if since is None else self._clock() - since

    def unhealthy(self) -> str:
        """Why a new start would help; "" while it would not."""
        if not self._is_up:
            return ""
        silent = self._clock() - self._beat
        if silent > _STUCK_S:
            return f"no cycle for {silent:.0f} s"
        if self._has_given_up:
            return f"{GIVE_UP_AFTER} cycles in a row have failed: {self._fault}"
        return self._overdue(_UNHEALTHY_S)

    def unready(self) -> str:
        """Why the service does not do its work; "" while it does."""
        if not self._is_up:
            return "the cluster has not been read yet"
        if self.n_failed >= UNREADY_AFTER:
            return f"{self.n_failed} cycles in a row have failed: {self._fault}"
        return self.unhealthy() or self._overdue(_UNREADY_S)

    def _overdue(self, limit_s: float) -> str:
        undecided = self.undecided_s()
        if undecided > limit_s:
            return f"pods have waited {undecided:.0f} s for a decision"
        return self._trouble(limit_s)
