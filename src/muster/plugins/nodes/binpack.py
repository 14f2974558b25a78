"""Binpack: fill nodes that are already used, so that large tasks find whole nodes.

For each resource that a task asks for and that has a weight, the used fraction of the node with the task on it;
the weighted mean, times 100, times the plugin's weight. Resources that are not listed do not count, except cpu
and memory, which always do. A node on which a resource would overflow gets 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta

from muster.framework.plugin import Arguments, NodeScores, Plugin
from muster.framework.registry import Weight, take_weights
from muster.kernels.placement import BINPACK

_RESOURCES: Final = "binpack.resources"


class BinpackArguments(Arguments, frozen=True, kw_only=True):
    """Weights of the plugin and of resources."""

    weight: Annotated[Weight, Meta(description="How much binpack counts beside other scores; 0 turns it off.")] = (
        msgspec.field(name="binpack.weight", default=1)
    )
    cpu: Annotated[Weight, Meta(description="Weight of CPU.")] = msgspec.field(name="binpack.cpu", default=1)
    memory: Annotated[Weight, Meta(description="Weight of memory.")] = msgspec.field(name="binpack.memory", default=1)
    resources: Annotated[
        dict[str, Weight],
        Meta(
            description="Other resources that count, separated by commas, such as `nvidia.com/gpu`; "
            "the weight of each is `binpack.resources.<name>`, default 1."
        ),
    ] = msgspec.field(name="binpack.resources", default_factory=dict)


class Binpack(Plugin):
    """Prefer the nodes that are fullest."""

    name = "binpack"
    summary = "Prefers nodes that are already used, by weighted resources."
    Args = BinpackArguments

    @staticmethod
    def read_arguments(raw: Mapping[str, Any]) -> Arguments:  # Any: values as YAML gave them
        """Check arguments, also those whose names hold resource names."""
        given = {name: value for name, value in raw.items() if value is not None}
        given[_RESOURCES] = take_weights(given, _RESOURCES)
        return msgspec.convert(given, BinpackArguments, strict=False)

    def node_score(self, cls: int) -> NodeScores:
        arguments = cast("BinpackArguments", self.arguments)
        if arguments.weight == 0:
            return NodeScores()
        weights = {**arguments.resources, "cpu": arguments.cpu, "memory": arguments.memory}
        columns = [float(weights.get(name, 0)) for name in self.session.snapshot.axis.names]
        return NodeScores(terms=[[float(BINPACK), float(arguments.weight), *columns]])
