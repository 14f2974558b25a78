"""Who may be placed at all: asked once for as long as nothing changes, and again when something does."""

from __future__ import annotations

from muster.engine.waiting import placeable_jobs, schedulable_tasks
from muster.framework import default_config
from muster.testing import node, pod, pod_group, queue
from tests.engine.stage import job_row, open_session


def test_a_job_that_was_put_aside_meanwhile_is_not_placed_by_later_actions() -> None:
    names = ("a", "b")
    groups = [pod_group(name) for name in names]
    pods = [pod(f"{name}-0", group=name, cpu="1") for name in names]
    objects = [queue("default"), node("n", cpu="8"), *groups, *pods]
    session = open_session(objects, default_config())
    tasks = schedulable_tasks(session)
    a, b = (job_row(session, name) for name in names)
    assert set(placeable_jobs(session, tasks, tell=True)) == {a, b}
    assert set(placeable_jobs(session, tasks[:])) == {a, b}, "nothing has changed"
    session.snapshot.jobs.aside[a] = "a plugin failed on it"
    assert set(placeable_jobs(session, tasks[:].copy())) == {b}
