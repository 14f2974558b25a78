"""Checks of meaning, after a document has the right types; here also those of gangs, queues and topologies.

Only what is surely wrong is refused; everything else is taken as an API server would take it. `problems` yields all of
them in the order of the fields; `check` raises the first. `uncountable` is the part that scheduling cannot do without:
amounts and numbers of pods that fit the columns of a cycle, alone and added up. It is asked of files, by webhooks and
at the door of the mirror, so that all three refuse the same objects with the same words. Paths are those of the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from muster.api.errors import Problem, Problems, UserError, at_least, one_of
from muster.api.names import HOSTNAME
from muster.api.objects.batch import MAX_JOB_PODS, JobSpec
from muster.api.objects.meta import KubeObject
from muster.api.objects.scheduling import (
    UNLIMITED,
    KaiPodGroup,
    KaiQueue,
    KaiQueueResource,
    KaiSubGroup,
    KaiTopologyConstraint,
    NetworkTopology,
    PodGroup,
    Queue,
)
from muster.api.objects.topology import HyperNode, Member, Topology, compile_pattern
from muster.api.objects.workloads import ForeignWorkload
from muster.api.quantity import parse_seconds
from muster.api.resources import amount_field, amounts
from muster.api.validate_core import (
    CORE_AMOUNTS,
    CORE_CHECKS,
    MAX_PODS,
    Checks,
    label_fault,
    mark_problems,
    selector_problems,
)
from muster.api.validate_workloads import workload_problems


def check(thing: KubeObject) -> None:
    """Raise UserError for the first problem of an object."""
    for problem in problems(thing):
        subject = f"{thing.kind} {thing.key}" if thing.name else thing.kind
        raise UserError(problem.text, subject=subject, field=problem.field)


def problems(thing: KubeObject) -> Problems:
    """Yield everything that is surely wrong with an object."""
    yield from metadata_problems(thing)
    yield from own_problems(thing)


def own_problems(thing: KubeObject) -> Problems:
    """Yield what is wrong with what its kind is about: of pods, nodes and PodGroups their spec and status alone."""
    if (find := _CHECKS.get(type(thing))) is not None:
        yield from find(thing)
    elif isinstance(thing, ForeignWorkload):
        yield from workload_problems(thing)


_NO_NAME: Final = re.compile(r"[/\s]")


def metadata_problems(thing: KubeObject) -> Problems:
    """Yield what is wrong with the name, the labels and the annotations."""
    name = thing.metadata.name
    if not name:
        yield Problem("metadata.name", "expected a name, got nothing")
    elif _NO_NAME.search(name):
        yield Problem("metadata.name", f'expected a name without "/" and spaces, got "{name}"')
    yield from mark_problems(thing)


def size_problems(spec: JobSpec) -> Problems:
    """Jobs with more pods than any cluster holds."""
    pods = sum(max(task.replicas, 0) for task in spec.tasks)
    if pods > MAX_JOB_PODS:
        yield Problem("spec.tasks", f"expected at most {MAX_JOB_PODS} replicas of all tasks together, got {pods}")


def uncountable(thing: KubeObject) -> Problems:
    """Yield everything in an object that cannot be counted, in the order of the fields."""
    if (find := _AMOUNTS.get(type(thing))) is not None:
        yield from find(thing)


def check_countable(thing: KubeObject) -> None:
    """Raise UserError for the first thing in an object that cannot be counted."""
    for problem in uncountable(thing):
        raise UserError(problem.text, subject=f"{thing.kind} {thing.key}", field=problem.field)


_MODES: Final = ("hard", "soft")
_GROUP_PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
_QUEUE_STATES: Final = ("Open", "Closed", "Closing", "Unknown")
_DEQUEUE_STRATEGIES: Final = ("fifo", "traverse")
PREEMPTIBILITY: Final = ("preemptible", "non-preemptible", "semi-preemptible")


def _pod_group(group: PodGroup) -> Problems:
    spec = group.spec
    yield from at_least("spec.minMember", spec.min_member, 0)
    for role, minimum in spec.min_task_member.items():
        yield from at_least(f"spec.minTaskMember.{role}", minimum, 0)
    yield from _pod_group_amounts(group)
    yield from network_topology("spec.networkTopology", spec.network_topology)
    yield from one_of("status.phase", group.status.phase, _GROUP_PHASES)
    seen: set[str] = set()
    for index, policy in enumerate(spec.sub_group_policy):
        here = f"spec.subGroupPolicy[{index}]"
        if not policy.name:
            yield Problem(f"{here}.name", "expected a name, got nothing")
        elif policy.name in seen:
            yield Problem(f"{here}.name", f'expected a name of its own, got "{policy.name}" again')
        seen.add(policy.name)
        yield from at_least(f"{here}.subGroupSize", policy.sub_group_size, 1)
        yield from at_least(f"{here}.minSubGroups", policy.min_sub_groups, 0)
        yield from selector_problems(f"{here}.labelSelector", policy.label_selector)
        for problem in network_topology(f"{here}.networkTopology", policy.network_topology):
            known_as = problem.known_as and f"in subGroupPolicy '{policy.name}': {problem.known_as}"
            yield problem._replace(known_as=known_as)


def network_topology(field: str, topology: NetworkTopology | None) -> Problems:
    """How close together pods are to be; of PodGroups and of Jobs."""
    if topology is None:
        return
    yield from one_of(f"{field}.mode", topology.mode, _MODES)
    yield from at_least(f"{field}.highestTierAllowed", topology.highest_tier_allowed, 0)
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        known_as = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
        yield Problem(field, "expected highestTierAllowed or highestTierName, got both; drop one", known_as)


def _pod_group_amounts(group: PodGroup) -> Problems:
    spec = group.spec
    yield from _pods("spec.minMember", spec.min_member)
    yield from _pods("spec.minTaskMember", sum(spec.min_task_member.values()))
    yield from amounts("spec.minResources", spec.min_resources)
    total = 0
    for index, policy in enumerate(spec.sub_group_policy):
        size = 1 if policy.sub_group_size is None else policy.sub_group_size
        yield from _pods(f"spec.subGroupPolicy[{index}].subGroupSize", size)
        total += size * max(policy.min_sub_groups or 0, 0)
    yield from _pods("spec.subGroupPolicy", total)


def _pods(field: str, count: int) -> Problems:
    if count > MAX_PODS:
        yield Problem(field, f"expected at most {MAX_PODS} pods, got {count}")


def _kai_pod_group(group: KaiPodGroup) -> Problems:
    """Find what is wrong with a PodGroup."""
    spec = group.spec
    yield from at_least("spec.minMember", spec.min_member, 0)
    yield from _kai_pod_group_amounts(group)
    yield from one_of("spec.preemptibility", spec.preemptibility, PREEMPTIBILITY)
    yield from _seconds("spec.stalenessGracePeriod", spec.staleness_grace_period)
    yield from _seconds("spec.preemptionDelay", spec.preemption_delay, least=0)
    yield from _constraint("spec.topologyConstraint", spec.topology_constraint)
    yield from _sub_groups(spec.sub_groups)


def _kai_pod_group_amounts(group: KaiPodGroup) -> Problems:
    yield from _pods("spec.minMember", group.spec.min_member)
    yield from _pods("spec.subGroups", sum(known.min_member or 0 for known in group.spec.sub_groups))


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


def _queue(queue: Queue) -> Problems:
    spec = queue.spec
    yield from at_least("spec.weight", spec.weight, 0)
    yield from _queue_amounts(queue)
    for name, least in spec.guarantee.resource.items():
        most = spec.capability.get(name)
        if most is not None and most.value and least.value > most.value:
            text = f'expected at most the capability, "{most}", got "{least}"'
            yield Problem(amount_field("spec.guarantee.resource", name), text, "must be <= capability")
    yield from one_of("spec.dequeueStrategy", spec.dequeue_strategy, _DEQUEUE_STRATEGIES)
    if spec.parent and spec.parent == queue.name:
        text = f'expected another queue, got the queue itself, "{spec.parent}"'
        yield Problem("spec.parent", text, known_as="cannot use itself as parent")
    yield from one_of("status.state", queue.status.state, _QUEUE_STATES, known_as="queue state must be in")


def _queue_amounts(queue: Queue) -> Problems:
    spec = queue.spec
    yield from amounts("spec.capability", spec.capability)
    yield from amounts("spec.deserved", spec.deserved)
    yield from amounts("spec.guarantee.resource", spec.guarantee.resource)


def _kai_queue(queue: KaiQueue) -> Problems:
    """Find what is wrong with a queue."""
    spec = queue.spec
    if spec.resources is not None:
        for name in ("gpu", "cpu", "memory"):
            yield from _resource(f"spec.resources.{name}", getattr(spec.resources, name))
    yield from _seconds("spec.preemptMinRuntime", spec.preempt_min_runtime, least=0)
    yield from _seconds("spec.reclaimMinRuntime", spec.reclaim_min_runtime, least=0)
    if spec.parent_queue and spec.parent_queue == queue.name:
        yield Problem("spec.parentQueue", f'expected another queue, got the queue itself, "{queue.name}"')


def _resource(field: str, resource: KaiQueueResource) -> Problems:
    for name, value in (("quota", resource.quota), ("limit", resource.limit)):
        if not 0 <= value < math.inf and value != UNLIMITED:
            yield Problem(f"{field}.{name}", f"expected zero or more, or -1 for unlimited, got {value:g}")
    yield from at_least(f"{field}.overQuotaWeight", resource.over_quota_weight, 0)


def _seconds(field: str, given: str | float | None, least: float = -math.inf) -> Problems:
    """A duration or a plain number of seconds."""
    try:
        if given is not None and parse_seconds(given) < least:
            yield Problem(field, f'expected a duration of {least:g}s or more, such as "90s", got "{given}"')
    except ValueError as error:
        yield Problem(field, str(error))


def _hyper_node(hyper_node: HyperNode) -> Problems:
    # Volcano admits tier 0, which is what an absent tier is read as.
    yield from at_least("spec.tier", hyper_node.spec.tier, 0)
    for index, member in enumerate(hyper_node.spec.members):
        here = f"spec.members[{index}]"
        if member.type not in {"Node", "HyperNode"}:
            yield Problem(f"{here}.type", f'expected "Node" or "HyperNode", got "{member.type}"')
        yield from _members(f"{here}.selector", member)


def _members(field: str, member: Member) -> Problems:
    selector = member.selector
    ways = [selector.exact_match, selector.regex_match, selector.label_match]
    if sum(way is not None for way in ways) != 1:
        yield Problem(field, "expected exactly one of exactMatch, regexMatch and labelMatch")
    if selector.exact_match is not None and not selector.exact_match.name:
        yield Problem(f"{field}.exactMatch.name", "expected the name of a member, got nothing")
    if selector.regex_match is not None:
        try:
            compile_pattern(selector.regex_match.pattern)
        except ValueError as error:
            known_as = "member regexMatch pattern is invalid"
            yield Problem(f"{field}.regexMatch.pattern", str(error), known_as)
    if selector.label_match is not None and member.type == "HyperNode":
        yield Problem(f"{field}.labelMatch", "expected exactMatch or regexMatch: labels select nodes only")
    yield from selector_problems(f"{field}.labelMatch", selector.label_match)


def _label_topology(topology: Topology) -> Problems:
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
        elif fault := label_fault(label, ""):
            yield Problem(here, fault)
    seen = set(levels)
    for index, level in enumerate(topology.spec.levels):
        if level.alias and level.alias in seen:
            yield Problem(f"spec.levels[{index}].alias", f'expected a name of its own, got "{level.alias}" again')
        seen.add(level.alias)


_CHECKS: Final[Checks] = {
    **CORE_CHECKS,
    PodGroup: _pod_group,
    Queue: _queue,
    HyperNode: _hyper_node,
    KaiQueue: _kai_queue,
    KaiPodGroup: _kai_pod_group,
    Topology: _label_topology,
}
_AMOUNTS: Final[Checks] = {
    **CORE_AMOUNTS,
    PodGroup: _pod_group_amounts,
    KaiPodGroup: _kai_pod_group_amounts,
    Queue: _queue_amounts,
}
