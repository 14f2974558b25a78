"""W1 to W5: Jobs that become pods, what their admission costs, Jobs at rest, and gangs that come and go."""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from benchmarks.kubernetes import documents
from benchmarks.kubernetes.field import PATIENCE_S, Field, Result, Run
from benchmarks.kubernetes.programs import Program, muster, webhooks

_SETTLE_S: Final = 10.0
_IDLE_S: Final = 30.0
_QUESTIONS_PER_S: Final = 200
_QUESTIONS_S: Final = 20
_GANGS_PER_S: Final = 20
_ARRIVALS_S: Final = 60
_RUN_S: Final = 10.0
_SIZE: Final = 8


async def w1(run: Run) -> Result:
    """A large Job is applied; all of its pods exist.

    Beside raw creation stands what the raw client needs for pods as the Job has them, with their marks and their owner.
    """
    n_nodes, n_pods = run.sized(1000), run.sized(5000, 8)
    raw_s = (await run.raw(n_nodes, n_pods))["create"]
    alike_s = await _created(run, n_nodes, documents.pods_of_job("large", n_pods))
    async with run.field(n_nodes) as there, muster(there.plane):
        await there.onlooker.start()
        began = time.monotonic()
        await there.load.create([documents.job("large", n_pods)])
        await there.onlooker.until_made(n_pods, PATIENCE_S)
        seconds = max(there.onlooker.made.values()) - began
    figures = {
        "seconds": seconds,
        "pods_per_second": n_pods / seconds,
        "raw_pods_per_second": n_pods / raw_s,
        "part_of_raw": raw_s / seconds,
        "raw_pods_per_second_of_the_same_pods": n_pods / alike_s,
        "part_of_raw_of_the_same_pods": alike_s / seconds,
    }
    work = f"one Job of {n_pods:,} replicas: applied to all pods exist"
    return Result("W1", work, figures, "80 % of the raw rate of creation", seconds <= raw_s / 0.8)


async def _created(run: Run, n_nodes: int, pods: Iterable[documents.Request]) -> float:
    """Seconds in which the raw client creates pods while somebody looks on."""
    async with run.field(n_nodes) as there:
        await there.onlooker.start()
        began = time.monotonic()
        await there.load.create(pods)
        return time.monotonic() - began


async def w2(run: Run) -> Result:
    """Many Jobs are applied; all of their pods run on KWOK's nodes.

    Raw are creations and Bindings alone. Beside it stands what the same takes when KWOK runs the pods, on the same
    cores and with a change of its own for each pod: nobody can be faster than that.
    """
    n_nodes, n_jobs = run.sized(1000), run.sized(1000)
    n_pods = n_jobs * _SIZE
    raw = await run.raw(n_nodes, n_pods)
    raw_s = raw["create"] + raw["bind"]
    running_s = sum((await run.raw_again(n_nodes, n_pods, kwok=True)).values())
    async with run.field(n_nodes, kwok=True) as there, muster(there.plane) as program:
        await there.onlooker.start()
        writes = await there.load.writes()
        before, began = program.usage().cpu_s, time.monotonic()
        await there.load.create(documents.job(f"job-{number:04d}", _SIZE) for number in range(n_jobs))
        applied_s = time.monotonic() - began
        await there.onlooker.until_running(n_pods, PATIENCE_S)
        seconds = max(there.onlooker.running.values()) - began
        cpu = program.usage().cpu_s - before
        made = {of: count - writes.get(of, 0) for of, count in (await there.load.writes()).items()}
    kubelets = made.pop("pods/status", 0)
    figures = {
        "seconds": seconds,
        "applied_seconds": applied_s,
        "all_made_seconds": max(there.onlooker.made.values()) - began,
        "all_bound_seconds": max(there.onlooker.bound.values()) - began,
        "raw_seconds": raw_s,
        "ratio_to_raw": seconds / raw_s,
        "raw_seconds_until_all_run": running_s,
        "ratio_to_raw_until_all_run": seconds / running_s,
        "writes_per_job": sum(made.values()) / n_jobs,
        "writes_of_kwok_per_job": kubelets / n_jobs,
        "cpu_ms_per_pod": 1000 * cpu / n_pods,
    }
    work = f"{n_jobs:,} Jobs of {_SIZE} replicas on {n_nodes:,} nodes: applied to all running on KWOK"
    return Result("W2", work, figures, "1.3 x raw creation and Bindings", seconds <= 1.3 * raw_s)


# -- admission -----------------------------------------------------------------------------------------------------


async def w3(run: Run) -> Result:
    """Questions about Jobs at a steady rate, both hooks in turn, as an API server asks them."""
    questions = [_question(number) for number in range(64)]
    async with run.field(1) as there, muster(there.plane), webhooks(there.plane) as (_, url):
        certificates = Path(there.plane.work) / "certificates" / "apiserver.crt"
        context = ssl.create_default_context(cafile=str(certificates))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=16)) as session:
            asked = _Asked(session, url)
            for body in questions[:8]:
                await asked.ask("/jobs/validate", body)  # connections are opened, and everything is imported
            asked.seconds.clear()
            for body in questions:
                await asked.ask("/jobs/mutate", body)
                await asked.ask("/jobs/validate", body)
            alone = sorted(asked.seconds)
            asked.seconds.clear()
            count = int(_QUESTIONS_PER_S * _QUESTIONS_S * min(1.0, run.scale * 4))
            await _paced(
                count,
                _QUESTIONS_PER_S,
                lambda number: asked.ask(("/jobs/mutate", "/jobs/validate")[number % 2], questions[number % 64]),
            )
    at_rate = sorted(asked.seconds)
    figures = {
        "median_ms": 1000 * statistics.median(alone),
        "p99_ms_at_rate": 1000 * at_rate[int(len(at_rate) * 0.99)],
        "median_ms_at_rate": 1000 * statistics.median(at_rate),
        "refused": float(asked.refused),
    }
    work = f"admission of Jobs over HTTPS, way included: {count:,} questions, {_QUESTIONS_PER_S} a second"
    is_met = figures["median_ms"] <= 3 and figures["p99_ms_at_rate"] <= 10 and not asked.refused
    return Result("W3", work, figures, "median 3 ms, p99 10 ms at 200 a second", is_met)


class _Asked:
    """Asks and notes how long answers took."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.seconds: list[float] = []
        self.refused = 0

    async def ask(self, path: str, body: bytes) -> None:
        began = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url + path, data=body, headers=headers) as answer:
            review = json.loads(await answer.read())
        self.seconds.append(time.perf_counter() - began)
        self.refused += not review["response"]["allowed"]


def _question(number: int) -> bytes:
    document = msgspec.json.decode(documents.job(f"job-{number}", _SIZE).body)
    document["metadata"]["namespace"] = documents.NAMESPACE
    document["spec"]["plugins"] = {"svc": [], "env": [], "pytorch": ["--master=main"]}
    document["spec"]["policies"] = [{"event": "PodEvicted", "action": "RestartJob"}]
    kind = {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}
    request: dict[str, Any] = {  # Any: a document
        "uid": str(number),
        "kind": kind,
        "resource": {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"},
        "operation": "CREATE",
        "name": document["metadata"]["name"],
        "namespace": documents.NAMESPACE,
        "userInfo": {"username": "benchmark"},
        "object": document,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


async def _paced(count: int, per_second: float, act: Callable[[int], Awaitable[None]]) -> None:
    """Begin so many acts at a steady rate, whether or not those before are over."""
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / per_second - asyncio.get_running_loop().time()))
            group.create_task(_awaited(act(number)))


async def _awaited(act: Awaitable[None]) -> None:
    await act


# -- rest ----------------------------------------------------------------------------------------------------------


async def w4(run: Run) -> Result:
    """Finished Jobs that nobody deletes."""
    n_jobs = run.sized(1000)
    names = [f"job-{number:04d}" for number in range(n_jobs)]
    async with run.field(run.sized(100)) as there:
        await there.load.create(documents.job(name, _SIZE) for name in names)
        await there.load.send("PATCH", map(documents.ended_job, names), "application/merge-patch+json")
        async with muster(there.plane) as program:
            await asyncio.sleep(_SETTLE_S)
            before, began = program.usage().cpu_s, time.monotonic()
            await asyncio.sleep(_IDLE_S)
            part = (program.usage().cpu_s - before) / (time.monotonic() - began)
            n_pods = len(json.loads(await there.load.client.send("GET", documents.PODS))["items"])
    figures = {"part_of_a_core": part, "pods": float(n_pods)}
    is_met = part <= 0.02 and not n_pods
    return Result("W4", f"{n_jobs:,} finished Jobs at rest", figures, "2 % of a core, no pods", is_met)


# -- gangs that come and go ----------------------------------------------------------------------------------------


async def w5(run: Run) -> Result:
    """Gangs arrive at a steady rate, run for a while and end; beside the same requests without a scheduler."""
    n_nodes = run.sized(1000)
    seconds = _ARRIVALS_S * min(1.0, run.scale * 4)
    count = int(_GANGS_PER_S * seconds)
    async with run.field(n_nodes) as there:
        raw = await _arrivals(there, count, n_nodes, program=None)
    async with run.field(n_nodes) as there, muster(there.plane) as program:
        ours = await _arrivals(there, count, n_nodes, program=program)
    figures = {
        "p50_seconds": ours["p50"],
        "p99_seconds": ours["p99"],
        "raw_p50_seconds": raw["p50"],
        "raw_p99_seconds": raw["p99"],
        "left_over": ours["left"],
        "cpu_ms_per_pod": 1000 * ours["cpu"] / (count * _SIZE),
    }
    is_fast = ours["p50"] <= max(0.5, 2 * raw["p50"]) and ours["p99"] <= max(1.5, 2 * raw["p99"])
    work = (
        f"gangs of {_SIZE}, {_GANGS_PER_S} a second for {seconds:.0f} s, each runs {_RUN_S:.0f} s: "
        "last pod created to last bound"
    )
    goal = "p50 0.5 s, p99 1.5 s, or 2 x raw; nothing left over"
    return Result("W5", work, figures, goal, is_fast and not ours["left"])


async def _arrivals(there: Field, count: int, n_nodes: int, program: Program | None) -> dict[str, float]:
    """Let gangs come, run and end; without a program, whoever creates a gang binds it, too."""
    created: dict[str, float] = {}
    ends: set[asyncio.Task[None]] = set()
    await there.onlooker.start()
    before = 0.0 if program is None else program.usage().cpu_s

    async def arrive(number: int) -> None:
        name = f"gang-{number:05d}"
        pods = [f"{name}-{member:04d}" for member in range(_SIZE)]
        await there.load.client.send("POST", *documents.group(name, _SIZE))
        await asyncio.gather(*(there.load.client.send("POST", *request) for request in documents.gang(name, _SIZE)))
        created[name] = time.monotonic()
        if program is None:
            places = (documents.node_name((number * _SIZE + member) % n_nodes) for member in range(_SIZE))
            bindings = map(documents.binding, pods, places)
            await asyncio.gather(*(there.load.client.send("POST", *request) for request in bindings))
        task = asyncio.create_task(_end_later(there, pods))
        ends.add(task)

    await _paced(count, _GANGS_PER_S, arrive)
    await there.onlooker.until_bound(count * _SIZE, PATIENCE_S)
    await asyncio.gather(*ends)
    waits = sorted(
        max(there.onlooker.bound[f"{name}-{member:04d}"] for member in range(_SIZE)) - moment
        for name, moment in created.items()
    )
    left = json.loads(await there.load.client.send("GET", f"{documents.PODS}?fieldSelector=status.phase%21=Succeeded"))
    cpu = 0.0 if program is None else program.usage().cpu_s - before
    middle, late = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    return {"p50": max(0.0, middle), "p99": max(0.0, late), "left": float(len(left["items"])), "cpu": cpu}


async def _end_later(there: Field, pods: list[str]) -> None:
    """Run a gang's pods for a while once all of them are bound, and end them."""
    while not all(pod in there.onlooker.bound for pod in pods):
        await asyncio.sleep(0.1)
    await asyncio.sleep(_RUN_S)
    await there.load.patch(map(documents.succeeded, pods))
