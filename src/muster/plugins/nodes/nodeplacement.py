"""Node placement: fill nodes, or spread over them, by the one resource that matters for a task.

That is the GPU for tasks that ask for one, and the CPU for all others. What counts as free is what will be once
leaving pods are gone and promised places are taken. Binpack prefers the node with the smallest free *amount*,
whatever its size, with 0 to 9 points; spread the one with the largest free *part*, with 0 to 1 point: less than
the step of any other plugin of KAI's, so that it decides between nodes which these find equal.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, cast

import numpy as np
from msgspec import Meta

from muster.api.resources import CPU, GPU
from muster.framework.plugin import Arguments, NodeScores, Plugin
from muster.kernels.placement import FREE_AMOUNT, FREE_FRACTION
from muster.plugins.nodes.resourcetype import asks_for_gpu

Strategy = Literal["binpack", "spread"]

_FULLEST: Final = 9.0


class NodePlacementArguments(Arguments, frozen=True, kw_only=True):
    """How tasks with and without GPUs are spread over nodes."""

    gpu: Annotated[Strategy, Meta(description="For tasks that ask for a GPU: `binpack` or `spread`.")] = "binpack"
    cpu: Annotated[Strategy, Meta(description="For all other tasks: `binpack` or `spread`.")] = "binpack"


class NodePlacement(Plugin):
    """Prefer the fullest, or the emptiest, node by GPU or CPU."""

    name = "nodeplacement"
    summary = "Fills nodes or spreads over them, by free GPUs or, for tasks without one, by free CPU."
    Args = NodePlacementArguments
    steady_scores = True

    def node_score(self, cls: int) -> NodeScores:
        arguments = cast("NodePlacementArguments", self.arguments)
        snapshot = self.session.snapshot
        with_gpu = asks_for_gpu(snapshot, cls)
        resource = GPU if with_gpu else CPU
        column = snapshot.axis.index.get(resource)
        if column is None:
            return NodeScores()
        capacity = snapshot.nodes.allocatable()[:, column]
        weights = [0.0] * len(snapshot.axis)
        if (arguments.gpu if with_gpu else arguments.cpu) == "spread":
            weights[column] = 1.0
            return NodeScores(terms=[[float(FREE_FRACTION), 1.0, *weights]])
        weights[column] = -_FULLEST / int(capacity.max(initial=1))
        return NodeScores(np.where(capacity > 0, _FULLEST, 0.0), [[float(FREE_AMOUNT), 1.0, *weights]])
