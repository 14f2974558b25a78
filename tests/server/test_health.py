"""Probes tell what an operator would want to know: whether pods are being decided about."""

from __future__ import annotations

import pytest

from muster.server import Service, ServiceOptions
from muster.server.status import GIVE_UP_AFTER, UNREADY_AFTER, Health
from muster.snapshot.messages import Event
from tests.server.test_service import Unreachable


class Stage:
    def __init__(self) -> None:
        self.now = 1000.0
        self.silent_s = 0.0
        self.health = Health(lambda limit_s: "no news" if self.silent_s > limit_s else "", lambda: self.now)
        self.health.start()

    def probes(self) -> tuple[bool, bool]:
        """Whether it is healthy, and ready."""
        return not self.health.unhealthy(), not self.health.unready()


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_what_has_not_begun_is_not_ready_but_alive() -> None:
    health = Health(lambda _: "")
    assert health.unready() == "the cluster has not been read yet"
    assert health.unhealthy() == ""


def test_cycles_that_fail_show(stage: Stage) -> None:
    assert stage.probes() == (True, True)
    for number in range(1, GIVE_UP_AFTER):
        stage.health.begin(leads=True)
        assert not stage.health.fail("boom")
        assert stage.probes() == (True, number < UNREADY_AFTER)
    assert stage.health.fail("boom"), "time to give the lease up"
    assert stage.probes() == (False, False)
    assert stage.health.unhealthy() == "10 cycles in a row have failed: boom"


def test_a_cycle_that_succeeds_ends_it(stage: Stage) -> None:
    for _ in range(GIVE_UP_AFTER):
        stage.health.fail("boom")
    stage.health.succeed()  # follows, and sees everything
    assert stage.probes() == (False, False), "it has not shown that it could lead"
    stage.health.recover()
    assert stage.probes() == (True, True)


def test_pods_that_nobody_decides_about_show_also_while_the_loop_turns(stage: Stage) -> None:
    for _ in range(13):
        stage.health.begin(leads=True)  # and no cycle succeeds
        stage.now += 10
    assert stage.health.undecided_s() == 130
    assert stage.probes() == (True, False)
    for _ in range(50):
        stage.health.begin(leads=True)
        stage.now += 10
    assert stage.probes() == (False, False)
    assert stage.health.unhealthy() == "pods have waited 630 s for a decision"
    stage.health.recover()
    assert stage.health.undecided_s() == 0


def test_who_does_not_lead_leaves_nobody_undecided(stage: Stage) -> None:
    stage.health.begin(leads=True)
    stage.now += 200
    stage.health.begin(leads=False)
    assert stage.health.undecided_s() == 0
    assert stage.probes() == (True, True)


def test_watches_that_are_silent_show(stage: Stage) -> None:
    stage.silent_s = 121
    assert stage.probes() == (True, False)
    stage.silent_s = 601
    assert stage.probes() == (False, False)


def test_a_loop_that_is_stuck_shows(stage: Stage) -> None:
    stage.now += 121
    assert stage.probes() == (False, False)
    assert stage.health.unhealthy() == "no cycle for 121 s"


class Failing(Unreachable):
    """A cluster of which nothing can be made."""

    is_failing = True
    leads = True

    def is_leader(self) -> bool:
        return self.leads

    def poll(self) -> list[Event]:
        if self.is_failing:
            raise ZeroDivisionError("made up")
        return super().poll()


def test_a_leader_whose_cycles_fail_gives_the_lease_up_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Failing()
    service = Service(cluster, ServiceOptions())
    service.health.start()
    for _ in range(GIVE_UP_AFTER - 1):
        service.turn()
    assert cluster.n_stood_down == 0
    assert service.health.unready()
    service.turn()
    assert cluster.n_stood_down == 1
    assert "event=standing-down" in caplog.text
    assert "made up" in service.health.unhealthy()
    cluster.is_failing = False
    service.turn()
    assert (service.health.unhealthy(), service.health.unready()) == ("", "")
    assert "muster_cycle_errors_total 10" in service.metrics.text()


def test_a_replica_that_stands_by_survives_what_it_cannot_take_in() -> None:
    cluster = Failing()
    cluster.leads = False
    service = Service(cluster, ServiceOptions())
    service.health.start()
    for _ in range(GIVE_UP_AFTER):
        service.turn()
    assert cluster.n_stood_down == 0, "it has no lease to give up"
    assert service.health.unhealthy()
