"""Which tasks of a Job start before which: `dependsOn` must leave an order."""

from __future__ import annotations

from collections.abc import Sequence

from muster.api import Problem
from muster.api.batch import JobTask
from muster.api.problems import Problems


def start_order(tasks: Sequence[JobTask]) -> list[str] | None:
    """Return the tasks' names, each after those it depends on; None when there is no such order."""
    waiting = {task.name: set(task.depends_on.name if task.depends_on else ()) for task in tasks}
    order: list[str] = []
    while waiting:
        free = [name for name, needs in waiting.items() if needs <= set(order)]
        if not free:
            return None
        order += free
        for name in free:
            del waiting[name]
    return order


def dependency_problems(tasks: Sequence[JobTask]) -> Problems:
    """Find tasks that wait for one that is not there, and tasks that wait for each other."""
    names = {task.name for task in tasks}
    unknown = False
    for index, task in enumerate(tasks):
        for needed in task.depends_on.name if task.depends_on else ():
            if needed not in names:
                unknown = True
                text = f'expected the name of a task of this job, got "{needed}"'
                yield Problem(f"spec.tasks[{index}].dependsOn.name", text)
    if not unknown and start_order(tasks) is None:
        yield Problem(
            "spec.tasks", "expected dependsOn to leave an order to start in, got tasks that wait for each other"
        )
