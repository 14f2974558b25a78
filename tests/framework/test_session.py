"""How the answers of several plugins become one: order by tiers, the strictest minimum, the first word, all or any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from muster.api import KubeObject
from muster.framework import (
    FITS,
    Arguments,
    Eviction,
    Evictor,
    JobVerdict,
    NodeScores,
    Plugin,
    PluginOption,
    Purpose,
    Registry,
    Rejection,
    SchedulerConfig,
    Session,
    Vote,
    points,
    reason,
)
from muster.framework.reasons import NODE_NOT_READY, NOT_TRIED
from muster.snapshot import JobPhase, Mirror, Rows
from muster.testing import gang, node, queue

NO_A, NO_B = reason("test-no-a", "are not for a"), reason("test-no-b", "are not for b")


def plugin(name: str, **answers: Any) -> type[Plugin]:
    """A plugin class that answers the given points with constants, or by calling what is callable."""

    def answering(value: Any) -> Any:
        return lambda _self, *asked: value(*asked) if callable(value) else value

    return type(name, (Plugin,), {"name": name, **{point: answering(value) for point, value in answers.items()}})


def rows(*values: int) -> Rows:
    return np.array(values, np.intp)


WORLD: list[KubeObject] = [
    node("n0", gpu=8),
    node("n1", gpu=8),
    node("n2", gpu=8, ready=False),
    queue("b", created=5.0),
    queue("a", created=5.0),
    queue("old", created=1.0),
    *gang("second", 2, gpu=1, created=7.0, queue="a"),
    *gang("first", 2, gpu=1, created=7.0, queue="a"),
]


def opened(
    *tiers: Sequence[type[Plugin]],
    off: Sequence[tuple[str, str]] = (),
    objects: Sequence[KubeObject] = WORLD,
    **more: Any,
) -> Session:
    """A session with tiers of plugins; `off`: (plugin, flag) pairs that are turned off."""
    mirror = Mirror()
    for item in objects:
        mirror.upsert(item)
    options = tuple(
        tuple(PluginOption(p.name, {flag: False for name, flag in off if name == p.name}) for p in tier)
        for tier in tiers
    )
    registry = Registry.of([p for tier in tiers for p in tier], [])
    return Session(mirror.snapshot(), SchedulerConfig(("allocate",), options), registry, **more)


def job(session: Session, name: str) -> int:
    return session.snapshot.jobs.index[f"default/{name}"]


# -- which methods are asked ----------------------------------------------------------------------------------------


def test_only_methods_that_a_plugin_overrides_are_asked() -> None:
    session = opened([plugin("p", job_ready=3), plugin("q")])
    assert len(session.asked(points.JOB_READY)) == 1
    assert session.asked(points.JOB_PIPELINED) == []


def test_a_flag_takes_a_plugin_out_of_the_question() -> None:
    session = opened([plugin("p", job_ready=3), plugin("q", job_ready=2)], off=[("p", "enableJobReady")])
    assert session.job_deficit(0) == 2


def test_points_without_a_flag_cannot_be_turned_off() -> None:
    no = plugin("p", job_valid=Rejection(NO_A))
    session = opened([no], off=[("p", "enableJobReady"), ("p", "enablePredicate")])
    assert session.job_valid(0) == Rejection(NO_A)


def test_plugins_are_opened_in_order_and_closed_at_the_end() -> None:
    told: list[str] = []

    class Teller(Plugin):
        name: ClassVar[str] = "teller"

        def open(self, session: Session) -> None:
            super().open(session)
            told.append(f"open {self.name}")

        def close(self) -> None:
            told.append(f"close {self.name}")

    second = type("Second", (Teller,), {"name": "second"})
    session = opened([Teller], [second])
    assert told == ["open teller", "open second"]
    assert list(session.plugins) == ["teller", "second"]
    session.close()
    assert told[2:] == ["close teller", "close second"]


def test_whether_a_plugin_is_hierarchical_and_an_action_configured() -> None:
    config = SchedulerConfig(("allocate",), ((PluginOption("p", {"enableHierarchy": True}), PluginOption("q")),))
    session = Session(Mirror().snapshot(), config, Registry.of([plugin("p"), plugin("q")], []))
    assert [session.is_hierarchical(name) for name in ("p", "q", "nobody")] == [True, False, False]
    assert session.has_action("allocate")
    assert not session.has_action("backfill")


# -- order ----------------------------------------------------------------------------------------------------------


def test_jobs_are_ordered_plugin_by_plugin_tier_by_tier_then_by_age_then_by_name() -> None:
    plain = opened()
    first, second = job(plain, "first"), job(plain, "second")
    assert plain.job_key(first) < plain.job_key(second)
    against = plugin("against", job_order=lambda row: 0 if row == second else 1)
    towards = plugin("towards", job_order=lambda row: 0 if row == first else 1)
    assert opened([against], [towards]).job_key(second) < opened([against], [towards]).job_key(first)
    assert opened([towards], [against]).job_key(first) < opened([towards], [against]).job_key(second)
    same = plugin("same", job_order=7)
    assert opened([same], [against]).job_key(second) < opened([same], [against]).job_key(first)


def test_queues_are_ordered_by_plugins_then_by_age_then_by_name() -> None:
    session = opened()
    index = session.snapshot.queues.index
    assert sorted(index, key=lambda name: session.queue_key(index[name])) == ["old", "a", "b"]
    last = opened([plugin("p", queue_order=lambda row: row == index["old"])])
    assert sorted(index, key=lambda name: last.queue_key(index[name])) == ["a", "b", "old"]


def test_sub_groups_are_ordered_by_plugins_then_by_index_then_by_name() -> None:
    session = opened([plugin("p", subgroup_order=lambda row: -row)])
    assert session.subgroup_key(1) < session.subgroup_key(0)


def test_tasks_are_ordered_by_job_then_by_plugins_then_by_age_and_index() -> None:
    def names(session: Session) -> list[str]:
        tasks = session.sort_tasks(session.snapshot.pending_tasks())
        return [session.snapshot.tasks.ids[task].removeprefix("default/") for task in tasks]

    assert names(opened()) == ["second-0", "second-1", "first-0", "first-1"]
    backwards = plugin("p", task_order=lambda tasks: -tasks.astype(np.int64))
    assert names(opened([plugin("same", task_order=lambda tasks: tasks * 0)], [backwards])) == [
        "second-1",
        "second-0",
        "first-1",
        "first-0",
    ]


# -- gangs ----------------------------------------------------------------------------------------------------------


def test_the_largest_deficit_counts_and_nobody_s_is_none() -> None:
    session = opened([plugin("p", job_ready=1, job_pipelined=4)], [plugin("q", job_ready=3, job_pipelined=0)])
    assert session.job_deficit(0) == 3
    assert session.job_pipelined_deficit(0) == 4
    assert opened().job_deficit(0) == 0


def test_a_job_without_sub_groups_is_one_sub_group() -> None:
    session = opened([plugin("p", job_ready=2, job_pipelined=1, subgroup_ready=9, subgroup_pipelined=9)])
    assert session.subgroup_deficit(0) == 2
    assert session.subgroup_pipelined_deficit(0) == 1


def test_the_first_rejection_of_a_job_is_the_reason() -> None:
    yes, a, b = (
        plugin("y", job_valid=None),
        plugin("a", job_valid=Rejection(NO_A)),
        plugin("b", job_valid=Rejection(NO_B)),
    )
    assert opened([yes], [b, a]).job_valid(0) == Rejection(NO_B)
    assert opened([yes]).job_valid(0) is None


def test_a_job_starves_when_everybody_with_an_opinion_says_so() -> None:
    yes, no = plugin("y", job_starving=True), plugin("n", job_starving=False)
    assert opened([yes]).job_starving(0)
    assert not opened([yes], [no]).job_starving(0)
    assert not opened().job_starving(0)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], True),
        ([[Vote.ABSTAIN]], True),
        ([[Vote.REJECT]], False),
        ([[Vote.PERMIT, Vote.REJECT]], False),
        ([[Vote.PERMIT], [Vote.REJECT]], True),
        ([[Vote.ABSTAIN], [Vote.REJECT]], False),
        ([[Vote.ABSTAIN, Vote.PERMIT], [Vote.REJECT]], True),
        ([[Vote.REJECT], [Vote.PERMIT]], False),
    ],
)
def test_a_reject_wins_at_once_and_a_tier_with_a_permit_ends_the_question(
    tiers: list[list[Vote]], expected: bool
) -> None:
    classes = [[plugin(f"p{i}{k}", job_enqueueable=vote) for k, vote in enumerate(t)] for i, t in enumerate(tiers)]
    assert opened(*classes).job_enqueueable(0) is expected


def test_admitting_tells_everybody_and_changes_the_phase() -> None:
    told: list[int] = []
    session = opened([plugin("p", job_enqueued=told.append), plugin("q", job_enqueued=told.append)])
    session.admit(1)
    assert told == [1, 1]
    assert session.snapshot.jobs.phase[1] == JobPhase.INQUEUE


# -- nodes ----------------------------------------------------------------------------------------------------------


def test_every_plugin_must_agree_on_a_node_and_the_first_reason_is_shown() -> None:
    a = plugin("a", node_mask=np.array([NO_A.number, FITS, NO_A.number], np.int16))
    b = plugin("b", node_mask=np.array([NO_B.number, NO_B.number, FITS], np.int16))
    expected = [NO_A.number, NO_B.number, NODE_NOT_READY.number]
    assert opened([a], [b]).node_verdicts(0).tolist() == expected
    assert opened().node_verdicts(0).tolist() == [FITS, FITS, NODE_NOT_READY.number]


def test_verdicts_are_asked_for_once_and_kept_by_class_for_later_sessions() -> None:
    asked: list[int] = []

    def mask(cls: int) -> Any:
        asked.append(cls)
        return np.zeros(3, np.int16)

    known: dict[bytes, Any] = {}
    for _ in range(2):
        session = opened([plugin("p", node_mask=mask)], known_verdicts=known)
        session.node_verdicts(0)
        session.node_verdicts(0)
    assert asked == [0]
    assert list(known) == [session.snapshot.classes.keys[0]]


def test_what_other_pods_say_is_combined_the_same_way() -> None:
    a = plugin("a", task_mask=np.array([NO_A.number, FITS, FITS], np.int16))
    b = plugin("b", task_mask=np.array([NO_B.number, NO_B.number, FITS], np.int16))
    silent = plugin("s", task_mask=None)
    found = opened([silent, a], [b]).task_verdicts(0)
    assert found is not None
    assert found.tolist() == [NO_A.number, NO_B.number, FITS]
    assert opened([silent]).task_verdicts(0) is None
    assert opened().task_verdicts(0) is None


def test_scores_add_up() -> None:
    a, b = plugin("a", task_score=np.array([1.0, 2.0, 3.0])), plugin("b", task_score=np.array([0.5, 0.0, 0.0]))
    found = opened([a, plugin("s", task_score=None)], [b]).task_scores(0)
    assert found is not None
    assert found.tolist() == [1.5, 2.0, 3.0]
    assert opened([plugin("s", task_score=None)]).task_scores(0) is None
    fixed = plugin("f", node_score=NodeScores(fixed=np.ones(3)))
    assert len(opened([fixed], [plugin("g", node_score=NodeScores())]).node_scores(0)) == 2


def test_live_tasks_count_only_if_somebody_will_be_asked_about_them() -> None:
    live = plugin("p", live_tasks=rows(0, 2), task_mask=None)
    assert opened([live]).live_tasks() == {0, 2}
    assert opened([live], off=[("p", "enablePredicate")]).live_tasks() == frozenset()
    both = plugin("p", live_tasks=rows(1), task_mask=None, task_score=None)
    assert opened([both], off=[("p", "enablePredicate")]).live_tasks() == {1}


# -- domains --------------------------------------------------------------------------------------------------------


def test_the_first_non_empty_word_on_domains_wins() -> None:
    silent, empty = (
        plugin("s", domain_gradients=None, search_space=None),
        plugin("e", domain_gradients=[], search_space=rows()),
    )
    word, other = (plugin(n, domain_gradients=[rows(k)], search_space=rows(k)) for k, n in enumerate("wo"))
    session = opened([silent, empty], [word], [other])
    found = session.domain_gradients(0, -1, 0)
    assert found is not None
    assert [step.tolist() for step in found] == [[0]]
    space = session.search_space(0, Purpose.EVICT)
    assert space is not None
    assert space.tolist() == [0]
    assert opened([silent, empty]).domain_gradients(0, -1, 0) is None
    assert opened([silent, empty]).search_space(0, Purpose.ALLOCATE) is None


def test_scores_of_domains_add_up() -> None:
    a, b = plugin("a", domain_score=np.array([1.0, 2.0])), plugin("b", domain_score=np.array([3.0, 0.0]))
    assert opened([a], [b]).domain_scores(0, -1, rows(0, 1)).tolist() == [4.0, 2.0]
    assert opened([a], [b], off=[("b", "enabledHyperNodeOrder")]).domain_scores(0, -1, rows(0, 1)).tolist() == [
        1.0,
        2.0,
    ]
    assert opened().domain_scores(0, -1, rows(0, 1)).tolist() == [0.0, 0.0]


# -- queues ---------------------------------------------------------------------------------------------------------


def test_one_yes_makes_a_queue_overused_and_the_smallest_room_counts() -> None:
    yes, no = plugin("y", overused=True, queue_allocatable=3), plugin("n", overused=False, queue_allocatable=5)
    session = opened([no], [yes])
    assert session.overused(0)
    assert not opened([no]).overused(0)
    assert session.queue_slots(0, np.zeros(4, np.int64)) == 3
    assert opened().queue_slots(0, np.zeros(4, np.int64)) == 2**31 - 1


def test_every_plugin_must_let_a_queue_take_from_others() -> None:
    yes, no = plugin("y", preemptive=True), plugin("n", preemptive=False)
    assert opened([yes]).preemptive(0, rows(0))
    assert not opened([yes], [no]).preemptive(0, rows(0))


# -- evictions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Eviction))
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], []),
        ([[None]], []),
        ([[(1, 2, 3)]], [1, 2, 3]),
        ([[(1, 2), (2, 3)]], [2]),
        ([[(1, 2), None, (2, 3)]], [2]),
        ([[(1,), (2,)], [(1, 2)]], []),
        ([[()], [(1, 2)]], []),
        ([[None], [(1, 2)]], [1, 2]),
        ([[(1,)], [(2,)]], [1]),
    ],
)
def test_victims_are_those_all_agree_on_in_the_first_tier_with_an_opinion(
    kind: Eviction, tiers: list[list[tuple[int, ...] | None]], expected: list[int]
) -> None:
    classes = [
        [plugin(f"p{i}{k}", evictable=None if a is None else rows(*a)) for k, a in enumerate(tier)]
        for i, tier in enumerate(tiers)
    ]
    assert opened(*classes).evictable(kind, Evictor(0, rows(0)), rows(1, 2, 3)).tolist() == expected


@pytest.mark.parametrize("breaks_gangs", [True, False])
def test_who_is_protected_stays_whatever_tier_says_so(breaks_gangs: bool) -> None:
    opinion, shield = plugin("o", evictable=lambda *asked: asked[2]), plugin("s", evictable=rows(2, 3))
    shield.protects = True
    for tiers in ([[opinion], [shield]], [[shield], [opinion]], [[opinion, shield]]):
        session = opened(*tiers)
        evictor = Evictor(0, rows(0), breaks_gangs)
        assert session.may_go(Eviction.RECLAIM, evictor, rows(1, 2, 3)).tolist() == [2, 3]
        assert session.evictable(Eviction.RECLAIM, evictor, rows(1, 2, 3)).tolist() == [2, 3]


# -- changes --------------------------------------------------------------------------------------------------------


def test_what_is_committed_is_kept_with_the_action_and_nothing_is_not() -> None:
    session = opened()
    session.statement("allocate").commit()
    assert session.committed == []
    statement = session.statement("allocate")
    statement.place(0, 1)
    statement.commit()
    assert [(done.action, len(done.operations)) for done in session.committed] == [("allocate", 1)]


def test_a_later_word_on_a_job_replaces_an_earlier_one() -> None:
    session = opened()
    session.record(0, JobVerdict(NOT_TRIED))
    session.record(0, JobVerdict(NO_A, "why"))
    assert session.verdicts == {0: JobVerdict(NO_A, "why")}


def test_the_same_seed_gives_the_same_random_numbers() -> None:
    draws = [opened(seed=seed).rng.random() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_nodes_that_are_not_ready_do_not_count_as_capacity() -> None:
    session = opened()
    gpus = session.total[session.snapshot.axis.index["nvidia.com/gpu"]]
    assert gpus == 16000


def test_arguments_reach_the_plugin() -> None:
    session = opened([plugin("p")])
    assert session.plugins["p"].arguments == Arguments()
