from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic

import pytest
from msgspec.structs import replace

from muster.api import KubeObject, Pod
from muster.cluster.kubernetes.client.reflector import can_wait
from muster.cluster.kubernetes.sending.queues import CALM_SECONDS, Inbox
from muster.snapshot.messages import Event
from muster.testing import node, pod, pod_group


def on(thing: Pod, where: str) -> Pod:
    return replace(thing, spec=replace(thing.spec, node_name=where))


def in_phase(thing: Pod, phase: str) -> Pod:
    return replace(thing, status=replace(thing.status, phase=phase))


def leaving(thing: Pod) -> Pod:
    return replace(thing, metadata=replace(thing.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))


WAITING = pod("p")
RUNNING = in_phase(pod("p", node="n1"), "Running")
GROUP = pod_group("g", minimum=2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(WAITING, on(WAITING, "n1"), id="a pod is on a node now"),
        pytest.param(on(WAITING, "n1"), RUNNING, id="a pod has started"),
        pytest.param(WAITING, in_phase(WAITING, "Pending"), id="a waiting pod has another status"),
        pytest.param(GROUP, replace(GROUP, status=replace(GROUP.status, running=1)), id="a group has another status"),
    ],
)
def test_what_gives_nobody_room_can_wait(old: KubeObject, new: KubeObject) -> None:
    assert can_wait(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(RUNNING, leaving(RUNNING), id="a pod leaves"),
        pytest.param(RUNNING, in_phase(RUNNING, "Succeeded"), id="a pod has finished"),
        pytest.param(
            WAITING,
            replace(WAITING, spec=replace(WAITING.spec, priority=5)),
            id="a waiting pod asks for something else",
        ),
        pytest.param(GROUP, replace(GROUP, spec=replace(GROUP.spec, min_member=1)), id="a group needs less"),
        pytest.param(node("n1"), node("n1", labels={"zone": "a"}), id="a node changes"),
    ],
)
def test_what_may_change_a_decision_cannot_wait(old: KubeObject, new: KubeObject) -> None:
    assert not can_wait(old, new)


def seconds(wait: Callable[[float], bool]) -> float:
    began = monotonic()
    assert wait(30.0)
    return monotonic() - began


def test_calm_news_waits_for_company_and_urgent_news_does_not() -> None:
    inbox = Inbox()
    inbox.put_events([Event("ADDED", WAITING)], is_urgent=False)
    assert seconds(inbox.wait) >= CALM_SECONDS
    inbox.put_answer(lambda: None)
    assert seconds(inbox.wait) < CALM_SECONDS
    events, answers = inbox.take()
    assert (len(events), len(answers)) == (1, 1)
    assert not inbox.wait(0.0)
