"""Allocate: whose turn it is, what a turn gives, and what is left behind."""

from __future__ import annotations

import pytest

from muster.actions.allocate import Allocate
from muster.api import KubeObject
from muster.api.objects.pod import PodSchedulingGate
from muster.framework import Plugin, PluginOption, Registry, Session
from muster.plugins.jobs.gang import Gang
from muster.snapshot import Mirror, TaskStatus
from muster.testing import gang, node, pod, pod_group, priority_class, queue
from tests.engine.stage import binds, bound_jobs, configured, having, run, waits


def order_of_jobs(session: Session) -> list[str]:
    """Jobs in the order in which their pods were committed, one entry per commit."""
    snapshot = session.snapshot
    return [
        snapshot.jobs.records[snapshot.tasks.job[committed.operations[0].tasks[0]]].name
        for committed in session.committed
    ]


def jobs(
    *names: str, queue: str = "default", pods: int = 1, minimum: int | None = None, **each: object
) -> list[KubeObject]:
    made: list[KubeObject] = []
    for k, name in enumerate(names):
        made += gang(name, pods, minimum=minimum, queue=queue, created=float(k), **{"gpu": 1, **each})  # type: ignore[arg-type]
    return made


# -- turns --------------------------------------------------------------------------------------------------------


def test_queues_take_turns_by_their_share() -> None:
    session = run(
        [
            node("n", gpu=6),
            queue("a", weight=2),
            queue("b", weight=1),
            *jobs("a1", "a2", "a3", "a4", queue="a"),
            *jobs("b1", "b2", "b3", queue="b"),
        ],
        configured("gang", "proportion"),
    )
    assert order_of_jobs(session) == ["a1", "b1", "a2", "a3", "b2", "a4"]


def test_without_shares_queues_go_by_age_and_name_and_jobs_by_age_and_name() -> None:
    session = run(
        [
            node("n", gpu=8),
            queue("b", created=1.0),
            queue("a", created=1.0),
            queue("z", created=0.0),
            *jobs("b1", queue="b"),
            *jobs("a2", "a1", queue="a"),
            *jobs("z1", queue="z"),
        ],
        configured("gang"),
    )
    assert order_of_jobs(session) == ["z1", "a2", "a1", "b1"]


def test_a_ready_job_with_more_to_place_goes_back_in_line_behind_those_that_start() -> None:
    session = run(
        [node("n", gpu=6), *jobs("big", pods=4, minimum=1), *jobs("x", "small")],
        configured("gang"),
    )
    order = order_of_jobs(session)
    assert order[0] == "big"
    assert set(order[1:3]) == {"x", "small"}
    assert order[3:] == ["big"] * 3


def test_the_gang_s_minimum_is_placed_in_one_turn_and_the_rest_one_by_one() -> None:
    session = run([node("n", gpu=8), *jobs("job", pods=5, minimum=3)], configured("gang"))
    assert [sum(len(op.tasks) for op in done.operations) for done in session.committed] == [3, 1, 1]


def test_priority_decides_inside_a_queue_alone() -> None:
    objects: list[KubeObject] = [
        priority_class("high", 10),
        node("n", gpu=2),
        queue("a", created=0.0),
        queue("b", created=1.0),
    ]
    objects += gang("low", 1, queue="a", gpu=1, created=0.0)
    objects += gang("urgent-late", 1, queue="a", gpu=1, created=9.0, priority_class="high")
    objects += gang("urgent-b", 1, queue="b", gpu=1, created=0.0, priority_class="high")
    session = run(objects, configured("priority", "gang"))
    assert order_of_jobs(session) == ["urgent-late", "low"]
    assert waits(session) == {"urgent-b": "insufficient-resources"}


# -- queues -------------------------------------------------------------------------------------------------------


class OneEach(Plugin):
    """A queue has had its share when something runs in it."""

    name = "one-each"

    def overused(self, queue: int) -> bool:
        return bool(self.session.snapshot.queues.own_allocated[queue].any())


def test_an_overused_queue_is_passed_over_with_everybody_in_it() -> None:
    mirror = Mirror()
    for item in (
        node("n", gpu=8),
        queue("greedy"),
        queue("modest"),
        pod_group("old", queue="greedy", phase="Running"),
        pod("old-0", group="old", node="n", gpu=1),
        *jobs("g1", "g2", queue="greedy"),
        *jobs("m1", "m2", queue="modest"),
    ):
        mirror.upsert(item)
    registry = Registry.of([Gang, OneEach], [Allocate])
    session = Session(mirror.snapshot(), configured("gang", "one-each", actions=("allocate",)), registry)
    registry.make_action("allocate", {}).run(session)
    assert bound_jobs(session) == {"m1": 1}
    assert waits(session) == {"g1": "queue-overused", "g2": "queue-overused", "m2": "queue-overused"}


def test_a_queue_that_may_not_hold_more_keeps_the_gang_out_whole() -> None:
    session = run(
        [node("n", gpu=8), queue("q", capability={"gpu": 3, "cpu": 100}), *jobs("job", queue="q", pods=4)],
        configured("gang", "capacity"),
    )
    assert binds(session) == {}
    assert waits(session) == {"job": "queue-limit"}


def test_an_elastic_gang_grows_up_to_the_queue_s_limit() -> None:
    session = run(
        [node("n", gpu=8), queue("q", capability={"gpu": 3, "cpu": 100}), *jobs("job", queue="q", pods=5, minimum=1)],
        configured("gang", "capacity"),
    )
    assert bound_jobs(session) == {"job": 3}


# -- gangs and roles ----------------------------------------------------------------------------------------------


def test_a_gang_that_does_not_fit_leaves_everything_to_the_next() -> None:
    session = run([node("n", gpu=4), *jobs("big", pods=5), *jobs("small", pods=4)], configured("gang"))
    assert bound_jobs(session) == {"small": 4}
    assert waits(session) == {"big": "insufficient-resources"}


def roled(minimum: int, needed: dict[str, int], **pods: tuple[int, int]) -> list[KubeObject]:
    """A job with roles: name=(how many, GPUs of each)."""
    made: list[KubeObject] = [pod_group("job", minimum=minimum, roles=needed, phase="Inqueue")]
    for role, (count, gpu) in pods.items():
        made += [pod(f"job-{role}-{k}", group="job", role=role, gpu=gpu, created=0.0) for k in range(count)]
    return made


def test_a_role_that_found_no_node_is_not_tried_again_and_others_go_on() -> None:
    objects = roled(2, {"b": 2}, a=(2, 9), b=(3, 1))
    session = run([node("n", gpu=8), *objects], configured("gang"))
    assert sorted(binds(session)) == ["job-b-0", "job-b-1", "job-b-2"]


def test_when_one_pod_of_a_role_finds_no_node_a_smaller_one_of_the_role_gets_its_place_all_the_same() -> None:
    objects = roled(2, {"b": 2}, a=(1, 9), b=(2, 1))
    objects.append(pod("job-a-1", group="job", role="a", gpu=1, created=0.0))
    session = run([node("n", gpu=8), *objects], configured("gang"))
    assert sorted(binds(session)) == ["job-a-1", "job-b-0", "job-b-1"]


def test_a_role_below_its_minimum_stops_the_job() -> None:
    session = run([node("n", gpu=8), *roled(3, {"a": 1, "b": 2}, a=(2, 9), b=(3, 1))], configured("gang"))
    assert binds(session) == {}
    assert waits(session) == {"job": "insufficient-resources"}
    assert having(session, TaskStatus.ALLOCATED) == {}


def test_role_minimums_above_the_job_s_do_not_hold() -> None:
    session = run([node("n", gpu=8), *roled(2, {"a": 1, "b": 2}, a=(2, 9), b=(3, 1))], configured("gang"))
    assert sorted(binds(session)) == ["job-b-0", "job-b-1", "job-b-2"]


def test_without_gang_every_pod_starts_that_can() -> None:
    session = run([node("n", gpu=2), *jobs("job", pods=4)], configured("predicates"))
    assert bound_jobs(session) == {"job": 2}


def test_readiness_can_be_turned_off() -> None:
    option = PluginOption("gang", flags={"enableJobReady": False, "enableJobPipelined": False})
    session = run([node("n", gpu=2), *jobs("job", pods=4)], configured(option))
    assert bound_jobs(session) == {"job": 2}


# -- members that ask for nothing -----------------------------------------------------------------------------------


def mixed(minimum: int, free: int, *, selector: dict[str, str] | None = None) -> list[KubeObject]:
    """One pod with a GPU and `free` pods that ask for nothing."""
    return [
        pod_group("job", minimum=minimum, phase="Inqueue"),
        pod("job-gpu", group="job", gpu=1, created=0.0),
        *(pod(f"job-free-{k}", group="job", selector=selector, created=0.0) for k in range(free)),
    ]


def test_best_effort_members_that_the_gang_needs_are_placed_with_it() -> None:
    session = run([node("n", gpu=1), *mixed(2, 3)], configured("gang", "predicates", actions=("allocate", "backfill")))
    first = session.committed[0]
    assert first.action == "allocate"
    assert sum(len(op.tasks) for op in first.operations) == 2
    assert len(binds(session)) == 4


def test_a_gang_waits_when_a_best_effort_member_that_it_needs_finds_no_node() -> None:
    nowhere = {"kubernetes.io/hostname": "elsewhere"}
    session = run([node("n", gpu=1), *mixed(2, 1, selector=nowhere)], configured("gang", "predicates"))
    assert binds(session) == {}
    assert having(session, TaskStatus.ALLOCATED) == {}
    assert session.verdicts[0].reason.code == "gang-incomplete"


def test_best_effort_members_beyond_the_minimum_do_not_hold_the_gang_up() -> None:
    nowhere = {"kubernetes.io/hostname": "elsewhere"}
    session = run([node("n", gpu=1), *mixed(1, 1, selector=nowhere)], configured("gang", "predicates"))
    assert sorted(binds(session)) == ["job-gpu"]


def test_the_right_role_s_best_effort_members_are_placed_with_the_gang() -> None:
    """One `chief` is needed; it asks for nothing and finds no node, and the idle `aide` is no replacement."""
    nowhere = {"kubernetes.io/hostname": "elsewhere"}
    objects = [
        pod_group("job", minimum=2, roles={"worker": 1, "chief": 1}, phase="Inqueue"),
        pod("job-worker", group="job", role="worker", gpu=1, created=0.0),
        pod("job-aide", group="job", role="aide", created=0.0),
        pod("job-chief", group="job", role="chief", selector=nowhere, created=1.0),
    ]
    session = run([node("n", gpu=1), *objects], configured("gang", "predicates"))
    assert binds(session) == {}


def test_a_gated_member_that_the_gang_needs_keeps_it_waiting() -> None:
    objects = mixed(2, 1)
    objects[-1].spec.scheduling_gates = [PodSchedulingGate(name="later")]  # type: ignore[attr-defined]
    session = run([node("n", gpu=1), *objects], configured("gang", "predicates"))
    assert binds(session) == {}


def test_without_backfill_best_effort_members_are_nobody_s_business() -> None:
    nowhere = {"kubernetes.io/hostname": "elsewhere"}
    config = configured("gang", "predicates", actions=("enqueue", "allocate"))
    session = run([node("n", gpu=1), *mixed(2, 1, selector=nowhere)], config)
    assert sorted(binds(session)) == ["job-gpu"]


# -- who is not tried -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "code"),
    [
        ([pod("p-0", group="missing", gpu=1)], "podgroup-missing"),
        (gang("job", 1, queue="nowhere", gpu=1), "queue-missing"),
        ([queue("child", parent="nobody"), *gang("job", 1, queue="child", gpu=1)], "queue-tree-broken"),
        (gang("job", 1, minimum=2, gpu=1), "too-few-pods"),
    ],
)
def test_jobs_that_cannot_be_tried_say_why(objects: list[KubeObject], code: str) -> None:
    session = run([node("n", gpu=8), *objects], configured("gang", actions=("allocate",)))
    assert binds(session) == {}
    assert [verdict.reason.code for verdict in session.verdicts.values()] == [code]


def test_without_an_enqueue_action_waiting_jobs_count_as_admitted() -> None:
    session = run([node("n", gpu=1), *jobs("job")], configured("gang", actions=("allocate",)))
    assert bound_jobs(session) == {"job": 1}
