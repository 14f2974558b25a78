"""Many jobs asked about at once are ordered as each of them alone."""

from __future__ import annotations

import numpy as np
import pytest

from muster.framework import SchedulerConfig, Session
from muster.framework.config import parse_config
from muster.snapshot import Pieces
from tests.engine.evictions.solver.solver_stage import gang, kai, kai_queue, nodes, open_session

WITHOUT_BULK_KEYS = "actions: reclaim\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n"


def stage(config: SchedulerConfig) -> Session:
    return open_session(
        [
            kai_queue("q"),
            *nodes(2, gpu=8),
            *gang("surplus", on=["n0", "n0", "n1"], minimum=1),
            *gang("urgent", on=["n1"], priority="high", created=5),
            *gang("old", on=["n1"], created=1),
            *gang("roles", sets={"b": (1, ["n0"], 0), "a": (1, ["n0", "n1"], 0)}),
        ],
        config,
    )


@pytest.mark.parametrize("config", [kai("reclaim"), parse_config(WITHOUT_BULK_KEYS, "test")], ids=["kai", "one by one"])
def test_many_jobs_are_sorted_by_the_key_of_each(config: SchedulerConfig) -> None:
    session = stage(config)
    jobs = np.flatnonzero(session.snapshot.jobs.live).astype(np.intp)
    left = {job: session.snapshot.tasks_of(job) for job in jobs.tolist()}
    expected = sorted(left, key=lambda job: session.victim_key(job, left[job]))
    bounds = np.cumsum([0, *(len(rows) for rows in left.values())]).astype(np.intp)
    pieces = Pieces(np.concatenate(list(left.values())), bounds)
    assert expected not in (sorted(expected), sorted(expected, reverse=True))
    assert session.sort_victims(jobs, pieces).tolist() == expected
    assert session.sort_victims(jobs[:0], Pieces(pieces.rows, bounds[:1])).tolist() == []


def test_tasks_are_ordered_by_job_and_then_as_the_job_alone_orders_them() -> None:
    session = stage(kai("reclaim"))
    tasks = np.arange(len(session.snapshot.tasks), dtype=np.intp)[::-1]
    expected = [
        task
        for job in sorted(set(session.snapshot.tasks.job.tolist()))
        for task in session.sort_tasks(session.snapshot.tasks_of(job)).tolist()
    ]
    assert session.sort_tasks(tasks).tolist() == expected
    assert session.sort_tasks(tasks[:0]).tolist() == []
