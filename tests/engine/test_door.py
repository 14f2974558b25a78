"""The door: nobody gives out places beside it, and statements end in one of three ways."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from muster.snapshot import TaskStatus
from tests.engine.stage import job_row, open_session
from tests.snapshot.networks import group, hard, members, racks

#: What puts tasks on nodes; `Statement` has them, and what stands behind the door uses them.
PLACING = frozenset({"fill", "place_batch", "sort_nodes"})


def test_nobody_puts_tasks_on_nodes_but_the_door(repo_root: Path) -> None:
    source = repo_root / "src" / "muster"
    found = [
        f"{path.relative_to(source)}:{node.lineno}"
        for path in source.rglob("*.py")
        if not path.is_relative_to(source / "engine" / "placing") and path != source / "snapshot" / "statement.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (
            node.func.attr in PLACING - {"fill"}
            or (node.func.attr in {"fill", "place"} and ast.unparse(node.func.value).endswith("statement"))
        )
    ]
    assert found == []


def test_a_statement_that_is_left_open_is_an_error() -> None:
    session = open_session([*racks({"s0": [1]}), group("job", 1), *members("job", 1, gpu=8)])
    with pytest.raises(RuntimeError, match="left open"), session.statement("test"):
        pass


def test_an_error_rolls_a_statement_back() -> None:
    session = open_session([*racks({"s0": [1]}), group("job", 1, hard(1)), *members("job", 1, gpu=8)])
    table = session.snapshot.tasks
    tasks = session.snapshot.tasks_of(job_row(session, "job"))

    def go_wrong() -> None:
        with session.statement("test") as statement:
            statement.place(int(tasks[0]), 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_wrong()
    assert table.status[tasks[0]] == TaskStatus.PENDING
    assert session.committed == []


def test_what_is_held_stands_for_the_cycle_and_is_told_to_nobody() -> None:
    session = open_session([*racks({"s0": [1]}), group("job", 1, hard(1)), *members("job", 1, gpu=8)])
    tasks = session.snapshot.tasks_of(job_row(session, "job"))
    with session.statement("test") as statement:
        statement.place(int(tasks[0]), 0)
        statement.hold()
    assert session.snapshot.tasks.status[tasks[0]] == TaskStatus.ALLOCATED
    assert session.committed == []
