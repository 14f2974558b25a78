"""Elastic: jobs by how much of their minimum they have, as they are and as victims of whom some tasks are gone."""

from __future__ import annotations

import numpy as np
import pytest

from muster.api import KubeObject
from muster.plugins.jobs.elastic import ABOVE, BELOW, JUST_ENOUGH, stage
from muster.snapshot import Pieces
from muster.testing import builders
from tests.plugins.queue_stage import Stage, leaving


def job(name: str, minimum: int, running: int, pending: int = 0) -> list[KubeObject]:
    members = [builders.pod(f"{name}-{i}", group=name, cpu=1, node="n1" if i < running else "") for i in range(9)]
    return [builders.pod_group(name, minimum=minimum), *members[: running + pending]]


def opened(*objects: KubeObject) -> Stage:
    return Stage("elastic", [builders.queue("default"), builders.node("n1"), *objects])


def test_jobs_below_their_minimum_go_first_and_those_above_it_last() -> None:
    found = opened(*job("above", 1, 2), *job("at", 2, 2, pending=1), *job("below", 2, 1), *job("none", 1, 0, pending=1))
    stages = {name: found.plugin.job_order(found.job(name)) for name in ("none", "below", "at", "above")}
    assert stages == {"none": BELOW, "below": BELOW, "at": JUST_ENOUGH, "above": ABOVE}


def test_leaving_pods_do_not_count_and_promised_places_do() -> None:
    gone, waiting = job("gone", 1, 1), job("waiting", 1, 0, pending=1)
    pod = gone[1]
    assert isinstance(pod, type(builders.pod("x")))
    found = opened(gone[0], leaving(pod), *waiting)
    assert found.plugin.job_order(found.job("gone")) == BELOW
    assert found.plugin.job_order(found.job("waiting")) == BELOW
    found.place("waiting-0")
    assert found.plugin.job_order(found.job("waiting")) == JUST_ENOUGH


def test_a_job_with_roles_is_below_while_any_of_them_is() -> None:
    group = builders.pod_group("j", minimum=3, roles={"a": 1, "b": 2})
    pods = [builders.pod(f"j-{i}", group="j", role=role, cpu=1, node="n1") for i, role in enumerate("aaab")]
    found = opened(group, *pods, builders.pod("j-9", group="j", role="b", cpu=1))
    assert found.plugin.job_order(found.job("j")) == BELOW
    found.place("j-9")
    assert found.plugin.job_order(found.job("j")) == ABOVE
    assert found.plugin.victim_order(found.job("j"), found.tasks("j-0", "j-3", "j-9")) == JUST_ENOUGH
    assert found.plugin.victim_order(found.job("j"), found.tasks("j-0", "j-1", "j-3")) == BELOW


def test_a_victim_is_judged_by_the_tasks_it_has_left() -> None:
    found = opened(*job("j", 2, 4))
    names = [f"j-{i}" for i in range(4)]
    stages = [found.plugin.victim_order(found.job("j"), found.tasks(*names[:count])) for count in (4, 3, 2, 1)]
    assert stages == [ABOVE, ABOVE, JUST_ENOUGH, BELOW]


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([], JUST_ENOUGH),
        ([(0, 0)], JUST_ENOUGH),
        ([(2, 1), (0, 1)], BELOW),
        ([(1, 1), (2, 2)], JUST_ENOUGH),
        ([(1, 1), (3, 2)], ABOVE),
    ],
)
def test_stages_of_roles(held: list[tuple[int, int]], expected: int) -> None:
    assert stage(held) == expected


def test_many_victims_at_once_are_judged_as_each_alone() -> None:
    group = builders.pod_group("roles", minimum=3, roles={"a": 1, "b": 2})
    pods = [builders.pod(f"roles-{i}", group="roles", role=role, cpu=1, node="n1") for i, role in enumerate("abb")]
    found = opened(*job("plain", 2, 4), group, *pods)
    left = [("plain", 4), ("plain", 2), ("plain", 1), ("roles", 3), ("roles", 2)]
    jobs = [found.job(name) for name, _ in left]
    rows = [found.tasks(*(f"{name}-{i}" for i in range(count))) for name, count in left]
    stages = [found.plugin.victim_order(one, tasks) for one, tasks in zip(jobs, rows, strict=True)]
    assert stages == [ABOVE, JUST_ENOUGH, BELOW, JUST_ENOUGH, BELOW]
    pieces = Pieces(np.concatenate(rows), np.cumsum([0, *(len(tasks) for tasks in rows)]).astype(np.intp))
    assert found.plugin.victim_orders(np.array(jobs, np.intp), pieces).tolist() == stages
