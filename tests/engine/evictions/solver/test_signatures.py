"""Jobs that need no search: which conditions make two jobs comparable, and which of them is the easier."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from muster.api import KaiPodGroup, KubeObject, Pod
from muster.api.objects.pod import ContainerPort
from muster.api.objects.scheduling import KaiTopologyConstraint
from muster.engine.evictions.options import SolverOptions
from muster.engine.evictions.solver import strategy as path
from muster.engine.evictions.solver.search import Search
from muster.engine.evictions.solver.strategy import FailedJobs
from muster.framework import Eviction, Session
from tests.engine.evictions.solver.solver_stage import (
    gang,
    job_row,
    kai,
    kai_queue,
    nodes,
    open_session,
    promised,
    run_solver,
)

Q: list[KubeObject] = [kai_queue("q"), kai_queue("other")]


def stage(*objects: KubeObject) -> Session:
    return open_session([*Q, *nodes(2, gpu=8), *objects], kai("preempt"))


def rules_out(session: Session, failed: str, other: str, kind: Eviction = Eviction.PREEMPT) -> bool:
    """Whether the failure of one job spares the search of another."""
    known = FailedJobs(session, kind)
    rows = {name: job_row(session, name) for name in (failed, other)}
    known.note(rows[failed], session.snapshot.tasks_of(rows[failed]))
    return known.easier(rows[other], session.snapshot.tasks_of(rows[other])) is not None


def pair(first: dict[str, Any], second: dict[str, Any]) -> Session:
    return stage(*gang("a", pending=2, **first), *gang("b", pending=2, **second))


def with_port(objects: list[KubeObject]) -> list[KubeObject]:
    def open_port(item: Pod) -> Pod:
        container = msgspec.structs.replace(item.spec.containers[0], ports=[ContainerPort(host_port=80)])
        return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, containers=[container]))

    return [open_port(item) if isinstance(item, Pod) else item for item in objects]


def with_level(objects: list[KubeObject], level: str) -> list[KubeObject]:
    near = KaiTopologyConstraint(topology="net", required_topology_level=level)
    return [
        msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, topology_constraint=near))
        if isinstance(item, KaiPodGroup)
        else item
        for item in objects
    ]


def test_an_equal_job_is_ruled_out() -> None:
    assert rules_out(pair({}, {}), "a", "b")


def test_a_job_that_wants_more_is_ruled_out_and_one_that_wants_less_is_not() -> None:
    session = stage(*gang("small", pending=1), *gang("large", pending=3))
    assert rules_out(session, "small", "large")
    assert not rules_out(session, "large", "small")


def test_among_pods_that_are_alike_those_that_ask_for_less_are_the_easier() -> None:
    session = pair({"gpu": 1}, {"gpu": 2})
    assert rules_out(session, "a", "b")
    assert not rules_out(session, "b", "a")
    mixed = pair({"gpu": 1, "cpu": 2}, {"gpu": 2, "cpu": 1})
    assert not rules_out(mixed, "a", "b")
    assert not rules_out(mixed, "b", "a")


def test_fewer_pods_that_ask_for_more_are_not_comparable() -> None:
    session = stage(*gang("many", pending=3, gpu=1), *gang("large", pending=1, gpu=2))
    assert not rules_out(session, "many", "large")
    assert not rules_out(session, "large", "many")


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"priority": "high"}, id="priority"),
        pytest.param({"queue": "other"}, id="queue"),
        pytest.param({"firm": True}, id="preemptible"),
        pytest.param({"selector": {"zone": "a"}}, id="nodes"),
    ],
)
def test_jobs_under_other_conditions_are_searched_for(second: dict[str, Any]) -> None:
    assert not rules_out(pair({}, second), "a", "b")


def test_consolidation_does_not_look_at_queues() -> None:
    assert rules_out(pair({}, {"queue": "other"}), "a", "b", Eviction.CONSOLIDATE)
    assert not rules_out(pair({}, {"priority": "high"}), "a", "b", Eviction.CONSOLIDATE)


def test_levels_of_the_network_are_conditions() -> None:
    def levels(first: str, second: str) -> Session:
        return stage(*with_level(gang("a", pending=2), first), *with_level(gang("b", pending=2), second))

    assert rules_out(levels("rack", "rack"), "a", "b")
    assert not rules_out(levels("rack", "zone"), "a", "b")


def test_jobs_whose_places_depend_on_other_pods_are_always_searched_for() -> None:
    session = stage(*with_port(gang("a", pending=1)), *with_port(gang("b", pending=1)))
    assert not rules_out(session, "a", "b")


def test_failures_are_forgotten() -> None:
    session = pair({}, {})
    known = FailedJobs(session, Eviction.PREEMPT)
    rows = {name: job_row(session, name) for name in "ab"}
    known.note(rows["a"], session.snapshot.tasks_of(rows["a"]))
    known.forget()
    assert known.easier(rows["b"], session.snapshot.tasks_of(rows["b"])) is None


def searches(monkeypatch: pytest.MonkeyPatch, session: Session, options: SolverOptions) -> list[str]:
    """Jobs that a run of the strategy makes a search for."""
    made: list[str] = []

    class Counting(Search):
        def solve(self, pending: Any) -> Any:
            job = int(session.snapshot.tasks.job[pending[0]])
            made.append(session.snapshot.jobs.records[job].name)
            return super().solve(pending)

    monkeypatch.setattr(path, "Search", Counting)
    run_solver(session, options)
    return made


def hopeless() -> Session:
    """Nobody can be helped: the one victim is too small."""
    new = [item for k in range(3) for item in gang(f"new{k}", pending=1, gpu=8, priority="high", created=k)]
    return open_session([*Q, *nodes(1, gpu=4), *gang("old", on=["n0"], priority="low"), *new], kai("preempt"))


def test_of_many_equal_jobs_that_cannot_be_helped_one_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searches(monkeypatch, hopeless(), SolverOptions()) == ["new0"]


def test_without_signatures_every_job_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searches(monkeypatch, hopeless(), SolverOptions(use_signatures=False)) == ["new0", "new1", "new2"]


def test_after_a_commit_failed_jobs_are_searched_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed may have changed the outcome for a job like the one that failed."""
    objects = [
        *nodes(2, gpu=4),
        *gang("old", on=["n0"], gpu=1, priority="low"),
        *gang("aged", on=["n1"], gpu=1, priority="low"),
        *gang("big0", pending=1, gpu=8, priority="high", created=1),
        *gang("fits", pending=1, gpu=4, priority="high", created=2),
        *gang("big1", pending=1, gpu=8, priority="high", created=3),
    ]
    session = open_session([*Q, *objects], kai("preempt"))
    assert searches(monkeypatch, session, SolverOptions()) == ["big0", "fits", "big1"]
    assert promised(session).keys() == {"fits-0"}


def test_only_the_first_jobs_of_a_queue_are_tried_where_that_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SolverOptions(use_signatures=False, max_jobs_per_queue=2)
    assert searches(monkeypatch, hopeless(), options) == ["new0", "new1"]


def test_where_the_disruption_is_limited_a_larger_job_may_succeed_where_a_smaller_one_failed() -> None:
    objects = [
        *nodes(1, gpu=4),
        *gang("old", on=["n0"] * 4, priority="low"),
        *gang("small", pending=1, priority="high", created=1),
        *gang("large", pending=2, priority="high", created=2),
    ]
    session = open_session([*Q, *objects], kai("preempt"))
    run_solver(session, SolverOptions(max_disruption_ratio=2.0))
    assert promised(session).keys() == {"large-0", "large-1"}
