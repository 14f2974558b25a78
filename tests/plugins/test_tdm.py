"""Nodes of revocable zones: open by the hour, for pods that may be sent away, and left when the hour is over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api import KubeObject, Pod, UserError
from muster.cluster import MemoryCluster
from muster.framework import Eviction, SchedulerConfig, parse_config, reason_number
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Bind, Evict
from muster.testing.builders import node, pod, pod_group, queue
from tests.plugins.queue_stage import Stage, annotated
from tests.plugins.test_pdb import budget

ZONE = "volcano.sh/revocable-zone"
PREEMPTABLE = "volcano.sh/preemptable"
DAY = {"tdm.revocable-zone.day": "8:00-20:00", "tdm.revocable-zone.night": "20:00-8:00"}


def clock(hour: int, minute: int = 0) -> float:
    return datetime(2030, 5, 1, hour, minute, tzinfo=UTC).timestamp()


NODES: list[KubeObject] = [
    node("plain", gpu=8),
    node("d", gpu=8, labels={ZONE: "day"}),
    node("n", gpu=8, labels={ZONE: "night"}),
    node("lost", gpu=8, labels={ZONE: "nowhere"}),
    node("none", gpu=8, labels={ZONE: ""}),
]


def stage_of(*objects: KubeObject, hour: int = 12, arguments: Mapping[str, Any] = DAY) -> Stage:
    return Stage("tdm", [*NODES, queue("default"), *objects], arguments=arguments, now=clock(hour))


def verdicts(stage: Stage, name: str) -> dict[str, str]:
    found = stage.session.node_verdicts(int(stage.snapshot.tasks.cls[stage.task(name)]))
    codes = {node: reason_number(int(v)).code for node, v in zip(stage.snapshot.nodes.names, found, strict=True)}
    return {node: code for node, code in codes.items() if code != "fits"}


# -- nodes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hour", "closed", "scores"),
    [(12, "n", {"d": 100.0}), (3, "d", {"n": 100.0})],
)
def test_pods_that_may_be_sent_away_use_the_zones_that_are_open_and_rather_than_others(
    hour: int, closed: str, scores: dict[str, float]
) -> None:
    stage = stage_of(pod("p", gpu=1, annotations={ZONE: "*"}), hour=hour)
    assert verdicts(stage, "p") == {closed: "revocable-zone-closed", "lost": "revocable-zone-unknown"}
    fixed = stage.plugin.node_score(int(stage.snapshot.tasks.cls[stage.task("p")])).fixed
    assert {name: score for name, score in zip(stage.snapshot.nodes.names, fixed, strict=True) if score} == scores


@pytest.mark.parametrize(
    ("marks", "labels", "may_use"),
    [
        ({}, {}, False),
        ({ZONE: "*"}, {}, True),
        ({ZONE: "day"}, {}, False),  # zones by name are not understood
        ({PREEMPTABLE: "true"}, {}, True),
        ({PREEMPTABLE: "maybe"}, {}, False),
        ({PREEMPTABLE: "true", ZONE: "night"}, {}, False),
        ({}, {PREEMPTABLE: "true"}, False),
    ],
)
def test_only_pods_that_say_so_may_use_zones(marks: dict[str, str], labels: dict[str, str], may_use: bool) -> None:
    stage = stage_of(pod("p", gpu=1, annotations=marks, labels=labels), pod("other", gpu=1))
    assert ("d" not in verdicts(stage, "p")) is may_use
    assert verdicts(stage, "other") == dict.fromkeys(("d", "n", "lost"), "revocable-node")


def test_the_session_is_told_when_a_zone_opens_or_closes_next() -> None:
    assert stage_of(hour=12).session.due == clock(20)


def test_hours_are_read_on_the_clock_that_the_arguments_name() -> None:
    arguments = {"tdm.revocable-zone.day": "20:00-22:00", "tdm.time-zone": "Asia/Shanghai"}
    stage = stage_of(pod("p", gpu=1, annotations={ZONE: "*"}), hour=12, arguments=arguments)
    assert "d" not in verdicts(stage, "p")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"tdm.revocable-zone.day": "8-20"}, "tdm.revocable-zone.day: expected the hours of a day such as"),
        ({"tdm.revocable-zone.day": 800}, "tdm.revocable-zone.day: expected the hours of a day such as"),
        ({"tdm.evict.period": "soon"}, "tdm.evict.period: expected a duration such as"),
        ({"tdm.evict.period": "0s"}, "tdm.evict.period: expected a duration above zero"),
        ({"tdm.time-zone": "Moon"}, "tdm.time-zone: expected the name of a time zone"),
        ({"tdm.zone": "day"}, "did you mean 'tdm.time-zone'?"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match="plugin tdm: arguments: ") as refused:
        stage_of(arguments=arguments)
    assert expected in str(refused.value)


# -- jobs and preemption -----------------------------------------------------------------------------------------


def test_jobs_that_give_way_come_last_and_take_from_nobody() -> None:
    groups = [annotated(pod_group("gives"), {PREEMPTABLE: "true"}), pod_group("stays")]
    stage = stage_of(*groups, *(pod(f"{name}-0", group=name, gpu=1) for name in ("gives", "stays")))
    gives, stays = stage.job("gives"), stage.job("stays")
    assert stage.plugin.job_order(stays) < stage.plugin.job_order(gives)
    assert [stage.plugin.job_starving(job) for job in (stays, gives)] == [True, False]


def running(count: int, on: str, **marks: str) -> list[KubeObject]:
    """A job of so many running pods on a node, with marks on its PodGroup."""
    keys = {"most": "volcano.sh/jdb-max-unavailable", "least": "volcano.sh/jdb-min-available"}
    group = annotated(pod_group(on, phase="Running"), {keys[name]: value for name, value in marks.items()})
    return [group, *(pod(f"{on}-{k}", group=on, gpu=1, node=on, created=k) for k in range(count))]


def test_only_pods_that_are_to_stay_preempt_and_only_within_budgets_on_ordinary_nodes() -> None:
    firm = pod("firm", gpu=1, annotations={PREEMPTABLE: "false"})
    stage = stage_of(*running(3, "plain", most="2"), *running(1, "d"), firm, pod("soft", gpu=1))
    offered = stage.tasks("plain-0", "plain-1", "plain-2", "d-0")
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("firm"), offered)) == ["plain-0", "plain-1"]
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("soft"), offered)) == []


# -- leaving -----------------------------------------------------------------------------------------------------


def leaving(stage: Stage) -> dict[str, str]:
    return {name: one.why for one in stage.plugin.must_leave() for name in stage.names(one.tasks)}


def test_when_a_zone_closes_its_pods_leave_by_budget_the_youngest_first() -> None:
    stage = stage_of(*running(3, "d", most="2"), *running(2, "n"), *running(2, "plain"), hour=22)
    why = "the revocable zone day of its node is closed"
    assert leaving(stage) == {"d-2": why, "d-1": why}


def test_nobody_leaves_an_open_zone_one_without_hours_or_an_ordinary_node() -> None:
    assert leaving(stage_of(*running(1, "d"), *running(1, "lost"), *running(1, "none"), hour=12)) == {}


def test_a_job_on_two_closed_zones_has_one_budget() -> None:
    arguments = {"tdm.revocable-zone.day": "8:00-9:00", "tdm.revocable-zone.night": "8:00-9:00"}
    group = pod_group("g", phase="Running")
    pods = [pod(f"g-{on}", group="g", gpu=1, node=on, created=k) for k, on in enumerate(("d", "n"))]
    assert list(leaving(stage_of(group, *pods, arguments=arguments))) == ["g-n"]


def scheduler_of(*objects: KubeObject, now: float, actions: str = "allocate, preempt") -> Scheduler:
    config = _config(actions)
    return Scheduler(MemoryCluster([*NODES, *objects], start=now), config, builtin_registry(third_party=False))


def _config(actions: str, period: str = "1m") -> SchedulerConfig:
    return parse_config(
        f"""
actions: "{actions}"
tiers:
- plugins:
  - {{name: gang}}
  - name: tdm
    arguments: {{tdm.revocable-zone.day: "8:00-20:00", tdm.evict.period: {period}}}
  - {{name: predicates}}
""",
        "test",
    )


def evicted(scheduler: Scheduler) -> list[str]:
    return [made.pod.removeprefix("default/") for made in scheduler.run_once().decisions if isinstance(made, Evict)]


def wait(scheduler: Scheduler, seconds: float) -> None:
    assert isinstance(scheduler.cluster, MemoryCluster)
    scheduler.cluster.advance_to(scheduler.cluster.now() + seconds)


@pytest.mark.parametrize("actions", ["allocate, preempt", "allocate, gangpreempt", "preempt, gangpreempt"])
def test_a_round_of_evictions_takes_place_once_per_period(actions: str) -> None:
    scheduler = scheduler_of(*running(3, "d"), now=clock(22), actions=actions)
    assert evicted(scheduler) == ["d-2"]
    wait(scheduler, 30)
    result = scheduler.run_once()
    assert [made for made in result.decisions if isinstance(made, Evict)] == []
    assert result.due == clock(22) + 60
    wait(scheduler, 30)
    assert evicted(scheduler) == ["d-1"]


def test_the_scheduler_wakes_up_when_the_window_closes_and_pods_leave_then() -> None:
    scheduler = scheduler_of(*running(1, "d"), now=clock(19, 59))
    first = scheduler.run_once()
    assert (first.decisions, first.due) == ((), clock(20))
    wait(scheduler, 60)
    (made,) = scheduler.run_once().decisions
    assert isinstance(made, Evict)
    assert made.why == "preempt: the revocable zone day of its node is closed"
    assert made.record == {"reason": "the revocable zone day of its node is closed"}


def test_what_was_known_of_a_closed_zone_does_not_hold_when_it_opens() -> None:
    """Verdicts are kept across cycles, and no node changes when a window does."""
    waiting = pod("p", gpu=1, annotations={ZONE: "*"}, selector={ZONE: "day"})
    scheduler = scheduler_of(waiting, now=clock(7, 59))
    assert scheduler.run_once().decisions == ()
    wait(scheduler, 60)
    (made,) = scheduler.run_once().decisions
    assert isinstance(made, Bind)
    assert made.node == "d"


def _marked(**options: Any) -> Pod:
    return pod("v", gpu=1, node="d", **options)


@pytest.mark.parametrize(
    "objects",
    [
        [_marked(annotations={PREEMPTABLE: "false"})],
        [_marked(namespace="kube-system")],
        [_marked(labels={"app": "web"}), budget(allowed=0)],
        [annotated(pod_group("g", phase="Running"), {PREEMPTABLE: "false"}), _marked(group="g")],
    ],
    ids=["not preemptable", "critical", "no disruption left", "spared by its PodGroup"],
)
def test_pods_that_may_not_be_evicted_stay_in_a_closed_zone(objects: list[KubeObject]) -> None:
    assert evicted(scheduler_of(*objects, now=clock(22))) == []


def test_a_pod_that_nothing_protects_does_not() -> None:
    assert evicted(scheduler_of(_marked(), now=clock(22))) == ["v"]


def test_another_configuration_of_plugins_forgets_what_the_old_one_knew() -> None:
    waiting = pod("p", gpu=1, selector={ZONE: "day"})
    scheduler = scheduler_of(waiting, now=clock(12))
    assert scheduler.run_once().decisions == ()
    scheduler.configure(parse_config('actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]', "test"))
    assert [type(made) for made in scheduler.run_once().decisions] == [Bind]
