"""K5: a gang that takes the place of others, from its last pod's creation to its last binding.

The onlooker plays the kubelets here: a pod that is asked to leave is gone when its grace period has passed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from benchmarks.kubernetes import documents
from benchmarks.kubernetes.field import PATIENCE_S, Field, Result, Run
from benchmarks.kubernetes.programs import muster

_GRACE_S: Final = 5

_PREEMPTING = """
actions: "enqueue, allocate, gangpreempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


async def k5(run: Run) -> Result:
    """A gang that takes the place of gangs of lower priority, beside the same requests without a scheduler."""
    n_pods = run.sized(512, 8)
    raw = await _raw(run, n_pods)
    raw_s = sum(raw.values())
    async with run.field(n_pods // 8, is_kubelet=True) as there:
        await there.load.create([documents.priority_class("low", 10), documents.priority_class("high", 1000)])
        await _occupy(there, n_pods)
        async with muster(there.plane, _PREEMPTING):
            await asyncio.sleep(3.0)  # statuses of what runs
            await there.load.create([documents.group("urgent", n_pods, priorityClassName="high")])
            await there.onlooker.start("urgent")
            await there.load.create(documents.gang("urgent", n_pods, priorityClassName="high"))
            created = time.monotonic()
            await there.onlooker.until_bound(n_pods, PATIENCE_S)
        seen = there.onlooker
        last = max(seen.bound.values())
    figures = {
        "seconds": last - created,
        "seconds_beyond_grace": last - created - _GRACE_S,
        "raw_seconds": raw_s,
        "ratio_to_raw": (last - created - _GRACE_S) / raw_s,
        **raw,
        "evictions_seconds": max(seen.asked.values()) - min(seen.asked.values()),
        "last_eviction_seconds": max(seen.asked.values()) - created,
        "last_victim_gone_seconds": max(seen.gone.values()) - created,
        "seconds_after_last_grace": last - max(seen.asked.values()) - _GRACE_S,
    }
    work = (
        f"gang of {n_pods} preempts {n_pods} pods, grace period {_GRACE_S} s: its end for the last victim to last bound"
    )
    return Result("K5", work, figures, "1 s", figures["seconds_after_last_grace"] <= 1)


async def _raw(run: Run, n_pods: int) -> dict[str, float]:
    """Seconds that the requests of such a preemption take with no scheduler: room is promised, made, and taken."""
    names = [f"urgent-{number:04d}" for number in range(n_pods)]
    nodes = [documents.node_name(number // 8) for number in range(n_pods)]
    async with run.field(n_pods // 8, is_kubelet=True) as there:
        await there.load.create([documents.priority_class("low", 10), documents.priority_class("high", 1000)])
        victims = await _occupy(there, n_pods)
        await there.onlooker.start("urgent")
        await there.load.create(documents.gang("urgent", n_pods, priorityClassName="high"))
        began = time.monotonic()
        await there.load.patch(documents.nomination(*each) for each in zip(names, nodes, strict=True))
        promised = time.monotonic()
        await there.load.create(documents.eviction(name) for name in victims)
        asked = time.monotonic()
        await there.onlooker.until_gone(n_pods, PATIENCE_S)
        gone = time.monotonic()
        await there.load.create(documents.binding(*each) for each in zip(names, nodes, strict=True))
        bound = time.monotonic()
    return {
        "raw_nominations_seconds": promised - began,
        "raw_evictions_seconds": asked - promised,
        "raw_bindings_seconds": bound - gone,
    }


async def _occupy(there: Field, n_pods: int) -> list[str]:
    """Fill the nodes with gangs of eight that run; returns the names of their pods."""
    names = [f"low-{number:03d}" for number in range(n_pods // 8)]
    await there.load.create(documents.group(name, 8, priorityClassName="low") for name in names)
    spec: dict[str, Any] = {"priorityClassName": "low", "terminationGracePeriodSeconds": _GRACE_S}
    await there.load.create(
        pod
        for number, name in enumerate(names)
        for pod in documents.gang(name, 8, nodeName=documents.node_name(number), **spec)
    )
    members = [f"{name}-{member:04d}" for name in names for member in range(8)]
    await there.load.patch(map(documents.running, members))
    return members
