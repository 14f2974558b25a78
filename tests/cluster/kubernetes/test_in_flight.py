from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from muster.api import ObjectMeta, Pod
from muster.cluster.kubernetes.client.requests import ApiError, Client
from muster.cluster.kubernetes.sending.in_flight import Race, bind_pod

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))


class Server:
    """Answers a binding with a status, and says where the pod is."""

    def __init__(self, status: int, node: str) -> None:
        self._status = status
        self._node = node

    async def send(self, method: str, *_words: object, **_options: object) -> bytes:
        if method == "POST":
            raise ApiError(self._status, "", "no")
        return json.dumps({"metadata": {"uid": "u"}, "spec": {"nodeName": self._node}}).encode()


def answer(status: int, node: str = "") -> str:
    return asyncio.run(bind_pod(cast("Client", Server(status, node)), POD, "n1"))


@pytest.mark.parametrize("node", ["", "n2"])
def test_a_conflict_is_a_race_that_somebody_else_has_won(node: str) -> None:
    assert isinstance(answer(409, node), Race)


def test_a_conflict_with_our_own_earlier_attempt_is_none() -> None:
    assert answer(409, "n1") == ""


@pytest.mark.parametrize("status", [403, 422, 500])
def test_any_other_refusal_is_no_race(status: int) -> None:
    said = answer(status)
    assert str(status) in said
    assert not isinstance(said, Race)
