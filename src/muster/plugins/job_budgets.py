"""Budgets of jobs: how many pods of a job may be taken away at a time.

The annotation `volcano.sh/jdb-max-unavailable` or `volcano.sh/jdb-min-available` of a PodGroup says it, as a number or
as a percentage of all its pods, rounded up; a job that says nothing gives one pod at a time. A value that makes no
sense lets nobody go, and is logged. Pods that are leaving, waiting or on their way count as not available.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from muster.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from muster.snapshot import JobTable, TaskStatus

log = logging.getLogger(__name__)

#: Pods that a job without a budget gives at a time.
_BY_DEFAULT: Final = 1


def evictions_allowed(jobs: JobTable, job: int) -> int:
    """How many more pods may be taken from the job now."""
    counts = jobs.counts[job]
    running = int(counts[TaskStatus.RUNNING])
    ended = int(counts[TaskStatus.SUCCEEDED] + counts[TaskStatus.FAILED])
    record = jobs.records[job]
    return allowance(record.annotations, record.id, jobs.task_count(job), running, ended)


def allowance(annotations: Mapping[str, str], job: str, total: int, running: int, ended: int) -> int:
    """How many pods a job gives up, of `total` pods of which some run and some have ended."""
    if text := annotations.get(JDB_MIN_AVAILABLE):
        kept = _count(text, total, f"{job} {JDB_MIN_AVAILABLE}")
        return 0 if kept is None else max(0, running - kept)
    if text := annotations.get(JDB_MAX_UNAVAILABLE):
        most = _count(text, total, f"{job} {JDB_MAX_UNAVAILABLE}")
        return 0 if most is None else max(0, most - (total - ended - running))
    return min(_BY_DEFAULT, running)


@lru_cache(maxsize=65536)  # so that a wrong one is logged once
def _count(text: str, total: int, place: str) -> int | None:
    """A number of pods, given as such or as a percentage; None: it is neither."""
    number = text.strip().removesuffix("%")
    if not (number.isascii() and number.isdecimal()):
        log.warning('event=bad-mark job=%s error="expected a number or a percentage such as 30%%, got %r"', place, text)
        return None
    return -(-int(number) * total // 100) if text.strip().endswith("%") else int(number)
