"""Jobs that another scheduler places and Muster does not, without anybody of their rank having taken the place.

For random cases, where exact agreement is not the point: a job may wait for one that matters as much, not for
nothing. Called by tests over the recorded cases.
"""

from __future__ import annotations

from conformance.cases import Body
from conformance.results import Value
from conformance.scheduling import Cycle


def left_behind(expected: Body, got: Value, cycle: Cycle) -> list[str]:
    """Name the jobs that `expected` places and `got` leaves waiting, while no job of their priority or above gains.

    Both map a job to how many of its pods are bound and pipelined.
    """
    jobs = cycle.session.snapshot.jobs
    priority = {name: int(jobs.priority[row]) for name, row in jobs.index.items()}
    gained = [name for name in got if _placed(got[name]) > _placed(expected.get(name, {}))]
    best = max((priority[name] for name in gained), default=None)
    return sorted(
        name
        for name, counts in expected.items()
        if _placed(counts) and not _placed(got.get(name, {})) and (best is None or best < priority[name])
    )


def _placed(counts: Body) -> int:
    return int(counts.get("bound", 0)) + int(counts.get("pipelined", 0))
