"""The search for victims: it ends where it is told to, says so, and leaves no trace of what it gave up."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from muster.api import KubeObject
from muster.engine.evictions.options import ConsolidationOptions, SolverOptions
from muster.engine.evictions.simulation import VictimRecords
from muster.engine.evictions.solver import trial
from muster.engine.evictions.solver.strategy import ScenarioRecords
from muster.engine.evictions.solver.trial import Turns, Waiting
from muster.engine.lines import Key
from muster.framework import Session
from muster.framework.reasons import SEARCH_ENDED
from muster.scheduler.decisions import decisions_of
from muster.snapshot import TaskStatus
from muster.snapshot.messages import Evict
from muster.testing import node, pod
from tests.engine.evictions.solver.solver_stage import (
    act,
    evicted,
    gang,
    gone,
    job_row,
    kai,
    kai_queue,
    moved,
    nodes,
    open_session,
    promised,
    run_solver,
    task_row,
)
from tests.snapshot.test_statement import assert_same, frozen

Q: list[KubeObject] = [kai_queue("q"), kai_queue("other")]


def mixed(name: str, created: float = 50) -> list[KubeObject]:
    """A gang of two kinds of pods: it cannot be forecast, so that its search goes step by step."""
    small = gang(name, pending=2, minimum=3, priority="high", created=created)
    return [*small, pod(f"{name}-big", group=name, gpu=2, priority=90, created=created)]


def full(gpus: int = 4) -> list[KubeObject]:
    """A node full of single pods."""
    return [*nodes(1, gpu=gpus), *(item for k in range(gpus) for item in gang(f"old{k}", on=["n0"], priority="low"))]


def solve(objects: list[KubeObject], options: SolverOptions) -> Session:
    session = open_session([*Q, *objects], kai("preempt"))
    run_solver(session, options)
    return session


def test_a_search_that_needs_more_dry_runs_than_allowed_is_given_up_with_that_reason() -> None:
    objects = [*full(), *mixed("new")]
    session = open_session([*Q, *objects], kai("preempt"))
    before = frozen(session.snapshot)
    run_solver(session, SolverOptions(max_trials_per_job=2))
    verdict = session.verdicts[job_row(session, "new")]
    assert (verdict.reason, verdict.detail) == (SEARCH_ENDED, "preempt: after 2 dry runs")
    assert session.committed == []
    assert_same(session.snapshot, before)
    assert len(evicted(solve(objects, SolverOptions()))) == 4


def test_dry_runs_are_limited_over_all_jobs_of_a_cycle() -> None:
    objects = [*full(), *mixed("new0", 50), *mixed("new1", 60)]
    options = SolverOptions(max_trials_per_cycle=2, use_signatures=False)
    session = solve(objects, options)
    details = [session.verdicts[job_row(session, name)].detail for name in ("new0", "new1")]
    assert details == ["preempt: after 2 dry runs", "preempt: after 0 dry runs"]


def test_a_job_that_is_easy_is_served_within_a_tight_bound() -> None:
    session = solve(
        [*full(), *gang("new", pending=4, priority="high", created=50)], SolverOptions(max_trials_per_job=1)
    )
    assert len(evicted(session)) == 4
    assert promised(session).keys() == {f"new-{k}" for k in range(4)}


def test_a_bound_that_ends_the_trimming_keeps_what_was_found() -> None:
    objects = [
        *nodes(1, gpu=4),
        *gang("small", on=["n0"], gpu=1, priority="low", created=9),
        *gang("large", on=["n0"], gpu=3, priority="low", created=1),
        *gang("new", pending=1, gpu=4, priority="high"),
    ]
    session = solve(objects, SolverOptions(max_trials_per_job=1, trim=True))
    assert evicted(session) == ["large-0", "small-0"]


def test_the_number_of_victim_jobs_is_limited() -> None:
    objects = [*full(), *gang("new", pending=3, priority="high", created=50)]
    assert solve(objects, ConsolidationOptions(max_victims=2)).committed == []
    assert len(evicted(solve(objects, ConsolidationOptions(max_victims=3)))) == 3


def test_growth_over_many_tasks_takes_few_dry_runs() -> None:
    """Forty tasks and a victim that holds all the room: growth doubles instead of going one by one."""
    one = gang("one", on=["n0"], gpu=42, priority="low")
    new = [
        *gang("new", pending=40, minimum=41, priority="high", created=50),
        pod("new-x", group="new", gpu=2, priority=90),
    ]
    session = solve([*nodes(1, gpu=42, cpu=200), *one, *new], SolverOptions(max_trials_per_job=10))
    assert evicted(session) == ["one-0"]
    assert len(promised(session)) == 41


# -- records -----------------------------------------------------------------------------------------------


def test_growth_keeps_the_rest_of_a_gang_at_hand_where_a_part_of_it_could_stay() -> None:
    """For its first pod one of the old ones moves and the other one stays; the second pod needs the place of both."""
    new = [*gang("new", pending=1, minimum=2, gpu=2, priority="high"), pod("new-1", group="new", gpu=2, cpu=2)]
    session = solve([*nodes(2, gpu=2), *gang("old", on=["n0", "n1"], priority="low"), *new], SolverOptions(trim=False))
    assert gone(session) == ["old-0", "old-1"]
    assert promised(session) == {"new-0": "n0", "new-1": "n1"}


def test_growth_without_trimming_leaves_alone_who_could_stay_on_the_way() -> None:
    """When the second place is made, nobody gets the one that old-0 has kept."""
    session = solve(
        [
            *nodes(3, gpu=3),
            *gang("firm", on=["n1"], gpu=2, firm=True),
            *gang("core", on=["n0", "n2"], gpu=2, priority="low", created=1),
            *gang("old", on=["n1", "n0"], minimum=1, priority="low", created=2),
            *gang("side", on=["n2"], priority="mid"),
            *gang("new", pending=2, gpu=3, priority="high"),
        ],
        SolverOptions(trim=False),
    )
    assert gone(session) == ["core-0", "core-1", "old-1", "side-0"]
    assert moved(session) == {}


def test_without_trimming_somebody_is_asked_to_leave_at_every_step_although_there_is_room() -> None:
    """For its first pods `old` could stay, but for the last one it is asked again: together they fill its node."""
    objects = [node("n0", gpu=6), node("n1", gpu=4), *gang("old", on=["n1"], priority="low"), *mixed("new")]
    session = solve(objects, SolverOptions(trim=False))
    assert moved(session) == {"old-0": "n0"}
    assert set(promised(session).values()) == {"n1"}


def test_without_trimming_the_first_pods_of_equals_take_somebody_too_where_there_is_room_for_some() -> None:
    """Where one more place is counted as missing, growth has packed `idle` closer before it looks for it."""
    session = solve(
        [
            *(node(f"n{k}", gpu=gpu, cpu=cpu) for k, (gpu, cpu) in enumerate(((3, 8), (3, 8), (1, 64)))),
            *gang("firm", on=["n2"], firm=True),
            *gang("idle", on=["n2"], gpu=0, cpu=1, priority="low", created=9),
            *gang("old", on=["n1"], gpu=3, priority="low"),
            *gang("new", pending=2, gpu=3, priority="high"),
        ],
        SolverOptions(trim=False),
    )
    assert gone(session) == ["old-0"]
    assert moved(session) == {"idle-0": "n0"}


def test_without_trimming_the_node_of_a_pod_that_could_stay_is_not_opened_for_the_next_step() -> None:
    """For the first pod old-0 moves to n2 and old-1 stays on n0; when n2 is needed, n0 is closed to both."""
    objects = [
        *(node(f"n{k}", gpu=gpu) for k, gpu in enumerate((2, 2, 3))),
        *gang("old", on=["n1", "n0"], gpu=2, priority="low"),
        *gang("new", pending=1, minimum=2, priority="high"),
        pod("new-1", group="new", gpu=2, priority=90),
    ]
    session = solve(objects, SolverOptions(trim=False))
    assert gone(session) == ["old-0", "old-1"]
    assert set(promised(session).values()) == {"n2"}
    assert gone(solve(objects, SolverOptions())) == []


@pytest.mark.parametrize("looks_ahead", [True, False])
def test_a_beneficiary_of_which_something_runs_stands_as_in_the_next_allocate_or_as_in_kai(
    monkeypatch: pytest.MonkeyPatch, looks_ahead: bool
) -> None:
    """A pod of `new` runs, so allocate serves `wait`, which lacks its minimum, first; KAI's dry runs do not."""
    stands_behind: list[bool] = []

    class Watched(Turns):
        def __init__(
            self, session: Session, waiting: Waiting, jobs: Collection[int], key_of: Callable[[int], Key]
        ) -> None:
            new, wait = (job_row(session, name) for name in ("new", "wait"))
            stands_behind.append(key_of(new) > session.job_key(wait))
            super().__init__(session, waiting, jobs, key_of)

    monkeypatch.setattr(trial, "Turns", Watched)
    new = gang("new", on=["n1"], pending=1, minimum=1, priority="high")
    objects = [*full(), node("n1", gpu=1), *new, *gang("wait", pending=1, gpu=9, priority="high", created=50)]
    solve(objects, SolverOptions(trim=False, growth_breaks_gangs=True, looks_ahead=looks_ahead))
    assert set(stands_behind) == {looks_ahead}


def test_nobody_is_moved_to_a_node_whose_gpus_go_free_for_somebody_else() -> None:
    """n0 is closer to full, but the GPUs that `leaving` gives back there are promised to `first`."""
    objects = [
        *nodes(2, gpu=2, cpu=8),
        *gang("leaving", on=["n0"], gpu=2, priority="low", created=9),
        *gang("firm", "other", on=["n0"], gpu=0, cpu=4, firm=True),
        *gang("side", on=["n1"], gpu=0, cpu=1, priority="low"),
        *gang("old", on=["n1"], gpu=2, priority="low"),
        *gang("first", pending=1, gpu=2, priority="high", created=1),
        *gang("second", pending=1, gpu=2, priority="high", created=2),
    ]
    session = solve(objects, SolverOptions(trim=False))
    assert gone(session) == ["leaving-0", "old-0"]
    assert moved(session) == {}


@pytest.mark.parametrize(("looks_ahead", "expected"), [(True, {}), (False, {"side-0": "n1"})])
def test_as_in_kai_pods_may_move_to_nodes_of_an_offer_that_was_refused(
    looks_ahead: bool, expected: dict[str, str]
) -> None:
    """Without `old` there is room on n1, but `old` would have none; `side` comes next, and no GPU is free on n1."""
    objects = [
        node("n0", gpu=2, cpu=8),
        node("n1", gpu=2, cpu=16),
        *gang("side", on=["n0"], gpu=0, cpu=7, priority="low"),
        *gang("old", on=["n1"], gpu=2, cpu=2, priority="low", created=9),
        *gang("new", pending=1, gpu=2, cpu=4),
    ]
    session = act([*Q, *objects], kai("consolidation", consolidation={"looksAhead": looks_ahead}))
    assert gone(session) == []
    assert moved(session) == expected


@pytest.mark.parametrize(
    ("looks_ahead", "goes", "moves", "places"),
    [(True, [], {"old-0": "n1"}, {"new-0": "n0"}), (False, ["old-0"], {}, {"new-0": "n0", "old": "n1"})],
)
def test_as_in_kai_a_victims_gang_is_served_anew_with_its_first_pods(
    looks_ahead: bool, goes: list[str], moves: dict[str, str], places: dict[str, str]
) -> None:
    """The pod `old`, which waits, comes before `old-0`, which runs: KAI gives it the place to which that one moves."""
    objects = [
        node("n0", gpu=2),
        node("n1", gpu=1),
        *gang("old", on=["n0"], minimum=1, priority="low"),
        pod("old", group="old", gpu=1, priority=10),
        *gang("new", pending=1, gpu=2, priority="high"),
    ]
    session = solve(objects, SolverOptions(trim=False, looks_ahead=looks_ahead))
    assert gone(session) == goes
    assert moved(session) == moves
    assert promised(session) == places


def test_a_record_says_for_whom_and_how_much_was_looked_at() -> None:
    session = solve([*full(), *gang("new", pending=2, priority="high", created=50)], SolverOptions())
    made = [decision for decision in decisions_of(session) if isinstance(decision, Evict)]
    assert {decision.beneficiary for decision in made} == {"default/new"}
    assert made[0].record == {
        "beneficiary": "default/new",
        "movesTo": None,
        "victims": 2,
        "moved": 0,
        "trials": 1,
        "offered": 2,
    }
    assert made[0].why == "preempt: makes room for default/new: 2 pods go (found by 1 dry run)"


def test_the_record_of_a_moved_pod_says_where_it_goes() -> None:
    objects = [
        *nodes(2, gpu=4),
        *gang("a", on=["n0"], gpu=2, priority="low"),
        *gang("b", on=["n1"], gpu=2, priority="low"),
    ]
    session = solve([*objects, *gang("new", pending=1, gpu=4, priority="high")], SolverOptions())
    (name,) = moved(session)
    (operation,) = [one for one in session.committed[0].operations if one.record is not None]
    assert isinstance(operation.record, VictimRecords)
    record = operation.record.of_task(task_row(session, name))
    assert record.facts["movesTo"] == moved(session)[name]
    assert (record.facts["victims"], record.facts["moved"]) == (1, 1)


@pytest.mark.parametrize(
    ("task", "counts", "text"),
    [
        ("a-0", (1, 0, 1, 1), "makes room for default/new: 1 pod goes (found by 1 dry run)"),
        (
            "b-0",
            (3, 2, 4, 9),
            "makes room for default/new and moves to n1: 3 pods go, 2 of them to other nodes (found by 4 dry runs)",
        ),
    ],
)
def test_a_record_as_text(task: str, counts: tuple[int, int, int, int], text: str) -> None:
    objects = [*nodes(2, gpu=4), *gang("a", on=["n0"], gpu=2), *gang("b", on=["n1"], gpu=2)]
    session = open_session([*objects, *gang("new", pending=1, gpu=4)], kai("preempt"))
    session.snapshot.tasks.status[task_row(session, "b-0")] = TaskStatus.PIPELINED
    record = ScenarioRecords(session.snapshot, job_row(session, "new"), *counts).of_task(task_row(session, task))
    assert record.text == text
    assert record.facts["movesTo"] == ("n1" if task == "b-0" else None)
