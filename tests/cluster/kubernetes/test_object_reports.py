"""Reports on objects whose conditions others write as well."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from muster.api import HyperNode, KaiQueue, KubeObject, ObjectMeta
from muster.cluster.kubernetes.client.kinds import ObjectDecoder, Resource
from muster.cluster.kubernetes.client.requests import ApiError
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumptions
from muster.cluster.kubernetes.sending.in_flight import REPLACED, InFlight
from muster.cluster.kubernetes.sending.queues import Inbox, Request
from muster.cluster.kubernetes.verbs.object_reports import ObjectReports
from muster.snapshot.messages import Event, HyperNodeUpdate, QuarantineUpdate

Json = dict[str, Any]  # Any: a document

FOREIGN = {
    "type": "Cabled",
    "status": "True",
    "reason": "Seen",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "observedGeneration": 7,
    "seenBy": "somebody",
}
LATER = {"type": "Cooled", "status": "False"}


class Api:
    """A server with one object, which a merge patch changes if it was made from the version that stands there."""

    def __init__(self) -> None:
        self.client = self.reports = self
        self.uid = "u"
        self.version = 1
        self.status: Json = {"conditions": [FOREIGN]}
        #: What others write right after each of the next readings.
        self.others: list[Json] = []
        self.sent: list[str] = []
        self.answers: list[str] = []

    def resource(self, kind: type[KubeObject]) -> Resource:
        return Resource(kind, "/apis/example.org/v1", "things")

    def submit(self, requests: list[Request]) -> None:
        for request in requests:
            self.answers.append(asyncio.run(cast("Any", request.run())))  # Any: a coroutine

    async def send(self, method: str, _path: str, body: bytes | None = None, **_options: object) -> bytes:
        self.sent.append(method)
        if method == "GET":
            metadata = {"uid": self.uid, "resourceVersion": str(self.version)}
            answer = json.dumps({"items": [{"metadata": metadata, "status": self.status}]})
            if self.others:
                self._write({"conditions": [*self.status["conditions"], self.others.pop(0)]})
            return answer.encode()
        patch = json.loads(body or b"")
        if patch["metadata"].get("resourceVersion", str(self.version)) != str(self.version):
            raise ApiError(409, "Conflict", "the object has been modified")
        self._write(patch["status"])
        return b""

    def _write(self, status: Json) -> None:
        self.version += 1
        self.status |= status

    def types(self) -> list[str]:
        return [known["type"] for known in self.status["conditions"]]


class Desk:
    """Reports to it."""

    def __init__(self) -> None:
        self.api, self.assumptions = Api(), Assumptions()
        api = cast("ApiThread", self.api)
        self.reports = ObjectReports(api, self.assumptions, InFlight(Inbox(), api, self.assumptions, 60.0))

    def report(self, update: HyperNodeUpdate) -> None:
        rack = HyperNode(metadata=ObjectMeta(name="rack", uid="u"))
        self.assumptions.observe(Event("ADDED", rack))
        assert self.reports.update_hypernodes([update], 0.0) == []


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_condition_goes_beside_those_of_others_which_keep_what_we_do_not_know(desk: Desk) -> None:
    desk.report(HyperNodeUpdate("rack", 3))
    assert desk.api.answers == [""]
    assert desk.api.status["nodeCount"] == 3
    assert desk.api.types() == ["Cabled", "Valid"]
    assert desk.api.status["conditions"][0] == FOREIGN


def test_what_others_write_meanwhile_is_not_lost(desk: Desk) -> None:
    desk.api.others = [LATER]
    desk.report(HyperNodeUpdate("rack", 3, "n9 does not exist"))
    assert desk.api.sent == ["GET", "PATCH", "GET", "PATCH"]
    assert desk.api.types() == ["Cabled", "Cooled", "Valid"]


def test_who_is_overtaken_every_time_gives_up_for_now(desk: Desk) -> None:
    desk.api.others = [LATER] * 100
    desk.report(HyperNodeUpdate("rack", 3))
    assert "409" in desk.api.answers[0]
    assert "Valid" not in desk.api.types()


def test_nothing_is_written_on_an_object_that_was_made_anew(desk: Desk) -> None:
    desk.api.uid = "another"
    desk.report(HyperNodeUpdate("rack", 3))
    assert (desk.api.answers, desk.api.sent) == ([REPLACED], ["GET"])


@pytest.mark.parametrize(
    ("kind", "version", "spec", "ours"),
    [
        (HyperNode, "topology.volcano.sh/v1alpha1", {"tier": "first"}, "Valid"),
        (KaiQueue, "scheduling.run.ai/v2", {"parentQueue": 7}, "muster.sh/Usable"),
    ],
    ids=["HyperNode", "Queue of KAI"],
)
@pytest.mark.parametrize("more", [{}, {"nodeCount": "many", "allocated": 7}], ids=["whole", "status unreadable too"])
def test_what_others_say_of_an_object_stays_when_it_cannot_be_read(
    desk: Desk, kind: type[KubeObject], version: str, spec: Json, ours: str, more: Json
) -> None:
    desk.api.status = {"conditions": [FOREIGN, {"type": ours, "status": "True"}], **more}
    metadata = {"name": "odd", "uid": desk.api.uid}
    document = {"apiVersion": version, "kind": kind.kind, "metadata": metadata, "spec": spec, "status": desk.api.status}
    thing, fault = ObjectDecoder(kind).decode_or_stub(json.dumps(document).encode())
    desk.reports.update_quarantine([QuarantineUpdate(thing, fault)], 0.0)
    foreign, said = desk.api.status["conditions"]
    assert foreign == FOREIGN
    assert (said["type"], said["status"], said["reason"]) == (ours, "False", "Quarantined")
    assert "expected" in said["message"]
