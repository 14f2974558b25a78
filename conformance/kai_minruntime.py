"""KAI's cases of minimum runtimes: which value counts, who may be a victim, which scenarios are accepted.

Each adapter builds the queues and jobs that the case describes and asks the plugin, or the part of it that answers.
Queues are KAI queues, jobs PodGroups with a start stamp whose pods run on one large node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from conformance.cases import Body
from conformance.pictures import document
from conformance.results import Value
from conformance.scheduling import NOW
from muster.api import KaiQueue, Node, Pod, PodGroup, UserError, decode, names
from muster.framework import Eviction, Evictor, PluginOption, Scenario, SchedulerConfig, Session
from muster.plugins.protection.minruntime import Method, MinRuntime, MinRuntimes
from muster.scheduler import builtin_registry
from muster.snapshot import NO_ROW, Mirror, QueueTable
from muster.snapshot.records import stamp_text

_NODE = "room"
_ROOM = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}


# -- values of queues ------------------------------------------------------------------------------------------


def _runtimes(given: Body) -> tuple[MinRuntimes, QueueTable]:
    """The tree of a case, with the queues that only its question names."""
    asked = [given[key] for key in ("reclaimerQueue", "victimQueue") if given.get(key)]
    known = {queue["name"] for queue in given["queues"]}
    queues = [*given["queues"], *(queue for queue in asked if queue["name"] not in known)]
    mirror = Mirror()
    for queue in queues:
        mirror.upsert(decode(_queue(queue)))
    table = mirror.snapshot().queues
    method = Method(given.get("method", Method.LCA))
    return MinRuntimes(table, given["defaultPreemptSeconds"], given["defaultReclaimSeconds"], method), table


def _queue(given: Body) -> Body:
    spec = {
        "parentQueue": given.get("parent", ""),
        "preemptMinRuntime": given.get("preemptMinRuntimeSeconds"),
        "reclaimMinRuntime": given.get("reclaimMinRuntimeSeconds"),
    }
    return document(KaiQueue, given["name"], {key: value for key, value in spec.items() if value is not None}, "")


def _row(table: QueueTable, given: Body, key: str) -> int:
    queue = given.get(key)
    return table.index[queue["name"]] if queue else NO_ROW


def _preempt_runtime(given: Body) -> Value:
    runtimes, table = _runtimes(given)
    victim = _row(table, given, "victimQueue")
    return {"seconds": float(runtimes.for_preempt()[victim]), "error": victim == NO_ROW}


def _reclaim_runtime(given: Body) -> Value:
    runtimes, table = _runtimes(given)
    evictor, victim = _row(table, given, "reclaimerQueue"), _row(table, given, "victimQueue")
    return {"seconds": float(runtimes.for_reclaim(evictor)[victim]), "error": NO_ROW in (evictor, victim)}


def _parsed(given: Body) -> Value:
    option = PluginOption(MinRuntime.name, arguments={given["argument"]: given["value"]})
    try:
        plugin = builtin_registry(third_party=False).make_plugin(option)
    except UserError as refused:
        return {"seconds": None, "error": str(refused)}
    assert isinstance(plugin, MinRuntime)
    return {"seconds": max(plugin.default_preempt, plugin.default_reclaim)}


# -- jobs --------------------------------------------------------------------------------------------------------


def _session(given: Body, jobs: Iterable[Body]) -> Session:
    mirror = Mirror()
    mirror.upsert(decode({**document(Node, _NODE, {}, ""), "status": {"allocatable": _ROOM}}))
    for item in [*map(_queue, given["queues"]), *(item for job in jobs for item in _job(job))]:
        mirror.upsert(decode(item))
    arguments = {
        "defaultPreemptMinRuntime": given["defaultPreemptSeconds"],
        "defaultReclaimMinRuntime": given["defaultReclaimSeconds"],
        "reclaimResolveMethod": given["method"],
    }
    config = SchedulerConfig((), ((PluginOption(MinRuntime.name, arguments=arguments),),))
    return Session(mirror.snapshot(), config, builtin_registry(third_party=False), now=NOW)


def _job(given: Body) -> Iterator[Body]:
    group = document(PodGroup, given["name"], {"minMember": given["minAvailable"], "queue": given["queue"]})
    if "startedSecondsAgo" in given:
        group["metadata"]["annotations"] = {names.START_STAMP: stamp_text(NOW - given["startedSecondsAgo"])}
    yield group
    for number in range(given["runningTasks"]):
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        pod = document(Pod, f"{given['name']}-{number}", {"nodeName": _NODE, "containers": [container]})
        pod["metadata"]["annotations"] = {names.GROUP_NAME: given["name"]}
        yield {**pod, "status": {"phase": "Running"}}


def _may_be_victim(kind: Eviction, given: Body) -> bool:
    session = _session(given, [given["pendingJob"], given["victimJob"]])
    snapshot = session.snapshot
    victim, job = (snapshot.jobs.index[f"default/{given[key]['name']}"] for key in ("victimJob", "pendingJob"))
    evictor = Evictor(job, snapshot.tasks_of(job), breaks_gangs=True, each_alone=True)
    return len(session.may_go(kind, evictor, snapshot.tasks_of(victim))) > 0


def _is_valid(kind: Eviction, given: Body) -> bool:
    session = _session(given, [given["pendingJob"], *(victim["job"] for victim in given["victims"])])
    snapshot = session.snapshot
    gone = [f"default/{one['job']['name']}-{k}" for one in given["victims"] for k in range(one["evictedTasks"])]
    evicted = np.array([snapshot.tasks.ids.index(name) for name in gone], np.intp)
    evictor = snapshot.jobs.index[f"default/{given['pendingJob']['name']}"]
    scenario = Scenario(kind, evictor, snapshot.tasks_of(evictor), evicted, evicted, evicted[:0])
    return session.is_valid_scenario(scenario)


ADAPTERS = {
    "preemptMinRuntime": _preempt_runtime,
    "reclaimMinRuntime": _reclaim_runtime,
    "parseMinRuntime": _parsed,
    "preemptVictimFilter": lambda given: _may_be_victim(Eviction.PREEMPT, given),
    "reclaimVictimFilter": lambda given: _may_be_victim(Eviction.RECLAIM, given),
    "preemptScenarioValidator": lambda given: _is_valid(Eviction.PREEMPT, given),
    "reclaimScenarioValidator": lambda given: _is_valid(Eviction.RECLAIM, given),
}
