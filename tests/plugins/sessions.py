"""Sessions over a handful of objects, with chosen plugins, for tests of plugins that look at nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from muster.api import KubeObject
from muster.framework import PluginOption, Registry, SchedulerConfig, Session, reason_number
from muster.kernels.placement import FUTURE, IDLE, score_node
from muster.plugins.nodes.binpack import Binpack
from muster.plugins.nodes.nodeorder import NodeOrder
from muster.plugins.nodes.nodeplacement import NodePlacement
from muster.plugins.nodes.predicates import Predicates
from muster.plugins.nodes.resource_strategy_fit import ResourceStrategyFit
from muster.plugins.nodes.resourcetype import ResourceType
from muster.snapshot import Mirror

REGISTRY = Registry.of([Predicates, NodeOrder, NodePlacement, Binpack, ResourceStrategyFit, ResourceType], [])


def open_session(objects: Iterable[KubeObject], **plugins: Mapping[str, Any]) -> Session:
    """Open a session with the named plugins and their arguments, as a configuration file would give them."""
    mirror = Mirror()
    for item in objects:
        mirror.upsert(item)
    options = tuple(PluginOption(name, arguments=arguments) for name, arguments in plugins.items())
    return Session(mirror.snapshot(), SchedulerConfig((), (options,)), REGISTRY)


def task_row(session: Session, name: str) -> int:
    """The row of a pod, by name or namespace/name."""
    return session.snapshot.tasks.ids.index(name if "/" in name else f"default/{name}")


def class_row(session: Session, name: str) -> int:
    return int(session.snapshot.tasks.cls[task_row(session, name)])


def static_reasons(session: Session, name: str) -> dict[str, str]:
    """The code of the reason against each node that follows from the nodes' own objects."""
    verdicts = session.node_verdicts(class_row(session, name))
    return {node: reason_number(int(v)).code for node, v in zip(session.snapshot.nodes.names, verdicts, strict=True)}


def live_reasons(session: Session, name: str) -> dict[str, str]:
    """The code of the reason against each node that other pods give."""
    verdicts = session.task_verdicts(task_row(session, name))
    if verdicts is None:
        verdicts = np.zeros(len(session.snapshot.nodes), np.int16)
    return {node: reason_number(int(v)).code for node, v in zip(session.snapshot.nodes.names, verdicts, strict=True)}


def fitting(reasons: Mapping[str, str]) -> list[str]:
    return [node for node, code in reasons.items() if code == "fits"]


def place(session: Session, name: str, node: str, *, waits: bool = False) -> None:
    """Put a pending pod on a node, as an action would."""
    statement = session.statement("test")
    row = session.snapshot.nodes.index[node]
    statement.place(task_row(session, name), row, FUTURE if waits else IDLE)
    statement.commit()


def evict(session: Session, name: str) -> None:
    statement = session.statement("test")
    statement.evict(np.array([task_row(session, name)], np.intp))
    statement.commit()


def fixed_scores(session: Session, name: str) -> dict[str, float]:
    """What the class of a pod gets on each node before the node's state is looked at."""
    total = np.zeros(len(session.snapshot.nodes))
    for scores in session.node_scores(class_row(session, name)):
        if scores.fixed is not None:
            total += scores.fixed
    return dict(zip(session.snapshot.nodes.names, total.tolist(), strict=True))


def live_scores(session: Session, name: str) -> dict[str, float]:
    scores = session.task_scores(task_row(session, name))
    if scores is None:
        scores = np.zeros(len(session.snapshot.nodes))
    return dict(zip(session.snapshot.nodes.names, scores.tolist(), strict=True))


def all_scores(session: Session, name: str) -> dict[str, float]:
    """The whole score of each node, whether or not the pod fits there."""
    cls = class_row(session, name)
    snapshot = session.snapshot
    rows = [row for scores in session.node_scores(cls) for row in scores.terms]
    terms = np.array(rows, np.float64).reshape(len(rows), 2 + len(snapshot.axis))
    fixed, live = fixed_scores(session, name), live_scores(session, name)
    return {
        node: fixed[node] + live[node] + score_node(snapshot.nodes.state, snapshot.classes.requests[cls], terms, row)
        for row, node in enumerate(snapshot.nodes.names)
    }
