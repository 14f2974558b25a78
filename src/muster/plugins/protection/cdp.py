"""Cooldown protection: a pod that has just started is not evicted for a while.

The label or annotation `volcano.sh/cooldown-time` of a pod says for how long ("600s"). It counts from the moment when
the pod got its node, and only while the pod runs. A time that cannot be read protects nothing, as in Volcano, and is
logged. A gang with such a pod does not go whole: it gives what it can spare of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from muster.api import Pod, parse_duration
from muster.api.names import COOLDOWN_TIME
from muster.api.objects.pod import began_at
from muster.framework.plugin import Eviction, Evictor, Plugin
from muster.snapshot import Mask, Rows, TaskStatus

log = logging.getLogger(__name__)


class Cdp(Plugin):
    """Keep pods that started a short while ago out of the candidates of every eviction."""

    name = "cdp"
    summary = "Never evict a pod within its volcano.sh/cooldown-time after it started."
    protects = True
    steady_victims = True

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        victims: Rows = candidates[~self._cooling[candidates]]
        return victims

    @cached_property
    def _cooling(self) -> Mask:
        """Running tasks whose time is not over. Made when the first eviction is looked for, and for all tasks."""
        tasks = self.session.snapshot.tasks
        ends: NDArray[np.float64] = np.full(len(tasks), -np.inf)
        for task in np.flatnonzero(tasks.status == TaskStatus.RUNNING).tolist():
            ends[task] = protected_until(tasks.pods[task])
        cooling: Mask = ends > self.session.now
        if cooling.any():
            self.session.look_again(float(ends[cooling].min()))
        return cooling


def protected_until(pod: Pod) -> float:
    """When the protection of a running pod ends, seconds since the epoch; -inf: it has none."""
    meta = pod.metadata
    cooldown = cooldown_time(meta.labels, meta.annotations, pod.key)
    began = None if cooldown is None else began_at(pod)
    return -np.inf if cooldown is None or began is None else began + cooldown


def cooldown_time(labels: Mapping[str, str], annotations: Mapping[str, str], pod: str) -> float | None:
    """The cooldown time of a pod in seconds; None: it has none, or none that can be read."""
    text = labels.get(COOLDOWN_TIME, annotations.get(COOLDOWN_TIME))
    return None if text is None else _read(text, pod)


@lru_cache(maxsize=65536)  # so that a wrong one is logged once
def _read(text: str, pod: str) -> float | None:
    try:
        return parse_duration(text)
    except ValueError as error:
        log.warning("event=bad-mark pod=%s mark=%s error=%r", pod, COOLDOWN_TIME, str(error))
        return None
