"""Documents with values of any type in any place: every hook gives a verdict, whatever comes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from muster.admission import HOOKS, answer
from tests.admission.requests import SETTINGS, Json, document, facts, job, question, queue, task

ODD: tuple[Any, ...] = (None, "", "x", 0, -1, 2**40, 1.5, True, [], {}, [None], [{}], {"x": None}, {"name": 7})
PARTITIONS = {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1, "networkTopology": {"highestTierName": "a"}}
RESOURCES = {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1Gi"}}
CONTAINER = {"name": "main", "image": "a", "resources": RESOURCES, "ports": [{"containerPort": 1}]}
MEMBERS = [
    {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "a"}}},
    {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}},
]
WHOLE: tuple[Json, ...] = (
    document("HyperNode", "rack", {"tier": 1, "tierName": "rack", "members": MEMBERS}),
    queue(
        "one",
        annotations={"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "1/2"},
        parent="two",
        capability={"cpu": "4"},
        deserved={"cpu": "3"},
        guarantee={"resource": {"cpu": "2"}},
        status={"state": "Open", "allocated": {"pods": "1"}},
    ),
    document("PodGroup", "train", {"queue": "default", "networkTopology": {"mode": "hard"}, "minMember": 2}),
    document(
        "Pod",
        "one",
        {"schedulerName": "volcano", "containers": [CONTAINER]},
        annotations={"volcano.sh/jdb-min-available": "1", "scheduling.volcano.sh/queue-name": "default"},
    ),
    job(
        tasks=[
            task(
                minAvailable=1,
                partitionPolicy=PARTITIONS,
                topologyPolicy="restricted",
                dependsOn={"name": ["worker"]},
                policies=[{"event": "PodFailed", "action": "RestartJob"}],
                template={"metadata": {"labels": {}}, "spec": {"containers": [CONTAINER], "resources": RESOURCES}},
            )
        ],
        plugins={"mpi": ["--master=worker"]},
        volumes=[{"mountPath": "/a", "volumeClaim": {}}],
        networkTopology={"mode": "soft"},
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def changed(whole: Json, path: tuple[Any, ...], value: Any) -> Json:
    other = copy.deepcopy(whole)
    place: Any = other
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return other


@pytest.mark.parametrize("whole", WHOLE, ids=lambda whole: str(whole["kind"]))
def test_every_odd_document_gets_a_verdict(whole: Json) -> None:
    random, known = Random(1), facts(queue("two", capability={"cpu": "3"}))
    n_refused = 0
    for path in places(whole):
        for odd in ODD:
            given = changed(whole, path, odd)
            old = whole if random.random() < 0.5 else given
            for hook in (each for each in HOOKS.values() if each.kind.kind == whole["kind"]):
                operation = random.choice(hook.operations)
                asked = question(whole["kind"], operation, given, oldObject=old, name="one")
                _, verdict = answer(hook, msgspec.json.encode(asked), known, SETTINGS)
                n_refused += not verdict.is_allowed
    assert n_refused > 5
