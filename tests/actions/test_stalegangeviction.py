"""Gangs that have been broken for too long are ended; those that are not, or are finishing, are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import KubeObject, PodGroup, SubGroupPolicy, UserError
from muster.api.names import STALE_GRACE, STALE_STAMP
from muster.framework import Session, parse_config
from muster.scheduler import builtin_registry
from muster.scheduler.decisions import decisions_of
from muster.simulate import simulate
from muster.snapshot import Mirror
from muster.snapshot.messages import Evict
from muster.snapshot.records import stamp_text
from muster.testing import node, pod, pod_group, queue
from tests.engine.evictions.eviction_stage import evicted
from tests.plugins.queue_stage import annotated, leaving, with_policies
from tests.plugins.test_pdb import budget

NOW = 10_000.0
REGISTRY = builtin_registry(third_party=False)


def act(*objects: KubeObject, **arguments: Any) -> Session:
    shown = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    config = parse_config(
        f"""
actions: "stalegangeviction"
tiers: [{{plugins: [{{name: gang}}]}}]
configurations: [{{name: stalegangeviction, arguments: {{{shown}}}}}]
""",
        "test",
    )
    mirror = Mirror()
    for item in [queue("default"), node("n", gpu=8), *objects]:
        mirror.upsert(item)
    session = Session(mirror.snapshot(), config, REGISTRY, now=NOW)
    REGISTRY.make_action("stalegangeviction", config.arguments_of("stalegangeviction")).run(session)
    return session


def group(minimum: int, *, broken_for: float | None = None, grace: str = "", **options: Any) -> PodGroup:
    marks = {STALE_GRACE: grace} if grace else {}
    if broken_for is not None:
        marks[STALE_STAMP] = stamp_text(NOW - broken_for)
    return annotated(pod_group("g", minimum=minimum, phase="Running", **options), marks)


def members(*states: str, **options: Any) -> list[KubeObject]:
    """Pods g-0, g-1, … of the group: those without a node wait, others are in the phase named."""
    return [
        pod(f"g-{k}", group="g", gpu=1, node="" if state == "Pending" else "n", phase=state, **options)
        for k, state in enumerate(states)
    ]


@pytest.mark.parametrize(("broken_for", "gone"), [(59, []), (60, ["g-0"]), (75, ["g-0"])])
def test_a_broken_gang_goes_when_its_grace_period_is_over(broken_for: float, gone: list[str]) -> None:
    assert evicted(act(group(2, broken_for=broken_for), *members("Running", "Failed"))) == gone


def test_all_that_is_left_goes_in_one_commit_that_says_why_and_nobody_profits() -> None:
    session = act(group(4, broken_for=75), *members("Running", "Running", "Pending"))
    assert len(session.committed) == 1
    made = decisions_of(session)
    assert [decision.pod for decision in made] == ["default/g-0", "default/g-1"]
    for decision in made:
        assert isinstance(decision, Evict)
        assert decision.why == "stalegangeviction: its gang has been broken for 75s (grace 60s)"
        assert decision.beneficiary == ""
        assert decision.record == {"job": "default/g", "brokenSeconds": 75.0, "graceSeconds": 60.0, "pods": 2}


def test_a_gang_without_a_stamp_became_broken_just_now() -> None:
    session = act(group(2), *members("Running", "Pending"))
    assert evicted(session) == []
    assert session.due == NOW + 60
    assert evicted(act(group(2), *members("Running", "Pending"), gracePeriod=0)) == ["g-0"]


def test_a_gang_that_has_its_minimum_stays_whatever_its_stamp_says() -> None:
    assert evicted(act(group(1, broken_for=900), *members("Running", "Failed"))) == []


def test_a_gang_that_is_finishing_stays() -> None:
    assert evicted(act(group(3, broken_for=900), *members("Running", "Succeeded", "Failed"))) == []


def test_a_role_below_its_minimum_breaks_the_gang() -> None:
    def cluster(work: str) -> list[KubeObject]:
        lead = [pod(f"g-{k}", group="g", gpu=1, node="n", role="lead") for k in range(3)]
        other = pod("g-3", group="g", gpu=1, node="n", role="work", phase=work)
        return [group(3, broken_for=61, roles={"lead": 2, "work": 1}), *lead, other]

    assert evicted(act(*cluster("Running"))) == []
    assert evicted(act(*cluster("Failed"))) == ["g-0", "g-1", "g-2"]


def test_too_few_sub_groups_break_the_gang() -> None:
    policy = SubGroupPolicy(name="part", match_label_keys=["part"], sub_group_size=2, min_sub_groups=2)
    parted = with_policies(group(3, broken_for=61), policy)
    pods = [pod(f"g-{k}", group="g", gpu=1, node="n", labels={"part": str(k // 2)}) for k in range(3)]
    assert evicted(act(parted, *pods)) == ["g-0", "g-1", "g-2"]
    assert evicted(act(parted, *pods, pod("g-3", group="g", gpu=1, node="n", labels={"part": "1"}))) == []


def test_terminating_pods_do_not_keep_a_gang_whole_and_are_not_evicted_again() -> None:
    first, second = members("Running", "Running")
    session = act(group(2, broken_for=61), leaving(first), second)  # type: ignore[arg-type]  # a pod
    assert evicted(session) == ["g-1"]


@pytest.mark.parametrize(
    ("grace", "argument", "gone"),
    [("10m", 60, []), ("30s", 600, ["g-0"]), ("-1s", 0, []), ("", -1, []), ("0", -1, ["g-0"]), ("", "2m", [])],
)
def test_the_gangs_own_grace_period_counts_before_the_actions(grace: str, argument: object, gone: list[str]) -> None:
    session = act(group(2, broken_for=75, grace=grace), *members("Running", "Failed"), gracePeriod=argument)
    assert evicted(session) == gone


def test_budgets_are_respected_unless_told_otherwise() -> None:
    pods = members("Running", "Running", labels={"app": "web"})
    objects = [group(3, broken_for=75), *pods, budget(allowed=1)]
    assert evicted(act(*objects)) == []
    assert evicted(act(*objects, ignorePDB="true")) == ["g-0", "g-1"]


def test_lone_pods_are_never_broken_gangs() -> None:
    assert evicted(act(pod("lone", gpu=1, node="n"), gracePeriod=0)) == []


def test_a_grace_period_that_is_no_duration_is_an_error() -> None:
    with pytest.raises(UserError, match="action stalegangeviction: arguments: gracePeriod: expected a duration"):
        act(gracePeriod="soon")


def test_a_simulation_runs_until_the_grace_period_is_over() -> None:
    config = parse_config('actions: "allocate, stalegangeviction"\ntiers: [{plugins: [{name: gang}]}]', "test")
    objects = [queue("default"), node("n", gpu=1), pod_group("g", minimum=2), *members("Running", "Pending")]
    result = simulate(objects, config)
    gone = [(cycle.time - result.start, made.pod) for cycle in result.cycles for made in cycle.decisions]
    assert [pod for _, pod in gone] == ["default/g-0"]
    assert gone[0][0] >= 60
