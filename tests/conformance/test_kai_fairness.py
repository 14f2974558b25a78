"""Adapters of fair shares call the product's parts: small cases of our own come out right."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.kai_fairness import ADAPTERS


def gpu(name: str, parent: str = "", **numbers: float) -> dict[str, Any]:
    above = {"parent": parent} if parent else {}
    return {"name": name, **above, "gpu": {"limit": -1, **numbers}}


WANTS_TWO = {"queue": "a", "preemptible": True, "resources": {"gpu": 2, "memory": 0, "milliCpu": 0}}
ONE_GPU = {"gpu": 1, "memory": 0, "milliCpu": 0}
TREE = {
    "queues": [gpu("top", deserved=1, request=9, overQuotaWeight=1), gpu("a", "top", request=9, overQuotaWeight=1)],
    "total": {"GPU": 5},
}
SIBLINGS = {
    "k": 0,
    "resource": "GPU",
    "total": 5.5,
    "queues": [gpu("1", deserved=1, request=9, overQuotaWeight=1), gpu("2", request=1.25, overQuotaWeight=1)],
}
HELD: dict[str, dict[str, Any]] = {
    "a": {"allocated": 1, "fairShare": 3, "deserved": 3},
    "b": {"allocated": 4, "fairShare": 2, "deserved": 2},
}
PAIR: dict[str, Any] = {"queues": [gpu(name, **numbers) for name, numbers in HELD.items()], "saturationMultiplier": 1}
FULL = {
    "job": {"name": "j", "queue": "a", "preemptible": False},
    "queues": [{"name": "a", "gpu": {"limit": 3, "deserved": 1, "allocated": 2, "allocatedNonPreemptible": 1}}],
}


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        ("setFairShare", TREE, {"fairShare": {name: {"cpu": 0, "memory": 0, "gpu": 5} for name in ("top", "a")}}),
        (
            "setResourceShare",
            SIBLINGS,
            {
                "fairShare": {"1": {"cpu": 0, "memory": 0, "gpu": 4.25}, "2": {"cpu": 0, "memory": 0, "gpu": 1.25}},
                "remaining": 0,
            },
        ),
        ("CanReclaimResources", {**PAIR, "reclaimer": WANTS_TWO}, True),
        ("Reclaimable", {**PAIR, "reclaimer": WANTS_TWO, "victimsByQueue": {"b": [ONE_GPU, ONE_GPU]}}, True),
        ("Reclaimable", {**PAIR, "reclaimer": WANTS_TWO, "victimsByQueue": {"b": [ONE_GPU] * 3}}, False),
        ("IsJobOverQueueCapacity", {**FULL, "requested": {"GPU": 2}}, {"schedulable": False, "reason": "OverLimit"}),
        (
            "IsJobOverQueueCapacity",
            {**FULL, "requested": {"GPU": 1}},
            {"schedulable": False, "reason": "NonPreemptibleOverQuota"},
        ),
        ("resultsOverLimit", {**FULL, "requested": {"GPU": 1}}, {"schedulable": True}),
        ("GetQueueOrderResult", {"left": PAIR["queues"][1], "right": PAIR["queues"][0], "minNodeGpuMemory": 0}, 1),
    ],
)
def test_adapters_answer(function: str, given: dict[str, Any], expected: object) -> None:
    assert ADAPTERS[function](given) == expected
