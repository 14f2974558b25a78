"""Who may be evicted for whom, by what plugins say. Part of the session; asked by the eviction strategies."""

from __future__ import annotations

from typing import Any

import numpy as np

from muster.framework.plugin import Departure, Eviction, Rejection, Scenario, ScenarioFilter
from muster.framework.questions import Questions
from muster.framework.reasons import NOBODY_RECLAIMS
from muster.snapshot import Mask, Rows


class VictimQuestions(Questions):
    """Who has to go, and who must not."""

    def preemptable(self, preemptor: int, candidates: Rows) -> Rows:
        """Which candidates a task may evict inside its queue."""
        return self._victims("preemptable", candidates, preemptor)

    def reclaimable(self, reclaimer: int, candidates: Rows) -> Rows:
        """Which candidates a task may evict from other queues."""
        return self._victims("reclaimable", candidates, reclaimer)

    def evictable(self, evictor: int, kind: Eviction, candidates: Rows) -> Rows:
        """Which candidates a job may evict as parts of whole gangs."""
        return self._victims("evictable", candidates, evictor, kind)

    def must_leave(self) -> list[Departure]:
        """Who has to go although nobody takes their place."""
        return [departure for ask in self._points.flat["must_leave"] for departure in ask()]

    # -- the solver's evictions ------------------------------------------------------------------------------

    def can_reclaim(self, job: int, tasks: Rows) -> Rejection | None:
        """Why a job may not take from other queues; None: it may. Without any plugin to say so, nobody may."""
        if not self._points.flat["can_reclaim"]:
            return Rejection(NOBODY_RECLAIMS)
        return self._first_rejection("can_reclaim", job, tasks)

    def filter_victims(self, kind: Eviction, evictor: int, victims: Rows) -> Rows:
        """Which jobs every plugin lets the job `evictor` evict."""
        for ask in self._points.flat["victim_filter"]:
            if len(victims) == 0:
                break
            victims = victims[ask(kind, evictor, victims)]
        return victims

    def start_solution(self, kind: Eviction, job: int) -> None:
        for tell in self._points.flat["solution_start"]:
            tell(kind, job)

    def scenario_filters(self, kind: Eviction, job: int) -> list[ScenarioFilter]:
        return [check for ask in self._points.flat["scenario_filters"] for check in ask(kind, job)]

    def is_valid_scenario(self, scenario: Scenario) -> bool:
        return all(ask(scenario.kind, scenario) for ask in self._points.flat["scenario_validator"])

    def has_steady_victims(self, kind: Eviction) -> bool:
        """Whether many nodes and tasks may be asked about at once; see `Plugin.steady_victims`."""
        tiers = self._points.tiers["preemptable" if kind is Eviction.PREEMPT else "reclaimable"]
        # Steady plugins always have an opinion, so no later tier is ever asked.
        return not tiers or all(method.__self__.steady_victims for method in tiers[0])

    def select_victims(self, evictor: int, domain: int, candidates: Rows) -> Rows | None:
        """The first plugin's own choice of victims; None: nobody makes one."""
        for ask in self._points.flat["select_victims"]:
            chosen: Rows | None = ask(evictor, domain, candidates)
            if chosen is not None:
                return chosen
        return None

    def _victims(self, point: str, candidates: Rows, *evictor: int) -> Rows:
        """Intersect within a tier; the first tier with an opinion decides, also if its opinion is: nobody."""
        for tier in self._points.tiers[point]:
            agreed: Rows | None = None
            for ask in tier:
                answer: Rows | None = ask(*evictor, candidates)
                if answer is not None:
                    agreed = answer if agreed is None else agreed[np.isin(agreed, answer)]
            if agreed is not None:
                return agreed
        return np.empty(0, np.int32)

    def victim_queue_key(self, queue: int, evictor: int) -> tuple[Any, ...]:
        """Order of a queue as a source of victims for the queue `evictor`; smaller is taken from first."""
        return tuple(ask(queue, evictor) for ask in self._points.flat["victim_queue_order"])

    def protected(self, kind: Eviction, evictor: int, jobs: Rows) -> Mask:
        """Which jobs must keep their minimum against the job `evictor`; see `Plugin.protected`."""
        mask: Mask = np.zeros(len(jobs), np.bool_)
        for ask in self._points.flat["protected"]:
            mask |= ask(kind, evictor, jobs)
        return mask
