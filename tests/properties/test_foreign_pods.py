"""Random pods that are none of our business through the whole loop: whatever they are like, ours fare as without them.

They come as documents, as an API server sends them: of other schedulers, leaving or held by finalizers, of nobody, in
phases that nobody knows, with fields that nobody reads, naming PodGroups and nodes that are ours, or not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject, Pod, PodGroup
from muster.cluster import MemoryCluster
from muster.cluster.kubernetes.client.kinds import ObjectDecoder
from muster.explain import explain_job
from muster.framework import profile
from muster.framework.profiles import PROFILES
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import gang, node, pod, pod_group, priority_class

REGISTRY = builtin_registry(third_party=False)
OURS = "volcano"
CYCLES = 3

_DECODER = ObjectDecoder(Pod)
_TIMES = st.sampled_from(["1970-01-01T00:00:01Z", "2030-01-01T00:00:00Z"])


@st.composite
def foreign_pods(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """A pod of another scheduler, as its document. It asks for little: room for all is not the question here."""
    meta: dict[str, Any] = {
        "name": f"foreign-{number}",
        "namespace": draw(st.sampled_from(["default", "elsewhere"])),
        "uid": f"uid-{number}",
        "managedFields": [{"manager": "somebody", "fieldsV1": {}}],
        "annotations": draw(st.sampled_from([{}, {"scheduling.k8s.io/group-name": "train"}, {"unknown": ""}])),
        "labels": draw(st.sampled_from([None, {}, {"app": "other"}])),
    }
    if draw(st.booleans()):
        meta["deletionTimestamp"] = draw(_TIMES)
        meta["deletionGracePeriodSeconds"] = draw(st.sampled_from([0, 30]))
    if draw(st.booleans()):
        meta["finalizers"] = ["example.com/keep"]
    if draw(st.booleans()):
        owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "owner", "uid": "u", "controller": True}
        meta["ownerReferences"] = [owner]
    container: dict[str, Any] = {"name": "main", "image": "none", "resizePolicy": [{"resourceName": "cpu"}]}
    if draw(st.booleans()):
        container["resources"] = {"requests": {"cpu": "1m", "example.com/odd": "1"}, "claims": None}
    spec: dict[str, Any] = {
        "schedulerName": draw(st.sampled_from(["default-scheduler", "", "another"])),
        "containers": [container],
        "unknownField": {"deep": [1, None]},
    }
    if draw(st.booleans()):
        spec["nodeName"] = draw(st.sampled_from(["n0", "n1", "gone"]))
    if draw(st.booleans()):
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    if draw(st.booleans()):
        spec["priority"] = draw(st.sampled_from([-(2**31), 0, 2_000_001_000]))
    status: dict[str, Any] = {"phase": draw(st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Odd"]))}
    if draw(st.booleans()):
        status["nominatedNodeName"] = draw(st.sampled_from(["n0", "gone"]))
    if draw(st.booleans()):
        status["conditions"] = [{"type": "Odd", "status": "Maybe", "lastProbeTime": None}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


@dataclass(frozen=True)
class Visits:
    """Which foreign pods there are, by cycle: they come, change and go."""

    rounds: tuple[tuple[Pod, ...], ...]


@st.composite
def visits(draw: st.DrawFn) -> Visits:
    rounds = []
    for _ in range(CYCLES):
        numbers = draw(st.lists(st.integers(0, 5), max_size=6, unique=True))
        documents = [draw(foreign_pods(number)) for number in numbers]
        pods = [_DECODER.decode(msgspec.json.encode(each)) for each in documents]
        rounds.append(tuple(each for each in pods if isinstance(each, Pod)))
    return Visits(tuple(rounds))


def own_objects() -> list[KubeObject]:
    """Gangs that run, start, wait, cannot run or have no pods, and a pod alone."""
    leaving = pod("old-1", group="old", node="n1", cpu=1)
    leaving.metadata.deletion_timestamp = pod("x", created=90.0).metadata.creation_timestamp
    things: list[KubeObject] = [
        node("n0", cpu=8, gpu=2),
        node("n1", cpu=8, gpu=2),
        priority_class("high", 100),
        *gang("train", 2, gpu=1),
        *gang("large", 3, gpu=2),
        *gang("urgent", 1, gpu=2, priority_class="high"),
        *gang("lost", 2, cpu=1, queue="nowhere"),
        pod_group("empty", minimum=2),
        pod_group("old", minimum=2, phase="Running"),
        pod("old-0", group="old", node="n0", cpu=1),
        leaving,
        pod("alone", cpu=1),
    ]
    for thing in things:
        if isinstance(thing, Pod):
            thing.spec.scheduler_name = OURS
    return things


def run(profile_name: str, waiters: Visits) -> list[object]:
    """What was decided about ours and what stands on them, cycle by cycle."""
    cluster = MemoryCluster(own_objects(), start=100.0, delay=lambda _: 0.5)
    scheduler = Scheduler(cluster, profile(profile_name), REGISTRY, scheduler_names=[OURS])
    story: list[object] = []
    for present in waiters.rounds:
        names = {waiter.key for waiter in present}
        for known in cluster.store.all(Pod):
            if known.name.startswith("foreign-") and known.key not in names:
                cluster.store.remove(known)
        for waiter in present:
            cluster.store.put(waiter)
        result = scheduler.run_once()
        assert result.error is None
        assert not any("foreign-" in made.pod for made in result.decisions)
        story.append([(type(made).__name__, made.pod) for made in result.decisions])
        session = scheduler.last_session
        assert session is not None
        for job in session.snapshot.jobs.index.values():
            explain_job(session, job)  # may name the room that waiters take, but must not break
        story.append({each.name: each.status for each in cluster.store.all(PodGroup)})
        cluster.advance_to(cluster.now() + 1)
    return story


@pytest.mark.parametrize("name", PROFILES)
@given(waiters=visits())
def test_ours_fare_as_if_they_were_alone(name: str, waiters: Visits) -> None:
    assert run(name, waiters) == alone(name)


@cache
def alone(name: str) -> list[object]:
    """How ours fare when nobody else is there."""
    return run(name, Visits(((),) * CYCLES))
