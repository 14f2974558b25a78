"""Victims as units that are charged to their queue: each task beyond a pod set's minimum alone, the rest as one.

As many victims of a pod set as its minimum, the first ones, stand for its core, and the cores of a job are one unit,
the last. So a gang is never half charged, and an elastic job pays task by task. Callers: the plugin's validators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.engine.evictions.surplus import spare_tasks
from muster.engine.gangs import beyond_roles, pod_sets
from muster.snapshot import NO_ROW, Rows, Snapshot


def victim_units(snapshot: Snapshot, victims: Rows) -> Iterator[tuple[int, list[list[int]]]]:
    """Yield the jobs of victims, in the order in which they come first, with the units of each."""
    by_job: dict[int, list[int]] = {}
    for task, job in zip(victims.tolist(), snapshot.tasks.job[victims].tolist(), strict=True):
        by_job.setdefault(job, []).append(task)
    for job, tasks in by_job.items():
        yield job, _units(snapshot, job, tasks)


def gang_units(snapshot: Snapshot, victims: Rows) -> list[tuple[int, list[int]]]:
    """Units of victims in the order given: each that its gang can spare alone, the rest of a gang as one."""
    spare = spare_tasks(snapshot, victims)
    cores: dict[int, list[int]] = {}
    units: list[tuple[int, list[int]]] = []
    owners = snapshot.tasks.job[victims].tolist()
    for task, job, is_spare in zip(victims.tolist(), owners, spare.tolist(), strict=True):
        if is_spare:
            units.append((job, [task]))
        elif job in cores:
            cores[job].append(task)
        else:
            cores[job] = [task]
            units.append((job, cores[job]))
    return units


def _units(snapshot: Snapshot, job: int, tasks: Sequence[int]) -> list[list[int]]:
    if len(tasks) == 1:
        return [list(tasks)]
    minimums = {pods.role: pods.minimum for pods in pod_sets(snapshot, job)}
    whole = NO_ROW in minimums
    extra = 0 if whole else beyond_roles(snapshot, job)
    core: list[int] = []
    units: list[list[int]] = []
    seen: dict[int, int] = {}
    for task in tasks:
        role = NO_ROW if whole else int(snapshot.tasks.role[task])
        seen[role] = seen.get(role, 0) + 1
        if seen[role] <= minimums.get(role, 0):
            core.append(task)
        elif extra > 0:
            extra -= 1
            core.append(task)
        else:
            units.append([task])
    return [*units, core] if core else units
