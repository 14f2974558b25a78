"""Resource strategies: one resource fills nodes up, another spreads over them; scarce resources are kept free.

The score is binpack's with a direction for every resource: of what a pod asks for, the used or the free fraction of
the node with the pod on it, weighted. `sra` prefers nodes that lack scarce resources, by the nodes' size alone, so it
is fixed for a class. `proportional` follows what is free at the moment: pods that ask for no device are looked at one
by one, and only while it is enabled. The arguments are read by `resource_strategies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from muster.api.resources import to_base, unit_of
from muster.framework.plugin import Arguments, NodeScores, Plugin
from muster.framework.reasons import FITS, Verdicts, reason
from muster.kernels.placement import BINPACK, MAX_NODE_SCORE
from muster.plugins.resource_strategies import (
    Strategies,
    StrategyArguments,
    pod_strategies,
    read_strategies,
    strategy_of,
)
from muster.snapshot import Amounts, Mask, Rows

if TYPE_CHECKING:
    from muster.framework.session import Session

KEPT_FOR_DEVICES = reason(
    "kept-for-devices",
    "keep their free CPU and memory for pods that use their devices",
    remedy="wait for room on other nodes, or lower resourceProportion of the plugin resource-strategy-fit",
)
_GIGA: Final = 1e9


class ResourceStrategyFit(Plugin):
    """Score every resource by a strategy of its own."""

    name = "resource-strategy-fit"
    summary = "Packs some resources and spreads others, keeps off scarce ones, and leaves CPU and memory for devices."
    Args = StrategyArguments

    @staticmethod
    def read_arguments(raw: Mapping[str, Any]) -> Arguments:  # Any: values as YAML gave them
        return read_strategies(raw)

    def open(self, session: Session) -> None:
        super().open(session)
        self._snapshot = session.snapshot
        self._given = cast("StrategyArguments", self.arguments)
        self._configured = self._columns(self._given.resources)
        self._rates = self._given.proportional.rates()
        index = session.snapshot.axis.index
        #: Columns of the devices that pods ask for.
        self._asked = [index[name] for name in self._rates if name in index]

    # -- scores ----------------------------------------------------------------------------------------------

    def node_score(self, cls: int) -> NodeScores:
        return NodeScores(self._avoidance(cls), self._terms(cls))

    def _terms(self, cls: int) -> list[list[float]]:
        if self._given.weight == 0:
            return []
        strategies = pod_strategies(self._snapshot.classes.pods[cls], self._given.resources)
        is_usual = strategies is self._given.resources
        columns = self._configured if is_usual else self._columns(strategies)
        return [[float(BINPACK), float(self._given.weight), *columns]]

    def _columns(self, strategies: Strategies) -> list[float]:
        """Weights in column order; below zero where free nodes are better."""
        found = (strategy_of(name, strategies) for name in self._snapshot.axis.names)
        signs = {"MostAllocated": 1.0, "LeastAllocated": -1.0}
        return [0.0 if known is None else signs[known.type] * known.weight for known in found]

    def _avoidance(self, cls: int) -> NDArray[np.float64] | None:
        """Points for what a node lacks of scarce resources, if it has all that the class asks for."""
        if self._lacking is None:
            return None
        has = self._snapshot.nodes.allocatable() > 0
        suits = np.all(has[:, self._snapshot.classes.requests[cls, 0] > 0], axis=1)
        points: NDArray[np.float64] = np.where(suits, self._lacking, 0.0) * (MAX_NODE_SCORE * self._given.sra.weight)
        return points

    @cached_property
    def _lacking(self) -> NDArray[np.float64] | None:
        """By node, the part of the weights of scarce resources that it does not have; None: nothing is scarce."""
        weights = self._given.sra.weights()
        total = sum(weights.values())
        if not total or not self._given.sra.weight:
            return None
        had = np.zeros(len(self._snapshot.nodes))
        for name, weight in weights.items():
            had += weight * (self._offered[name] > 0)
        lacking: NDArray[np.float64] = 1.0 - had / total
        return lacking

    # -- what stays free for devices -------------------------------------------------------------------------

    def live_tasks(self) -> Rows:
        pending = self._snapshot.pending_tasks()
        if not any(self._offered[name].any() for name in self._rates):
            return pending[:0]
        asks: Mask = np.any(self._snapshot.classes.requests[:, 0, self._asked] > 0, axis=1)
        rows: Rows = pending[~asks[self._snapshot.tasks.cls[pending]]]
        return rows

    def task_mask(self, task: int) -> Verdicts | None:
        request = self._snapshot.request(task)
        if not self._rates or (request[self._asked] > 0).any():
            return None
        nodes = self._snapshot.nodes
        # What was promised is as good as taken, and what others have yet to leave is not free.
        free: Amounts = np.minimum(nodes.idle(), nodes.future_idle())
        return np.where(self._too_little_left(free, request), KEPT_FOR_DEVICES.number, FITS).astype(np.int16)

    def _too_little_left(self, free: Amounts, request: Amounts) -> Mask:
        index = self._snapshot.axis.index
        left_cpu = free[:, index["cpu"]] - request[index["cpu"]]
        left_memory = free[:, index["memory"]] - request[index["memory"]]
        short: Mask = np.zeros(len(free), np.bool_)
        for name, (cores, gigabytes) in self._rates.items():
            # A device that no pod asks for is free wherever there is one.
            amounts = free[:, index[name]] if name in index else self._offered[name]
            devices = amounts / (1000.0 if unit_of(name) == "milli" else 1.0)
            lacks = (left_cpu < devices * cores * 1000) | (left_memory < devices * gigabytes * _GIGA)
            short |= (devices > 0) & lacks
        return short

    @cached_property
    def _offered(self) -> dict[str, Amounts]:
        """What nodes have of scarce resources and devices, those among them that no pod asks for included."""
        nodes, index = self._snapshot.nodes, self._snapshot.axis.index
        found: dict[str, Amounts] = {}
        for name in {**self._given.sra.weights(), **self._rates}:
            if name in index:
                found[name] = nodes.allocatable()[:, index[name]]
            else:
                found[name] = np.array(
                    [
                        0 if aside or (amount := node.status.allocatable.get(name)) is None else to_base(name, amount)
                        for node, aside in zip(nodes.objects, nodes.aside.tolist(), strict=True)
                    ],
                    np.int64,
                )
        return found
