"""Reports that wait in their queue, or are refused."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import cast

import pytest

from muster.api import KubeObject, ObjectMeta, PodGroup
from muster.api.names import STALE_STAMP, START_STAMP
from muster.cluster.kubernetes.client.kinds import Resource
from muster.cluster.kubernetes.client.requests import ApiError
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumptions
from muster.cluster.kubernetes.sending.in_flight import InFlight
from muster.cluster.kubernetes.sending.queues import Inbox, Request
from muster.cluster.kubernetes.verbs.job_reports import JobReports
from muster.snapshot.messages import Event, JobUpdate

RUNNING = JobUpdate("ns/train", "Running", running=2, succeeded=0, failed=0, annotations={"started": "now"})


def group(uid: str) -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name="train", namespace="ns", uid=uid))


async def answer_of(request: Request) -> str:
    answer = await request.run()
    assert isinstance(answer, str)
    return answer


class Api:
    """An API thread of which only one queue and the server's answers matter."""

    def __init__(self) -> None:
        self.client = self.reports = self
        self.there = "old"
        self.leads = True
        self.refuses = False
        self.answer = ApiError(403, "Forbidden", "no")
        self.waiting: list[Request] = []
        self.n_sent = 0

    def resource(self, kind: type[KubeObject]) -> Resource:
        return Resource(kind, "/apis/scheduling.volcano.sh/v1beta1", "podgroups")

    def is_there(self, thing: KubeObject) -> bool:
        return thing.metadata.uid == self.there

    def may_act(self) -> bool:
        return self.leads

    def submit(self, requests: list[Request]) -> None:
        self.waiting += requests

    async def send(self, *_words: object, **_options: object) -> bytes:
        self.n_sent += 1
        if self.refuses:
            raise self.answer
        return b""

    def run_queue(self, inbox: Inbox) -> None:
        requests, self.waiting = self.waiting, []
        for request in requests:
            request.done(asyncio.run(answer_of(request)))
        for settle in inbox.take()[1]:
            settle()


class Desk:
    """Reports about one PodGroup."""

    def __init__(self, confirm_s: float = 60.0) -> None:
        self.api, self.inbox, self.assumptions = Api(), Inbox(), Assumptions()
        api = cast("ApiThread", self.api)
        self.in_flight = InFlight(self.inbox, api, self.assumptions, confirm_s)
        self._reports = JobReports(api, self.assumptions, self.in_flight)
        self.assumptions.observe(Event("ADDED", group("old")))

    def report(self, update: JobUpdate = RUNNING) -> None:
        assert self._reports.update_jobs([update], 0.0) == []

    def phase(self) -> str:
        """What the scheduler takes the phase to be."""
        found = self.assumptions.find_assumed(PodGroup, "ns/train")
        assert found is not None
        return found.status.phase


def test_only_the_stamp_of_a_start_may_wait_for_long() -> None:
    desk = Desk()
    for marks in ({START_STAMP: "now"}, {STALE_STAMP: "now"}, {START_STAMP: "now", STALE_STAMP: None}):
        desk.report(replace(RUNNING, annotations=marks))
    patience = [request.patience_s for request in desk.api.waiting if "annotations" in str(request.about)]
    assert patience == [60.0, 0.0, 0.0]
    assert {request.patience_s for request in desk.api.waiting if "annotations" not in str(request.about)} == {0.0}


def test_a_report_that_waited_until_its_object_was_made_anew_is_not_sent() -> None:
    desk = Desk()
    desk.report()
    desk.api.there = "new"
    desk.api.run_queue(desk.inbox)
    assert desk.api.n_sent == 0


def test_that_an_object_is_gone_is_no_refusal(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.api.refuses, desk.api.answer = True, ApiError(404, "NotFound", "no such PodGroup")
    desk.report()
    desk.api.run_queue(desk.inbox)
    assert desk.api.n_sent == 2
    assert desk.phase() == "Running"  # until the watch says that it is gone, it is not written again
    desk.api.there = "new"
    desk.report()
    desk.api.run_queue(desk.inbox)
    assert desk.api.n_sent == 2
    assert not desk.in_flight.refused
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


def test_a_report_that_was_refused_counts_as_made_until_it_may_be_tried_again() -> None:
    desk = Desk()
    desk.api.refuses = True
    desk.report()
    desk.api.run_queue(desk.inbox)
    assert desk.api.n_sent == 2
    assert desk.phase() == "Running"

    soon = Desk(confirm_s=0.0)
    soon.api.refuses = True
    soon.report()
    soon.api.run_queue(soon.inbox)
    soon.in_flight.look_at_overdue()
    assert soon.phase() == ""


def test_a_report_that_was_refused_because_another_leads_is_taken_back() -> None:
    desk = Desk()
    desk.api.refuses, desk.api.leads = True, False
    desk.report()
    desk.api.run_queue(desk.inbox)
    assert desk.phase() == ""


def test_a_report_that_is_refused_again_rests_longer_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    moment = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    desk = Desk(confirm_s=10.0)
    desk.api.refuses = True
    attempts = []
    for second in range(100):
        moment = float(second)
        desk.in_flight.look_at_overdue()
        before = desk.api.n_sent
        if desk.phase() == "":
            desk.report()  # every cycle would, as long as it is not what stands there
        desk.api.run_queue(desk.inbox)
        if desk.api.n_sent > before:
            attempts.append(second)
    assert attempts == [0, 10, 30, 70]
    refused = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(refused) == 2  # one for the status, one for the annotation
    desk.api.refuses = False
    moment = 150.0
    desk.in_flight.look_at_overdue()
    desk.report()
    desk.api.run_queue(desk.inbox)
    assert desk.api.n_sent == 10


def test_a_newer_report_on_what_was_refused_rests_too(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    desk = Desk(confirm_s=10.0)
    desk.api.refuses = True
    for second in range(10):
        moment = float(second)
        desk.report()
        desk.api.run_queue(desk.inbox)
    assert desk.api.n_sent == 2


def test_a_server_that_does_not_answer_is_asked_again_without_longer_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    desk = Desk(confirm_s=10.0)
    desk.api.refuses, desk.api.answer = True, ApiError(503, "ServiceUnavailable", "later")
    for second in range(35):
        moment = float(second)
        desk.in_flight.look_at_overdue()
        if desk.phase() == "":
            desk.report()
        desk.api.run_queue(desk.inbox)
    assert desk.api.n_sent == 8
