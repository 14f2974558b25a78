from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject, SubGroupPolicy
from muster.framework import Eviction
from muster.plugins.jobs.gang import TOO_FEW_OF_ROLE, TOO_FEW_SUBGROUPS, TOO_FEW_TASKS
from muster.testing.builders import node, pod, pod_group
from tests.plugins.queue_stage import Stage, leaving, with_policies


def job_of(*members: str, minimum: int = 1, roles: dict[str, int] | None = None) -> Stage:
    """A job with members such as "worker:Running" or ":free" (pending, asks for nothing)."""
    objects: list[KubeObject] = [node("n1"), pod_group("j", minimum=minimum, roles=roles)]
    for number, member in enumerate(members):
        role, state = member.split(":")
        objects.append(_member(f"j-{number}", role, state))
    return Stage("gang", objects)


def _member(name: str, role: str, state: str) -> KubeObject:
    if state == "Releasing":
        return leaving(pod(name, group="j", role=role, cpu=1, node="n1"))
    if state == "free":
        return pod(name, group="j", role=role)
    where = "" if state == "Pending" else "n1"
    phase = "Pending" if state == "Bound" else state
    return pod(name, group="j", role=role, cpu=1, node=where, phase=phase)


@pytest.mark.parametrize(
    ("members", "minimum", "roles", "deficit"),
    [
        ([":Pending"] * 3, 3, None, 3),
        ([":Running", ":Bound", ":Pending"], 3, None, 1),
        ([":Running", ":Succeeded"], 2, None, 0),
        ([":Running", ":Failed", ":Releasing", ":Unknown"], 2, None, 1),
        ([":free", ":free", ":Pending"], 3, None, 1),
        ([":Running"] * 5, 3, None, 0),
        (["ps:Pending", "worker:Pending", "worker:Pending"], 2, {"ps": 1, "worker": 1}, 2),
        (["ps:Pending", "worker:Running", "worker:Running"], 2, {"ps": 1, "worker": 1}, 1),
        (["ps:free", "worker:Running"], 2, {"ps": 1, "worker": 1}, 0),
        # Roles ask for more than the job's minimum: they do not hold.
        (["ps:Pending", "worker:Running"], 1, {"ps": 1, "worker": 1}, 0),
        (["worker:Pending"] * 4, 4, {"worker": 2}, 4),
        ([], 0, None, 0),
    ],
)
def test_deficit(members: list[str], minimum: int, roles: dict[str, int] | None, deficit: int) -> None:
    stage = job_of(*members, minimum=minimum, roles=roles)
    assert stage.session.job_deficit(stage.job("j")) == deficit


def test_tasks_that_wait_for_room_count_as_pipelined_only() -> None:
    stage = job_of(":Pending", ":Pending", minimum=2)
    job = stage.job("j")
    stage.session.statement().place(stage.task("j-0"), 0, mode=1)
    assert (stage.session.job_deficit(job), stage.session.job_pipelined_deficit(job)) == (2, 1)
    stage.session.statement().place(stage.task("j-1"), 0)
    assert (stage.session.job_deficit(job), stage.session.job_pipelined_deficit(job)) == (1, 0)


@pytest.mark.parametrize(
    ("members", "minimum", "roles", "reason"),
    [
        ([":Pending"], 2, None, TOO_FEW_TASKS),
        ([":Pending", ":Failed"], 2, None, TOO_FEW_TASKS),
        ([":Pending", ":Releasing"], 2, None, TOO_FEW_TASKS),
        ([":Pending", ":Succeeded"], 2, None, None),
        (["worker:Pending", "worker:Pending"], 2, {"ps": 1, "worker": 1}, TOO_FEW_OF_ROLE),
        (["worker:Pending", "ps:Pending"], 2, {"ps": 1, "worker": 1}, None),
        (["worker:Pending"], 1, {"ps": 1, "worker": 1}, None),
    ],
)
def test_a_job_without_enough_pods_is_not_valid(
    members: list[str], minimum: int, roles: dict[str, int] | None, reason: object
) -> None:
    stage = job_of(*members, minimum=minimum, roles=roles)
    rejection = stage.session.job_valid(stage.job("j"))
    assert (None if rejection is None else rejection.reason) is reason


def test_a_rejection_tells_the_numbers() -> None:
    stage = job_of("worker:Pending", "worker:Pending", minimum=3, roles={"worker": 3})
    rejection = stage.session.job_valid(stage.job("j"))
    assert rejection is not None
    assert rejection.detail == "role worker: 2 of 3 pods exist"


def test_pods_that_leave_are_not_said_to_be_gone() -> None:
    stage = job_of(":Releasing", ":Releasing", ":Pending", minimum=3)
    rejection = stage.session.job_valid(stage.job("j"))
    assert rejection is not None
    assert rejection.detail == "1 of 3 pods exist, beside those that are leaving"


def test_gangs_that_are_not_ready_go_first() -> None:
    waiting, ready = job_of(":Pending", minimum=1), job_of(":Running", ":Pending", minimum=1)
    assert waiting.plugin.job_order(waiting.job("j")) < ready.plugin.job_order(ready.job("j"))


@pytest.mark.parametrize(("members", "starving"), [([":free", ":Running"], True), ([":Running", ":Running"], False)])
def test_a_starving_job_has_fewer_placed_tasks_than_its_minimum(members: list[str], starving: bool) -> None:
    stage = job_of(*members, minimum=2)
    assert stage.session.job_starving(stage.job("j")) is starving


def test_only_the_surplus_of_a_gang_can_be_evicted() -> None:
    stage = job_of(":Running", ":Running", ":Running", ":Pending", minimum=2)
    offered = stage.tasks("j-1", "j-0", "j-2")
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("j-3"), offered)) == ["j-1"]
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("j-3"), offered)) == ["j-1"]


# -- sub-groups ----------------------------------------------------------------------------------------------


def grouped(policy: SubGroupPolicy, *members: str, minimum: int = 1) -> Stage:
    """A job with members such as "a:Running", "a" being the value of the label that divides it."""
    group = with_policies(pod_group("j", minimum=minimum), policy)
    objects: list[KubeObject] = [node("n1"), group]
    for number, member in enumerate(members):
        value, state = member.split(":")
        where = "n1" if state == "Running" else ""
        labels = {"block": value} if value else {}
        objects.append(pod(f"j-{number}", group="j", cpu=1, node=where, labels=labels))
    return Stage("gang", objects)


PAIRS = SubGroupPolicy(name="pairs", match_label_keys=["block"], sub_group_size=2, min_sub_groups=2)


@pytest.mark.parametrize(
    ("members", "deficit"),
    [
        (["a:Pending", "a:Pending", "b:Pending", "b:Pending"], 4),
        (["a:Running", "a:Pending", "b:Pending", "b:Pending"], 3),
        (["a:Running", "a:Running", "b:Running", "b:Running", "c:Pending", "c:Pending"], 0),
        # The two sub-groups that miss least decide.
        (["a:Running", "a:Pending", "b:Running", "b:Pending", "c:Pending", "c:Pending"], 2),
        (["a:Running", "a:Running"], 1),
    ],
)
def test_enough_subgroups_must_be_ready(members: list[str], deficit: int) -> None:
    stage = grouped(PAIRS, *members)
    assert stage.session.job_deficit(stage.job("j")) == deficit


def test_too_few_subgroups_make_a_job_invalid() -> None:
    one, two = grouped(PAIRS, "a:Pending", "a:Pending"), grouped(PAIRS, "a:Pending", "b:Pending")
    rejection = one.session.job_valid(one.job("j"))
    assert rejection is not None
    assert rejection.reason is TOO_FEW_SUBGROUPS
    assert two.session.job_valid(two.job("j")) is None


def test_a_subgroup_is_a_gang_of_its_own() -> None:
    stage = grouped(PAIRS, "a:Running", "a:Running", "b:Running", "b:Pending")
    deficits = {
        stage.snapshot.subgroups.names[row]: (
            stage.session.subgroup_deficit(row),
            stage.plugin.subgroup_order(row),
        )
        for row in stage.snapshot.jobs.subgroups[stage.job("j")]
    }
    assert deficits == {"default/j/pairs-a": (0, 1), "default/j/pairs-b": (1, 0)}


# -- properties ----------------------------------------------------------------------------------------------

MEMBERS = st.lists(
    st.tuples(st.sampled_from(["a", "b", ""]), st.sampled_from(["Pending", "free", "Running", "Failed"])),
    max_size=7,
)


def _is_ready(members: list[tuple[str, str]], minimum: int, roles: dict[str, int]) -> bool:
    """Volcano's definition, in its own words."""
    settled = [role for role, state in members if state in ("Running", "free")]
    roles_hold = minimum >= sum(roles.values())
    return len(settled) >= minimum and (
        not roles_hold or all(settled.count(role) >= least for role, least in roles.items())
    )


def _fewest_placements(members: list[tuple[str, str]], minimum: int, roles: dict[str, int]) -> int | None:
    """Try every choice of pending tasks; None: not even all of them make the job ready."""
    waiting = [i for i, (_, state) in enumerate(members) if state == "Pending"]
    best: int | None = None
    for chosen in product([False, True], repeat=len(waiting)):
        placed = {i for i, is_placed in zip(waiting, chosen, strict=True) if is_placed}
        after = [(role, "Running" if i in placed else state) for i, (role, state) in enumerate(members)]
        if _is_ready(after, minimum, roles) and (best is None or len(placed) < best):
            best = len(placed)
    return best


@given(MEMBERS, st.integers(0, 5), st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3)))
def test_the_deficit_is_the_fewest_placements_that_make_the_job_ready(
    members: list[tuple[str, str]], minimum: int, roles: dict[str, int]
) -> None:
    stage = job_of(*(f"{role}:{state}" for role, state in members), minimum=minimum, roles=roles)
    deficit = stage.session.job_deficit(stage.job("j"))
    fewest = _fewest_placements(members, minimum, roles)
    assert (deficit == 0) == _is_ready(members, minimum, roles)
    if fewest is not None:
        assert deficit == fewest
