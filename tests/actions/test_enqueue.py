"""Enqueue: who is admitted, in which order, and what keeps others out."""

from __future__ import annotations

import pytest

from muster.actions.enqueue import Enqueue
from muster.api import KubeObject
from muster.framework import Arguments, Plugin, PluginOption, Registry, SchedulerConfig, Session, Vote
from muster.snapshot import JobPhase, Mirror
from muster.testing import gang, node, pod, pod_group, queue


class Doorkeeper(Plugin):
    """Admits jobs up to a number, and remembers who asked."""

    name = "doorkeeper"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.asked: list[str] = []
        self.told: list[str] = []
        self.places = 99

    def job_enqueueable(self, job: int) -> Vote:
        self.asked.append(self.session.snapshot.jobs.records[job].name)
        return Vote.PERMIT if len(self.told) < self.places else Vote.REJECT

    def job_enqueued(self, job: int) -> None:
        self.told.append(self.session.snapshot.jobs.records[job].name)


def opened(*objects: KubeObject) -> tuple[Session, Doorkeeper]:
    mirror = Mirror()
    for item in (*objects, node("n", gpu=8), queue("default", created=0.0)):
        mirror.upsert(item)
    config = SchedulerConfig(("enqueue",), ((PluginOption("doorkeeper"),),))
    session = Session(mirror.snapshot(), config, Registry.of([Doorkeeper], [Enqueue]))
    keeper = session.plugins["doorkeeper"]
    assert isinstance(keeper, Doorkeeper)
    return session, keeper


def enqueue(session: Session) -> dict[str, JobPhase]:
    Enqueue(Arguments()).run(session)
    jobs = session.snapshot.jobs
    return {record.name: JobPhase(int(jobs.phase[row])) for row, record in enumerate(jobs.records)}


def waiting(name: str, created: float, queue: str = "default") -> list[KubeObject]:
    return gang(name, 1, gpu=1, min_resources={"gpu": 1}, created=created, queue=queue)


def test_jobs_are_asked_about_in_order_and_admitted_while_there_is_room() -> None:
    session, keeper = opened(*waiting("late", 3.0), *waiting("early", 1.0), *waiting("middle", 2.0))
    keeper.places = 2
    assert enqueue(session) == {"early": JobPhase.INQUEUE, "middle": JobPhase.INQUEUE, "late": JobPhase.PENDING}
    assert keeper.asked == ["early", "middle", "late"]
    assert keeper.told == ["early", "middle"]
    (verdict,) = session.verdicts.values()
    assert verdict.reason.code == "not-admitted"


def test_a_job_that_names_no_resources_is_admitted_unasked() -> None:
    session, keeper = opened(*gang("job", 1, gpu=1))
    keeper.places = 0
    assert enqueue(session) == {"job": JobPhase.INQUEUE}
    assert keeper.asked == []


def test_queues_take_turns() -> None:
    session, keeper = opened(
        queue("other", created=1.0),
        *waiting("a1", 1.0),
        *waiting("a2", 2.0),
        *waiting("b1", 1.0, "other"),
    )
    enqueue(session)
    assert keeper.asked == ["a1", "a2", "b1"]


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_jobs_that_were_admitted_are_left_alone(phase: str) -> None:
    session, keeper = opened(pod_group("job", min_resources={"gpu": 1}, phase=phase), pod("job-0", group="job"))
    before = int(session.snapshot.jobs.phase[0])
    enqueue(session)
    assert int(session.snapshot.jobs.phase[0]) == before
    assert keeper.asked == []


def test_a_job_whose_queue_does_not_exist_is_not_admitted_and_says_so() -> None:
    session, _ = opened(*waiting("job", 1.0, "nowhere"))
    assert enqueue(session) == {"job": JobPhase.PENDING}
    (verdict,) = session.verdicts.values()
    assert (verdict.reason.code, verdict.detail) == ("queue-missing", "nowhere")


def test_pods_of_a_podgroup_that_does_not_exist_are_not_admitted() -> None:
    session, _ = opened(pod("p", group="missing", gpu=1))
    assert list(enqueue(session).values()) == [JobPhase.PENDING]
