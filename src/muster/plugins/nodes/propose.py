"""Propose: have the domain tried first that a look-ahead expects to win, and spare the other trials if it fits."""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.look_ahead import propose
from muster.framework.plugin import Plugin
from muster.snapshot import NO_ROW, Rows


class Propose(Plugin):
    """Predict the best domain for jobs with sub-groups; see `muster.engine.look_ahead`."""

    name = "propose"
    summary = "Tries the network domain first that a look-ahead expects to suit a job with sub-groups best."

    def domain_gradients(self, job: int, subgroup: int, scope: int) -> Sequence[Rows] | None:
        return propose(self.session, job, scope) if subgroup == NO_ROW else None
