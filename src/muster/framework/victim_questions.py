"""Who may be evicted for whom, by what plugins say. Part of the session; asked by the eviction strategies.

A plugin that fails here protects: where it cannot be asked, and for as long as it has lost its place, nobody goes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from muster.framework import points
from muster.framework.faults import blamed
from muster.framework.plugin import Departure, Eviction, Evictor, Plugin, Rejection, Scenario, ScenarioFilter
from muster.framework.questions import Ask, Asking
from muster.framework.reasons import NOBODY_RECLAIMS
from muster.snapshot import Mask, Rows

log = logging.getLogger("muster.framework")

T = TypeVar("T")


def protects(plugin: type[Plugin]) -> bool:
    """Whether a plugin has a say in who may not be evicted."""
    return any(point.is_implemented(plugin) for point in points.PROTECTING)


class VictimQuestions(Asking):
    """Who has to go, and who must not."""

    #: By kind: the plugins' opinions on victims chosen task by task, tier by tier.
    opinions_on: Callable[[Eviction], list[list[Ask]]]
    #: True: a plugin with a say in who may not be evicted cannot be asked, so nobody may be.
    protects_all: bool

    #: Counts a failure against a plugin, and goes on without it if it was one too many: plugin, and what it was about.
    blame: Callable[[str, object], None]

    def _ask(self, ask: Callable[..., T], *about: object, otherwise: T) -> T:
        """Ask one plugin; its failure is noted, and the cautious answer taken."""
        try:
            return ask(*about)
        except Exception as error:
            plugin, asked = blamed(error)
            log.exception("event=protection-failed plugin=%s asked=%s", plugin, asked)
            self.blame(plugin, None)
            return otherwise

    def may_go(self, kind: Eviction, evictor: Evictor, candidates: Rows, kept: dict[str, Rows] | None = None) -> Rows:
        """Which candidates nobody protects, whatever tier he stands in; see `Plugin.protects`.

        `kept` is told, by plugin, whom it keeps of those whom the plugins before it let go.
        """
        nobody: Rows | None = candidates[:0]
        if self.protects_all:
            candidates = candidates[:0]
        for ask in list(self.methods(points.EVICTABLE)):
            if len(candidates) and ask.__self__.protects:
                answer = self._ask(ask, kind, evictor, candidates, otherwise=nobody)
                if answer is not None and len(answer) < len(candidates):
                    goes = np.isin(candidates, answer)
                    if kept is not None:
                        kept[ask.__self__.name] = candidates[~goes]
                    candidates = candidates[goes]
        return candidates

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows:
        """Which candidates may go, and by the opinion that counts should.

        Opinions intersect within a tier; the first tier with one decides, also if its opinion is: nobody.
        """
        candidates = self.may_go(kind, evictor, candidates)
        if len(candidates) == 0:
            return candidates
        tiers = self.tiers(points.EVICTABLE) if evictor.breaks_gangs else self.opinions_on(kind)
        nobody: Rows | None = candidates[:0]
        for tier in tiers:
            agreed = points.EVICTABLE.rule.combine(
                self._ask(ask, kind, evictor, candidates, otherwise=nobody) for ask in list(tier)
            )
            if agreed is not None:
                return agreed[np.isin(agreed, candidates)]
        return candidates[:0]

    def tell_tasks(self, tasks: Rows, nodes: Rows, added: bool) -> None:  # noqa: FBT001 - as statements tell it
        """Tell plugins with books of their own what a statement does and undoes."""
        for ask in list(self.asked(points.TASKS_ADDED if added else points.TASKS_REMOVED)):
            self._ask(ask, tasks, nodes, otherwise=None)

    def must_leave(self) -> list[Departure]:
        """Who has to go although nobody takes their place."""
        nobody: list[Departure] = []
        return [departure for ask in self.asked(points.MUST_LEAVE) for departure in self._ask(ask, otherwise=nobody)]

    # -- the solver's evictions ------------------------------------------------------------------------------

    def can_reclaim(self, job: int, tasks: Rows) -> Rejection | None:
        """Why a job may not take from other queues; None: it may. Without any plugin to say so, nobody may."""
        if not self.asked(points.CAN_RECLAIM):
            return Rejection(NOBODY_RECLAIMS)
        return self._ask_often(points.CAN_RECLAIM, job, tasks)

    def start_solution(self, kind: Eviction, job: int) -> None:
        self.ask(points.SOLUTION_START, kind, job)

    def scenario_filters(self, kind: Eviction, job: int) -> list[ScenarioFilter]:
        return self.ask(points.SCENARIO_FILTERS, kind, job)

    def is_valid_scenario(self, scenario: Scenario) -> bool:
        asked = self.asked(points.SCENARIO_VALIDATOR)
        return not self.protects_all and all(self._ask(ask, scenario.kind, scenario, otherwise=False) for ask in asked)

    def has_steady_victims(self, kind: Eviction) -> bool:
        """Whether many nodes and tasks may be asked about at once; see `Plugin.steady_victims`."""
        protecting = [ask for ask in self.methods(points.EVICTABLE) if ask.__self__.protects]
        # Steady plugins always have an opinion, so no later tier is ever asked.
        deciding = self.opinions_on(kind)[:1]
        return all(ask.__self__.steady_victims for asked in (protecting, *deciding) for ask in asked)

    def select_victims(self, evictor: Evictor, domain: int, candidates: Rows) -> Rows | None:
        """The first plugin's own choice of victims; None: nobody makes one."""
        return self.ask(points.SELECT_VICTIMS, evictor, domain, candidates)

    def victim_queue_key(self, queue: int, evictor: int) -> tuple[Any, ...]:
        """Order of a queue as a source of victims for the queue `evictor`; smaller is taken from first."""
        return self.ask(points.VICTIM_QUEUE_ORDER, queue, evictor)

    def protected(self, kind: Eviction, evictor: int, jobs: Rows) -> Mask:
        """Which jobs must keep their minimum against the job `evictor`; see `Plugin.protected`."""
        mask: Mask = np.full(len(jobs), self.protects_all)
        everybody: Mask = np.ones(len(jobs), np.bool_)
        for ask in self.asked(points.PROTECTED):
            mask |= self._ask(ask, kind, evictor, jobs, otherwise=everybody)
        return mask
