"""Which tasks of a gang come and go together, where roles have minimums and the job has one of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import pytest

from muster.api import KubeObject
from muster.engine.gangs import PodSet, next_tasks, next_victims
from muster.framework import Session
from muster.plugins.queues.fairshare.rules import victim_units
from muster.snapshot import Rows
from muster.testing import node, pod, pod_group
from tests.engine.stage import configured, open_session
from tests.snapshot.networks import group, members, parts

KAI = configured("elastic", "predicates")


def job(minimum: int, roles: Mapping[str, int], pods: Mapping[str, int], *, on: str = "") -> list[KubeObject]:
    """One gang; `pods` by role."""
    members = [
        pod(f"{role}-{k}", group="g", role=role, cpu=1, node=on, phase="Running" if on else "")
        for role, count in pods.items()
        for k in range(count)
    ]
    return [node("n", cpu=16), pod_group("g", minimum=minimum, roles=roles), *members]


def tasks(session: Session) -> Rows:
    return session.sort_tasks(session.snapshot.tasks_of(0).copy())


def names(session: Session, chosen: Rows) -> list[str]:
    return sorted(session.snapshot.tasks.ids[task].removeprefix("default/") for task in chosen.tolist())


@pytest.mark.parametrize(
    ("minimum", "roles", "pods", "chunk"),
    [
        pytest.param(2, {}, {"w": 3}, ["w-0", "w-1"], id="the job's own minimum"),
        pytest.param(3, {"d": 1, "w": 2}, {"d": 1, "w": 3}, ["d-0", "w-0", "w-1"], id="every role's minimum"),
        pytest.param(3, {"d": 1}, {"d": 1, "w": 3}, ["d-0", "w-0", "w-1"], id="what roles leave open is of any role"),
        pytest.param(3, {"d": 1, "w": 0}, {"d": 2, "w": 3}, ["d-0", "d-1", "w-0"], id="or of one that has a minimum"),
        pytest.param(3, {"d": 1}, {"d": 1, "w": 1}, [], id="too few in all"),
        pytest.param(3, {"d": 2}, {"d": 1, "w": 3}, [], id="too few of a role"),
        pytest.param(1, {"d": 1, "w": 5}, {"d": 1}, ["d-0"], id="roles that add up to more do not hold"),
        pytest.param(3, {"w": 6}, {"w": 6}, ["w-0", "w-1", "w-2"], id="nor do they where all pods are there"),
    ],
)
def test_a_gang_starts_with_all_its_minimums_at_once(
    minimum: int, roles: Mapping[str, int], pods: Mapping[str, int], chunk: list[str]
) -> None:
    session = open_session(job(minimum, roles, pods), KAI)
    assert names(session, next_tasks(session, 0, tasks(session))) == chunk


@pytest.mark.parametrize(
    ("minimum", "needed", "sizes", "chunk"),
    [
        pytest.param(1, 2, [2, 2, 2], ["g-0-0", "g-0-1", "g-1-0", "g-1-1"], id="whole sub-groups, as many as needed"),
        pytest.param(1, 1, [1, 2], ["g-1-0", "g-1-1"], id="none that has too few pods"),
        pytest.param(3, 1, [3, 2], ["g-0-0", "g-0-1", "g-0-2"], id="and the job's minimum, of one that is whole"),
        pytest.param(3, 1, [2, 2], ["g-0-0", "g-0-1", "g-1-0", "g-1-1"], id="else of another, which is whole too"),
        pytest.param(1, 2, [2, 1], [], id="too few sub-groups with all their pods"),
    ],
)
def test_a_divided_gang_starts_with_whole_sub_groups(
    minimum: int, needed: int, sizes: Sequence[int], chunk: list[str]
) -> None:
    members_of = (members("g", count, part=str(part), cpu=1) for part, count in enumerate(sizes))
    objects = [node("n", cpu=16), group("g", minimum, policies=[parts(2, needed)]), *chain(*members_of)]
    session = open_session(objects, configured("gang", "predicates"))
    assert names(session, next_tasks(session, 0, tasks(session))) == chunk


def test_pods_that_are_done_count_towards_the_minimum_of_those_that_still_wait() -> None:
    """Two of a minimum of three have run to their end, and a third pod is all that the gang is made of beside them."""
    done = [pod(f"w-{k}", group="g", cpu=1, node="n", phase="Succeeded") for k in range(2)]
    more = [pod(f"w-{k}", group="g", cpu=1) for k in (2, 3)]
    session = open_session([node("n", cpu=16), pod_group("g", minimum=3), *done, *more], KAI)
    waiting = session.snapshot.pending_tasks()
    assert names(session, next_tasks(session, 0, session.sort_tasks(waiting))) == ["w-2"]


@pytest.mark.parametrize(
    ("minimum", "roles", "pods", "n_leaving"),
    [
        pytest.param(3, {"d": 1}, {"d": 1, "w": 3}, 1, id="one can be spared"),
        pytest.param(3, {"d": 1}, {"d": 1, "w": 2}, 3, id="none can, though the role could"),
        pytest.param(2, {"d": 1, "w": 1}, {"d": 1, "w": 2}, 1, id="a role can spare one"),
        pytest.param(2, {"d": 1, "w": 1}, {"d": 1, "w": 1}, 2, id="no role can"),
        pytest.param(3, {"w": 6}, {"w": 4}, 1, id="roles that add up to more do not hold"),
    ],
)
def test_a_gang_spares_one_or_leaves_as_a_whole(
    minimum: int, roles: Mapping[str, int], pods: Mapping[str, int], n_leaving: int
) -> None:
    session = open_session(job(minimum, roles, pods, on="n"), KAI)
    left = tasks(session)
    assert len(next_victims(session.snapshot, 0, left)) == n_leaving
    ((_, units),) = victim_units(session.snapshot, left)
    sizes = [len(unit) for unit in units]
    assert (min(sizes) == 1) == (n_leaving == 1)
    assert max(sizes) == max(minimum, 1)


def test_roles_below_their_minimum_go_first_then_those_with_less_beyond_it_then_names() -> None:
    short, shorter, exact, double, idle, extra = (
        PodSet(0, 4, "a").turn(2),
        PodSet(0, 3, "b").turn(1),
        PodSet(0, 2, "c").turn(2),
        PodSet(0, 2, "d").turn(4),
        PodSet(0, 0, "e").turn(0),
        PodSet(0, 0, "f").turn(1),
    )
    assert sorted([extra, double, exact, idle, shorter, short]) == [short, shorter, idle, exact, double, extra]
