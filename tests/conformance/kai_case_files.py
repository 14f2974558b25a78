"""Small hand-made cases in the form of KAI's recorded ones, and actions that do one simple thing."""

from typing import Any

from muster.actions.allocate import AllocateArguments
from muster.framework import Action, Registry, Session
from muster.kernels.placement import FUTURE, IDLE
from muster.scheduler import builtin_registry
from muster.snapshot import TaskStatus

Body = dict[str, Any]
NO_END = {"deserved": -1, "limit": -1, "overQuotaWeight": 1}
GIGABYTE = 1_000_000_000


def kai_node(name: str, gpus: int = 2, **more: Any) -> Body:
    return {"name": name, "gpus": gpus, "cpu": 32, "memory": 64 * GIGABYTE, "pods": 110, "gpuMemory": 100, **more}


def kai_queue(name: str, parent: str = "", gpus: int = -1, **more: Any) -> Body:
    share = {"deserved": gpus, "limit": -1, "overQuotaWeight": 1}
    where = {"parent": parent} if parent else {"department": True}
    queue = {"name": name, "priority": 100, "createdOrder": 0, "gpu": share, "cpu": NO_END, "memory": NO_END}
    return {**queue, **where, **more}


def kai_task(name: str, state: str = "Pending", node: str = "", gpu: int = 1, **more: Any) -> Body:
    place = {"node": node} if node else {}
    return {"name": name, "state": state, "resources": {"cpu": 1, "memory": GIGABYTE, "gpu": gpu}, **place, **more}


def kai_job(name: str, *tasks: Body, priority: int = 50, **more: Any) -> Body:
    job = {"name": name, "queue": "team", "priority": priority, "preemptible": priority < 100, "ageMinutes": 5}
    return {**job, "minAvailable": len(tasks), "tasks": list(tasks), **more}


def kai_case(*jobs: Body, expect: Body | None = None, **more: Any) -> Body:
    """Two nodes of two GPUs, one team in one department, and an action called allocate."""
    case: Body = {
        "id": "area/Test/0",
        "tags": ["single-action", "whole-gpu"],
        "actions": ["allocate"],
        "nodes": [kai_node("n1"), kai_node("n2")],
        "queues": [kai_queue("all"), kai_queue("team", "all")],
        "jobs": list(jobs),
        "expect": expect or {},
    }
    return {**case, **more}


class PlaceEverything(Action):
    """Puts every pending task on the second node, at once."""

    name = "allocate"
    Args = AllocateArguments
    mode = IDLE

    def run(self, session: Session) -> None:
        statement = session.statement(self.name)
        for task in session.snapshot.pending_tasks().tolist():
            statement.place(task, 1, self.mode)
        statement.commit()


class PromiseEverything(PlaceEverything):
    """Promises every pending task a place on the second node."""

    mode = FUTURE


class EvictEverything(Action):
    """Evicts every running task."""

    name = "allocate"
    Args = AllocateArguments

    def run(self, session: Session) -> None:
        statement = session.statement(self.name)
        table = session.snapshot.tasks
        statement.evict((table.status == TaskStatus.RUNNING).nonzero()[0])
        statement.commit()


def registry_with(action: type[Action]) -> Registry:
    """What Muster ships, with another action in the place of allocate."""
    registry = builtin_registry(third_party=False)
    registry.actions[action.name] = action
    return registry
