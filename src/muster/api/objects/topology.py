"""The network and shares of the nodes: Volcano's HyperNode, the Topology of KAI and Kueue, Volcano's NodeShard.

Patterns of HyperNodes are in Go's syntax, unanchored, with RE2 behind both. Python's own `re` reads other patterns
(look-ahead, back-references) and takes exponential time on some, so it is not used for what users write.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import re2  # type: ignore[import-untyped]  # the binding ships no types
from msgspec import field

from muster.api.objects.meta import Condition, Int32, Int64, K8sModel, KubeObject, LabelSelector


class ExactMatch(K8sModel):
    """One member, by name."""

    name: str = ""


class RegexMatch(K8sModel):
    """Members whose name matches a pattern."""

    pattern: str = ""


class MemberSelector(K8sModel):
    """How members are found; exactly one of the three is set."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(K8sModel):
    """Nodes or smaller HyperNodes inside a HyperNode."""

    type: str = ""
    selector: MemberSelector = field(default_factory=MemberSelector)


class HyperNodeSpec(K8sModel):
    """The tier (lower is closer together) and the members."""

    tier: Int32 = 0
    tier_name: str = ""
    members: Sequence[Member] = ()


class HyperNodeStatus(K8sModel):
    """How many nodes were found."""

    conditions: Sequence[Condition] = ()
    node_count: Int64 = 0


class HyperNode(KubeObject):
    """A domain of the network: nodes that reach each other equally well."""

    api_version: ClassVar[str] = "topology.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "HyperNode"
    namespaced: ClassVar[bool] = False

    spec: HyperNodeSpec = field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = field(default_factory=HyperNodeStatus)


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:  # noqa: ANN401 - the binding has no types
    """Compile a pattern. Raises ValueError that says what is wrong with it."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0] if error.args else "not a regular expression"
        text = said.decode() if isinstance(said, bytes) else str(said)
        raise ValueError(f'expected a regular expression in Go\'s syntax, got "{pattern}": {text}') from None


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return compile_pattern(pattern).search(text) is not None


class TopologyLevel(K8sModel):
    """One level: nodes with the same value of the label are close to each other."""

    node_label: str = ""
    #: Another name for the level, which gangs may use in the place of the label.
    alias: str = ""


class TopologySpec(K8sModel):
    """The levels, from the widest to the narrowest."""

    levels: Sequence[TopologyLevel] = ()

    @property
    def aliases(self) -> dict[str, str]:
        """Node labels by the other names of their levels."""
        return {level.alias: level.node_label for level in self.levels if level.alias}


class Topology(KubeObject):
    """A network told by node labels. Kueue's Topology has the same form and is read as one."""

    api_version: ClassVar[str] = "kai.scheduler/v1alpha1"
    kind: ClassVar[str] = "Topology"
    namespaced: ClassVar[bool] = False

    spec: TopologySpec = field(default_factory=TopologySpec)


class NodeShardSpec(K8sModel):
    """Which nodes the scheduler should have."""

    scheduler_name: str = ""
    nodes_desired: Sequence[str] = ()


class NodeShardStatus(K8sModel):
    """Which nodes it works on, and what has yet to change."""

    nodes_in_use: Sequence[str] = ()
    nodes_to_add: Sequence[str] = ()
    nodes_to_remove: Sequence[str] = ()


class NodeShard(KubeObject):
    """A share of the nodes."""

    api_version: ClassVar[str] = "shard.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "NodeShard"
    namespaced: ClassVar[bool] = False

    spec: NodeShardSpec = field(default_factory=NodeShardSpec)
    status: NodeShardStatus = field(default_factory=NodeShardStatus)
