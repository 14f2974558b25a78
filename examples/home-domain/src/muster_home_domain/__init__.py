"""A gang that names its home domain evicts there and nowhere else, and has it to itself."""

from __future__ import annotations

import numpy as np

from muster.framework import Evictor, Plugin, Purpose
from muster.snapshot import Rows

HOME = "example.com/home-domain"


class HomeDomain(Plugin):
    """Replaces the choice of the domain, and the choice of victims in it."""

    name = "home-domain"
    summary = "Gangs that name a home domain make room there, and clear it."

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        home = self.session.snapshot.jobs.records[job].annotations.get(HOME, "")
        domain = self.session.snapshot.topology.index.get(home)
        return None if purpose is not Purpose.EVICT or domain is None else np.array([domain], np.intp)

    def select_victims(self, evictor: Evictor, domain: int, candidates: Rows) -> Rows | None:
        has_home = HOME in self.session.snapshot.jobs.records[evictor.job].annotations
        return candidates if has_home else None
