"""Which job a user means: by name, by namespace and name, or by its id.

Called by the commands. A lone pod is a job too; its id is "namespace/pod/name", and it is found by the
pod's name as well.
"""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np

from muster.api import UserError
from muster.snapshot import NO_ROW, Snapshot, TaskStatus


def find_job(snapshot: Snapshot, wanted: str) -> int:
    """Return the row of the job. Raises UserError with close matches, or with all candidates."""
    names = _names(snapshot)
    rows = names.get(wanted, [])
    if len(rows) == 1:
        return rows[0]
    ids = sorted(snapshot.jobs.records[row].id for row in rows)
    if ids:
        raise UserError(f"job {wanted!r} is ambiguous; say which one: {', '.join(ids)}")
    close = sorted(
        {
            snapshot.jobs.records[row].id
            for name in get_close_matches(wanted, sorted(names), n=6, cutoff=0.5)
            for row in names[name]
        }
    )
    if close:
        raise UserError(f"there is no job {wanted!r}; did you mean {_either(close[:5])}?")
    known = sorted(snapshot.jobs.records[int(row)].id for row in np.flatnonzero(snapshot.jobs.live))
    raise UserError(f"there is no job {wanted!r}; {_listed(known)}")


def has_job(snapshot: Snapshot, wanted: str) -> bool:
    """Whether a name means a job, or pods of one."""
    return wanted in _names(snapshot) or bool(find_pods(snapshot, wanted))


def find_pods(snapshot: Snapshot, wanted: str) -> list[int]:
    """Rows of the pods that a name means, if it means pods of one job and no job; else none."""
    if wanted in _names(snapshot):
        return []
    named = [row for row, pod in enumerate(snapshot.tasks.ids) if wanted in (pod, pod.partition("/")[2])]
    rows = [row for row in named if snapshot.tasks.job[row] != NO_ROW and snapshot.tasks.status[row] != TaskStatus.GONE]
    return rows if len({int(snapshot.tasks.job[row]) for row in rows}) == 1 else []


def _names(snapshot: Snapshot) -> dict[str, list[int]]:
    """Every way to name a job, with the rows it may mean; an id means its own job only."""
    jobs = snapshot.jobs
    live = [int(row) for row in np.flatnonzero(jobs.live)]
    names: dict[str, list[int]] = {}
    for row in live:
        record = jobs.records[row]
        for name in sorted({record.name, f"{record.namespace}/{record.name}"}):
            names.setdefault(name, []).append(row)
    return names | {jobs.records[row].id: [row] for row in live}


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _listed(known: list[str]) -> str:
    if not known:
        return "the input holds no job"
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    return f"jobs: {', '.join(known[:10])}{more}"
