"""Who answers which extension point, and what every way of asking has in common. Base of the session's parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from muster.framework.plugin import POINTS, Plugin, Rejection
from muster.snapshot import Rows, Snapshot


@dataclass(slots=True)
class Points:
    """Bound methods per extension point, in tier order; `tiers` keeps the tiers apart."""

    flat: dict[str, list[Any]] = field(default_factory=lambda: {point: [] for point in POINTS})
    tiers: dict[str, list[list[Any]]] = field(default_factory=lambda: {point: [] for point in POINTS})

    def drop(self, plugin: Plugin) -> None:
        """Ask a plugin no more. Lists stay the same ones: whoever holds one does without it too."""
        for methods in (*self.flat.values(), *(tier for tiers in self.tiers.values() for tier in tiers)):
            methods[:] = [method for method in methods if method.__self__ is not plugin]


class Questions:
    """Asks plugins about a snapshot."""

    snapshot: Snapshot
    _points: Points

    def blame(self, plugin: str, subject: object) -> None:
        """Count a failure against a plugin, and go on without it if it was one too many."""
        raise NotImplementedError

    def asked(self, point: str) -> list[Callable[..., Any]]:
        """The methods that answer an extension point, in tier order."""
        return self._points.flat[point]

    def _first_rejection(self, point: str, job: int, tasks: Rows) -> Rejection | None:
        for ask in self._points.flat[point]:
            rejection: Rejection | None = ask(job, tasks)
            if rejection is not None:
                return rejection
        return None
