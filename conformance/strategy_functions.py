"""Volcano's function cases on resource strategies: arguments, the strategy of a resource, and the score of a node.

Scores are asked of the plugin and of the placement kernel, on a node with one pod that runs and one that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from conformance.cases import Body
from conformance.pictures import document
from muster.api import Node, Pod, PodGroup, Queue, decode, names
from muster.framework import PluginOption, Registry, SchedulerConfig, Session
from muster.kernels.placement import BINPACK, IDLE, MAX_NODE_SCORE, fits, score_node
from muster.kernels.planes import ALLOCATABLE, N_PLANES, USED
from muster.plugins.nodes.resource_strategy_fit import ResourceStrategyFit, Strategy, StrategyArguments, strategy_of
from muster.snapshot import Mirror

_PLUGIN = ResourceStrategyFit.name
_REGISTRY = Registry.of([ResourceStrategyFit], [])
#: Recorded scores are cut after so many places.
_PLACES = 8


def _parse(given: Body) -> Body:
    plugin = _REGISTRY.make_plugin(PluginOption(_PLUGIN, arguments=given["arguments"]))
    assert isinstance(plugin.arguments, StrategyArguments)
    return {"resources": msgspec.to_builtins(plugin.arguments.resources), "weight": plugin.arguments.weight}


def _find(given: Body) -> Body:
    strategies = msgspec.convert(given.get("resources") or {}, dict[str, Strategy])
    found = strategy_of(given["resourceName"], strategies)
    config = {"type": "", "weight": 0} if found is None else msgspec.to_builtins(found)
    return {"config": config, "found": found is not None}


def _score(given: Body) -> Body:
    """The score of the one node for the pod that waits."""
    arguments = {"resourceStrategyFitWeight": given["weight"], "resources": given["resources"]}
    config = SchedulerConfig((), ((PluginOption(_PLUGIN, arguments=arguments),),))
    mirror = Mirror()
    node = document(Node, "n", {})
    mirror.upsert(decode({**node, "status": {"allocatable": {**_amounts(given["nodeAllocatable"]), "pods": 10}}}))
    mirror.upsert(decode(document(Queue, "default", {})))
    mirror.upsert(decode(document(PodGroup, "job", {}, "ns1")))
    mirror.upsert(decode(_pod("running", given["nodeUsed"], {}, {"nodeName": "n"})))
    mirror.upsert(decode(_pod("waiting", given["request"], given["podAnnotations"], {})))
    session = Session(mirror.snapshot(), config, _REGISTRY)
    snapshot = session.snapshot
    cls = int(snapshot.tasks.cls[snapshot.tasks.ids.index("ns1/waiting")])
    terms = np.array([row for scores in session.node_scores(cls) for row in scores.terms], np.float64)
    points = score_node(snapshot.nodes.state, snapshot.classes.requests[cls], terms, 0)
    return {"score": round(points, _PLACES)}


def _amounts(recorded: Mapping[str, int]) -> dict[str, str]:
    return {"cpu": f"{recorded['MilliCPU']}m", "memory": str(recorded["Memory"])}


def _pod(name: str, request: Mapping[str, int], annotations: Mapping[str, str], spec: Body) -> Body:
    container = {"name": "main", "resources": {"requests": _amounts(request)}}
    pod = document(Pod, name, {"containers": [container], **spec}, "ns1")
    marks = {names.GROUP_NAME: "job", **annotations}
    return {**pod, "metadata": {**pod["metadata"], "annotations": marks}}


def _one_resource(direction: int) -> Callable[[Body], Body]:
    """The weighted part of one resource; what Volcano calls an error is a pod that does not fit."""

    def answer(given: Body) -> Body:
        state = np.zeros((N_PLANES, 1, 1), np.int64)
        state[ALLOCATABLE], state[USED] = given["capacity"], given["used"]
        requests = np.full((2, 1), given["requested"], np.int64)
        terms = np.array([[BINPACK, given["weight"] / MAX_NODE_SCORE, direction]], np.float64)
        return {
            "score": score_node(state, requests, terms, 0),
            "error": not fits(state, requests[0], 0, IDLE),
        }

    return answer


STRATEGY_ADAPTERS: dict[str, Callable[[Body], Body]] = {
    "resourceStrategyFit.parse": _parse,
    "resourceStrategyFit.findResourceConfig": _find,
    "resourceStrategyFit.score": _score,
    "resourceStrategyFit.mostRequestedScore": _one_resource(1),
    "resourceStrategyFit.leastRequestedScore": _one_resource(-1),
}
