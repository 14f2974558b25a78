"""Checks of KAI's objects; called by `validate`, on the same terms.

Sub-groups must form a tree and a topology's levels must differ, as KAI's own webhooks demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.counting import uncountable
from muster.api.kai import (
    UNLIMITED,
    KaiPodGroup,
    KaiQueue,
    KaiQueueResource,
    KaiSubGroup,
    KaiTopologyConstraint,
    Topology,
)
from muster.api.names import HOSTNAME
from muster.api.problems import Problem, Problems, at_least, one_of, seconds

PREEMPTIBILITY: Final = ("preemptible", "non-preemptible", "semi-preemptible")


def _resource(field: str, resource: KaiQueueResource) -> Problems:
    for name, value in (("quota", resource.quota), ("limit", resource.limit)):
        if value < 0 and value != UNLIMITED:
            yield Problem(f"{field}.{name}", f"expected zero or more, or -1 for unlimited, got {value:g}")


def kai_queue(queue: KaiQueue) -> Problems:
    """Find what is wrong with a queue."""
    spec = queue.spec
    if spec.resources is not None:
        for name in ("gpu", "cpu", "memory"):
            yield from _resource(f"spec.resources.{name}", getattr(spec.resources, name))
    yield from seconds("spec.preemptMinRuntime", spec.preempt_min_runtime)
    yield from seconds("spec.reclaimMinRuntime", spec.reclaim_min_runtime)
    if spec.parent_queue and spec.parent_queue == queue.name:
        yield Problem("spec.parentQueue", f'expected another queue, got the queue itself, "{queue.name}"')


def kai_pod_group(group: KaiPodGroup) -> Problems:
    """Find what is wrong with a PodGroup."""
    spec = group.spec
    yield from at_least("spec.minMember", spec.min_member, 0)
    yield from uncountable(group)
    yield from one_of("spec.preemptibility", spec.preemptibility, PREEMPTIBILITY)
    yield from seconds("spec.stalenessGracePeriod", spec.staleness_grace_period)
    yield from _constraint("spec.topologyConstraint", spec.topology_constraint)
    yield from _sub_groups(spec.sub_groups)


def _constraint(field: str, constraint: KaiTopologyConstraint | None) -> Problems:
    if constraint is None or constraint.topology:
        return
    if constraint.required_topology_level or constraint.preferred_topology_level:
        yield Problem(f"{field}.topology", "expected the name of a Topology, got nothing")


def _sub_groups(sub_groups: Sequence[KaiSubGroup]) -> Problems:
    parents = {known.name: (known.parent or "").lower() for known in sub_groups}
    seen: set[str] = set()
    for index, sub_group in enumerate(sub_groups):
        here = f"spec.subGroups[{index}]"
        if not sub_group.name:
            yield Problem(f"{here}.name", "expected a name, got nothing")
        elif sub_group.name in seen:
            yield Problem(f"{here}.name", f'expected a name of its own, got "{sub_group.name}" again')
        elif sub_group.name != sub_group.name.lower():
            yield Problem(f"{here}.name", f'expected a name in lower case, got "{sub_group.name}"')
        seen.add(sub_group.name)
        yield from at_least(f"{here}.minMember", sub_group.min_member, 0)
        if (fault := _lineage_fault(sub_group.name, parents)) is not None:
            yield Problem(f"{here}.parent", fault)
        yield from _constraint(f"{here}.topologyConstraint", sub_group.topology_constraint)


def _lineage_fault(name: str, parents: dict[str, str]) -> str | None:
    """Say what is wrong with the parent of a sub-group, None if nothing is."""
    above = parents[name]
    if above and above not in parents:
        return f'expected the name of a sub-group, got "{above}"'
    passed = {name}
    while above:
        if above == name:
            return f'expected a sub-group that is not below "{name}" itself, got "{parents[name]}"'
        if above in passed:  # a cycle higher up: its own members report it
            return None
        passed.add(above)
        above = parents.get(above, "")
    return None


def label_topology(topology: Topology) -> Problems:
    """Find what is wrong with a topology of node labels."""
    levels = [level.node_label for level in topology.spec.levels]
    if not levels:
        yield Problem("spec.levels", "expected at least one level, got none")
    for index, label in enumerate(levels):
        here = f"spec.levels[{index}].nodeLabel"
        if not label:
            yield Problem(here, "expected the name of a node label, got nothing")
        elif label in levels[:index]:
            yield Problem(here, f'expected a label of its own, got "{label}" again')
        elif label == HOSTNAME and index < len(levels) - 1:
            yield Problem(here, f'expected "{HOSTNAME}" as the last level only')
