"""What starts before what: tasks of a Job and Jobs of a JobFlow must leave an order.

Of two flows with one name the later counts, as in Volcano.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from muster.admission.documents import read
from muster.admission.request import Findings, Known, Request, Settings
from muster.api import Problem
from muster.api.errors import Problems
from muster.api.objects.batch import JobFlow, JobTask

_NO_ORDER_OF_TASKS: Final = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
_NO_ORDER_OF_JOBS: Final = "jobflow Flow is not DAG"


def in_order(needs: Mapping[str, Collection[str]]) -> list[str] | None:
    """Return the names, each after those it needs and otherwise as listed; None when there is no such order."""
    missing = {name: len(set(needed)) for name, needed in needs.items()}
    place = {name: index for index, name in enumerate(needs)}
    followers: dict[str, list[str]] = {}
    for name, needed in needs.items():
        for each in set(needed):
            followers.setdefault(each, []).append(name)
    order: list[str] = []
    free = [name for name, count in missing.items() if not count]
    while free:
        order += free
        freed = []
        for name in free:
            for follower in followers.get(name, ()):
                missing[follower] -= 1
                if not missing[follower]:
                    freed.append(follower)
        free = sorted(freed, key=place.__getitem__)
    return order if len(order) == len(needs) else None


def start_order(tasks: Sequence[JobTask]) -> list[str] | None:
    """Return the tasks' names, each after those it depends on; None when there is no such order."""
    return in_order({task.name: task.depends_on.name if task.depends_on else () for task in tasks})


def dependency_problems(tasks: Sequence[JobTask]) -> Problems:
    """Find tasks that wait for one that is not there, and tasks that wait for each other."""
    names = {task.name for task in tasks}
    unknown = False
    for index, task in enumerate(tasks):
        for needed in task.depends_on.name if task.depends_on else ():
            if needed not in names:
                unknown = True
                text = f'expected the name of a task of this job, got "{needed}"'
                yield Problem(f"spec.tasks[{index}].dependsOn.name", text, _NO_ORDER_OF_TASKS)
    if not unknown and start_order(tasks) is None:
        text = "expected dependsOn to leave an order to start in, got tasks that wait for each other"
        yield Problem("spec.tasks", text, _NO_ORDER_OF_TASKS)


def validate_job_flow(request: Request, known: Known, settings: Settings) -> Findings:
    """Find flows that wait for one that is not there, and flows that wait for each other."""
    del known, settings
    flows = read(request.document, JobFlow).spec.flows
    places = {flow.name: index for index, flow in enumerate(flows)}
    needs = {flow.name: flow.depends_on.targets if flow.depends_on else () for flow in flows}
    unknown = [(name, target) for name, targets in needs.items() for target in targets if target not in places]
    for name, target in unknown:
        text = f'expected the name of a flow of this JobFlow, got "{target}"'
        known_as = f"{_NO_ORDER_OF_JOBS}: vertex is not defined: {target}"
        yield Problem(f"spec.flows[{places[name]}].dependsOn.targets", text, known_as)
    if not unknown and in_order(needs) is None:
        text = "expected dependsOn to leave an order to start in, got flows that wait for each other"
        yield Problem("spec.flows", text, _NO_ORDER_OF_JOBS)
