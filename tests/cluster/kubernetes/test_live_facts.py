"""Starting to follow a cluster that is not there, and facts that lag behind."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import msgspec
import pytest
import yaml

from muster.admission.live import LiveFacts
from muster.admission.request import Facts
from muster.api import Quantity, Queue
from muster.cluster.kubernetes.client.kinds import Resource
from muster.testing import queue


def test_waiting_for_a_cluster_that_does_not_answer_can_be_given_up(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "nobody", "user": {"token": "x"}}],
                "contexts": [{"name": "none", "context": {"cluster": "none", "user": "nobody"}}],
                "current-context": "none",
            }
        )
    )
    facts = LiveFacts(kubeconfig)
    began = time.monotonic()
    threading.Timer(0.3, facts.give_up).start()
    facts.start(30.0)
    facts.stop()
    assert time.monotonic() - began < 10


def _holding(name: str, pods: int) -> Queue:
    made = queue(name)
    made.status.allocated["pods"] = Quantity(str(pods))
    return made


def test_the_count_of_pods_in_a_queue_may_lag_behind_the_pods() -> None:
    facts = LiveFacts()
    facts._facts = Facts.of([_holding("busy", 4), _holding("idle", 1)])
    threading.Timer(0.3, facts._facts.add, [queue("idle")]).start()
    assert facts.pods_held("idle") == 0
    assert facts.pods_held("busy") == 4


def test_a_queue_that_no_watch_has_shown_yet_is_below_another_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = LiveFacts()
    facts._facts = Facts.of([queue("above")])
    facts._resources[Queue] = Resource(Queue, "/apis/scheduling.volcano.sh/v1beta1", "queues")
    standing = [
        {"metadata": {"name": name}, "spec": {"parent": parent}} for name, parent in (("b", "above"), ("c", ""))
    ]

    async def bodies(_: Resource) -> list[msgspec.Raw]:
        return [msgspec.Raw(msgspec.json.encode(each)) for each in standing]

    monkeypatch.setattr(facts, "_bodies", bodies)
    monkeypatch.setattr(facts, "_asked", asyncio.run)
    assert facts.children("above") == []
    assert facts.children_now("above") == ["b"]
    assert facts.children_now("b") == []
