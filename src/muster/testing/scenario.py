"""Scenarios: a small cluster, what happens to it, and what must come out, as YAML that an operator can read.

    name: half a gang never starts
    nodes: {n1: {gpu: 8}, n2: {gpu: 4}}
    queues: {research: {quota: {gpu: 16}}}
    jobs: [{name: train, queue: research, pods: 2, each: {gpu: 8}}]
    want: {running: [], pending: {train: insufficient-resources}, evicted: []}

A field that is not known is an error, so that no expectation is lost to a typing mistake; and a key of `want`
that is absent is not checked. Jobs are named without the namespace "default".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from muster.api import (
    HyperNode,
    KaiPodGroup,
    KubeObject,
    LabelSelector,
    NetworkTopology,
    ObjectMeta,
    PodDisruptionBudget,
    SubGroupPolicy,
    UserError,
    parse_duration,
)
from muster.api.documents import read_yaml
from muster.api.names import KAI_GROUP_NAME, PREEMPT_MIN_RUNTIME, PREEMPTABLE, RECLAIM_MIN_RUNTIME
from muster.api.objects.scheduling import KaiPodGroupSpec, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
from muster.cluster import Timeline, parse_timeline
from muster.cluster.timeline import Add, Entry
from muster.framework import PROFILES, SchedulerConfig, default_config, parse_config, profile
from muster.simulate import SimulationResult, simulate
from muster.snapshot.messages import Bind, Evict
from muster.testing import builders

Amount = int | float | str
#: Labels of pods: which role, and which sub-group of a divided job.
_ROLE, _PART = "role", "part"
Amounts = dict[str, Amount]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a scenario; unknown fields are errors."""


class NodePart(_Part, frozen=True, kw_only=True):
    """A node: amounts, and what is special about it."""

    cpu: Amount = 96
    memory: Amount = "1Ti"
    gpu: Amount = 0
    pods: Amount = 110
    labels: dict[str, str] = field(default_factory=dict)
    cordoned: bool = False
    ready: bool = True


class QueuePart(_Part, frozen=True, kw_only=True):
    """A queue: `quota` is what it deserves, `limit` the most it may hold."""

    weight: int = 1
    parent: str = ""
    quota: Amounts = field(default_factory=dict)
    limit: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    #: How long jobs that have started are left alone, as "60s".
    min_runtime: str = field(default="", name="min-runtime")


class PartsPart(_Part, frozen=True, kw_only=True):
    """How a job or role is divided into sub-groups."""

    size: Annotated[int, Meta(ge=1)]
    least: int | None = None
    #: Priority classes of the pods of each.
    priorities: list[str] = field(default_factory=list)
    #: As of a job, for each of them.
    topology: Literal["", "hard", "soft"] = ""
    tier: int = 1

    def of(self, number: int) -> dict[str, str]:
        """Labels by which a pod belongs to a sub-group."""
        return {_PART: str(number // self.size)}

    def priority(self, number: int) -> str:
        return self.priorities[number // self.size] if self.priorities else ""


class RolePart(_Part, frozen=True, kw_only=True):
    """A role of a job: how many pods, how many of them at least, and how they are divided."""

    pods: int
    min: int | None = None
    each: Amounts = field(default_factory=dict)
    parts: PartsPart | None = None


class JobPart(_Part, frozen=True, kw_only=True):
    """A job: a PodGroup and its pods, or pods alone."""

    name: str
    queue: str = "default"
    pods: int = 0
    each: Amounts = field(default_factory=dict)
    roles: dict[str, RolePart] = field(default_factory=dict)
    #: "all-or-nothing": every pod is needed. "any": one is enough. A number: that many.
    start: Literal["all-or-nothing", "any"] | Annotated[int, Meta(ge=0)] = "all-or-nothing"
    #: "podgroup": as usual. "kai": one of KAI. "missing": the pods name one that does not exist. "none": lone pods.
    group: Literal["podgroup", "kai", "missing", "none"] = "podgroup"
    #: Pods of each sub-group, by number; at least `least` of them (all, if it is not given) must be whole.
    parts: PartsPart | None = None
    admit: Amounts = field(default_factory=dict)
    priority: str = ""
    run: float | None = None
    exit: Literal["", "succeeded", "failed"] = ""
    selector: dict[str, str] = field(default_factory=dict)
    #: The pods run on this node already; a list: pod by pod, and those beyond it wait.
    node: str | list[str] = ""
    #: Seconds: when the job was created; a list: when its pods were, one by one.
    created: float | list[float] | None = None
    #: Pods, by number, that are marked as not to be evicted.
    spared: list[int] = field(default_factory=list)
    #: Of the pods.
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    #: Keep the pods in one rack, or domain of another tier: it must be, or it would be better.
    topology: Literal["", "hard", "soft"] = ""
    tier: int = 1
    #: The node that was set aside for the pods.
    nominated: str = ""


class DomainPart(_Part, frozen=True, kw_only=True):
    """A HyperNode of any tier: the nodes, racks and other domains inside it."""

    tier: int
    holds: list[str]


class World(_Part, frozen=True, kw_only=True):
    """Objects: at the start, or added later."""

    nodes: dict[str, NodePart] = field(default_factory=dict)
    queues: dict[str, QueuePart] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    #: Rack -> its nodes.
    racks: dict[str, list[str]] = field(default_factory=dict)
    domains: dict[str, DomainPart] = field(default_factory=dict)
    #: PodDisruptionBudgets: how many pods with the label `app: NAME` may be evicted now.
    budgets: dict[str, int] = field(default_factory=dict)
    jobs: list[JobPart] = field(default_factory=list)


class LaterPart(World, frozen=True, kw_only=True):
    """What happens at a moment: objects come, or a change as in a timeline file."""

    at: float | str
    change: dict[str, Any] = field(default_factory=dict)  # Any: read by the timeline parser


class WantPart(_Part, frozen=True, kw_only=True):
    """What must come out; None: not checked."""

    running: list[str] | None = None
    completed: list[str] | None = None
    #: Job -> code of the reason.
    pending: dict[str, str] | None = None
    evicted: list[str] | None = None
    #: Job -> pods that have a node in the end.
    pods: dict[str, int] | None = None
    #: Pod -> node it was last bound to; pods that are not named do not matter.
    bound: dict[str, str] | None = None
    #: Jobs in the order in which they got their first node.
    order: list[str] | None = None
    #: Job -> seconds from the start to its first bind.
    started: dict[str, float] | None = None
    settled: bool = True


class Scenario(World, frozen=True, kw_only=True):
    """One behaviour."""

    name: str
    #: The name of a profile, or Volcano's configuration as text; absent: the default.
    config: str = ""
    later: list[LaterPart] = field(default_factory=list)
    cycles: int | None = None
    want: WantPart


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file. Raises UserError."""
    documents = [known.content for known in read_yaml(path.read_text(encoding="utf-8"), str(path))]
    if len(documents) != 1:
        raise UserError("expected one scenario", place=str(path))
    try:
        return msgspec.convert(documents[0], Scenario)
    except msgspec.ValidationError as error:
        raise UserError(str(error), place=str(path)) from None


def run_scenario(scenario: Scenario) -> list[str]:
    """Run a scenario and return what differs from what it wants; an empty list is a pass."""
    result = simulate(
        objects_of(scenario),
        config_of(scenario),
        cycles=scenario.cycles,
        timeline=timeline_of(scenario),
    )
    return list(differences(scenario.want, result, limited=scenario.cycles is not None))


# -- building -----------------------------------------------------------------------------------------------


def objects_of(world: World) -> list[KubeObject]:
    """Make the objects of a scenario or of a later part of it."""
    objects: list[KubeObject] = [builders.priority_class(name, value) for name, value in world.priorities.items()]
    for name, queue in world.queues.items():
        made = builders.queue(
            name,
            weight=queue.weight,
            parent=queue.parent,
            capability=queue.limit,
            deserved=queue.quota,
            guarantee=queue.guarantee,
        )
        if queue.min_runtime:
            made.metadata.annotations |= dict.fromkeys((PREEMPT_MIN_RUNTIME, RECLAIM_MIN_RUNTIME), queue.min_runtime)
        objects.append(made)
    for name, part in world.nodes.items():
        objects.append(
            builders.node(
                name,
                cpu=part.cpu,
                memory=part.memory,
                gpu=part.gpu,
                pods=part.pods,
                labels=part.labels,
                unschedulable=part.cordoned,
                ready=part.ready,
            )
        )
    racks = {name: DomainPart(tier=1, holds=members) for name, members in world.racks.items()}
    objects.extend(_domain(name, domain, world.nodes) for name, domain in (racks | world.domains).items())
    objects.extend(_budget(name, allowed) for name, allowed in world.budgets.items())
    for job in world.jobs:
        objects.extend(_job(job))
    return objects


def _domain(name: str, domain: DomainPart, nodes: Collection[str]) -> HyperNode:
    """What is no node is another HyperNode, which may be missing."""
    chosen = [
        Member(type="Node" if one in nodes else "HyperNode", selector=MemberSelector(exact_match=ExactMatch(name=one)))
        for one in domain.holds
    ]
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=domain.tier, members=chosen))


def _network(part: JobPart | PartsPart) -> NetworkTopology | None:
    tier = part.tier if part.topology == "hard" else None
    return NetworkTopology(mode=part.topology, highest_tier_allowed=tier) if part.topology else None


def _budget(app: str, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=app, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def _minimum(job: JobPart, pods: int) -> int:
    return {"all-or-nothing": pods, "any": 1}.get(job.start, 0) if isinstance(job.start, str) else job.start


def _marks(job: JobPart, number: int) -> dict[str, str]:
    """Annotations of a pod."""
    spared = {PREEMPTABLE: "false"} if number in job.spared else {}
    group = {KAI_GROUP_NAME: job.name} if job.group == "kai" else {}
    return job.annotations | spared | group


def _job(job: JobPart) -> Iterator[KubeObject]:
    roles = job.roles or {"": RolePart(pods=job.pods, each=job.each, parts=job.parts)}
    total = sum(role.pods for role in roles.values())
    born = job.created if isinstance(job.created, list) else [job.created] * max(1, total)
    places = [*job.node, *[""] * total] if isinstance(job.node, list) else [job.node] * total
    if job.group == "podgroup":
        group = builders.pod_group(
            job.name,
            minimum=_minimum(job, total),
            queue=job.queue,
            roles={name: role.min for name, role in roles.items() if role.min is not None},
            min_resources=job.admit,
            priority_class=job.priority,
            phase="Running" if job.node else "",
            created=born[0],
        )
        group.spec.network_topology = _network(job)
        group.spec.sub_group_policy = [
            SubGroupPolicy(
                name=name or "part",
                label_selector=LabelSelector(match_labels={_ROLE: name}) if name else None,
                match_label_keys=[_PART],
                sub_group_size=role.parts.size,
                min_sub_groups=role.parts.least,
                network_topology=_network(role.parts),
            )
            for name, role in roles.items()
            if role.parts is not None
        ]
        yield group
    elif job.group == "kai":
        yield KaiPodGroup(
            metadata=ObjectMeta(name=job.name, namespace="default", creation_timestamp=builders.moment(born[0])),
            spec=KaiPodGroupSpec(min_member=_minimum(job, total), queue=job.queue, priority_class_name=job.priority),
        )
    number = -1
    for name, role in roles.items():
        for index in range(role.pods):
            number += 1
            yield builders.pod(
                "-".join(part for part in (job.name, name, str(index)) if part),
                group=None if job.group in ("none", "kai") else job.name,
                role=name,
                cpu=role.each.get("cpu", 0),
                memory=role.each.get("memory", 0),
                gpu=role.each.get("gpu", 0),
                priority_class=(role.parts.priority(index) if role.parts else "") or job.priority,
                run_seconds=job.run,
                exit_as=job.exit,
                selector=job.selector,
                node=places[number],
                nominated=job.nominated,
                created=born[number],
                labels=job.labels | ({_ROLE: name} if name else {}) | (role.parts.of(index) if role.parts else {}),
                annotations=_marks(job, number),
            )


def config_of(scenario: Scenario) -> SchedulerConfig:
    """The configuration of a scenario: a profile by name, or a text."""
    if scenario.config in PROFILES:
        return profile(scenario.config)
    return parse_config(scenario.config, "scenario") if scenario.config else default_config()


def timeline_of(scenario: Scenario) -> Timeline:
    """What happens later in a scenario."""
    entries: list[Entry] = []
    for part in scenario.later:
        at = parse_duration(part.at) if isinstance(part.at, str) else part.at
        place = f"scenario {scenario.name}: at {part.at}"
        if objects := objects_of(part):
            entries.append(Entry(at, Add(tuple(objects)), place))
        if part.change:
            text = msgspec.json.encode([{"at": at, **part.change}]).decode()
            entries.extend(parse_timeline(text, place).entries)
    return Timeline(tuple(entries))


# -- comparing ----------------------------------------------------------------------------------------------


def _short(job: str) -> str:
    return job.removeprefix("default/").removeprefix("pod/")


def differences(want: WantPart, result: SimulationResult, *, limited: bool) -> Iterator[str]:
    """What a result lacks of what is wanted; a run of limited length need not have settled."""
    jobs = {_short(name): report for name, report in result.jobs.items()}
    got: dict[str, object] = {
        "running": sorted(name for name, job in jobs.items() if job.phase == "Running"),
        "completed": sorted(name for name, job in jobs.items() if job.phase == "Completed"),
        "pending": {name: job.reason.partition(":")[0] for name, job in jobs.items() if job.reason},
        "evicted": sorted(_short(made.pod) for made in _decisions(result) if isinstance(made, Evict)),
        "pods": {name: jobs[name].running for name in want.pods or {} if name in jobs},
        "bound": _bound(result, want.bound or {}),
        "order": list(dict.fromkeys(_short(made.job) for made in _decisions(result) if isinstance(made, Bind))),
        "started": _started(result, want.started or {}),
        "settled": result.settled or limited,
    }
    for name in WantPart.__struct_fields__:
        wanted = getattr(want, name)
        if isinstance(wanted, list) and name != "order":
            wanted = sorted(wanted)
        if wanted is not None and wanted != got[name]:
            yield f"{name}: want {wanted}, got {got[name]}"


def _decisions(result: SimulationResult) -> Iterator[Any]:  # Any: kinds of decisions are told apart above
    for cycle in result.cycles:
        yield from cycle.decisions


def _bound(result: SimulationResult, wanted: dict[str, str]) -> dict[str, str]:
    last = {_short(made.pod): made.node for made in _decisions(result) if isinstance(made, Bind)}
    return {pod: last[pod] for pod in wanted if pod in last}


def _started(result: SimulationResult, wanted: dict[str, float]) -> dict[str, float]:
    first: dict[str, float] = {}
    for cycle in result.cycles:
        for made in cycle.decisions:
            if isinstance(made, Bind):
                first.setdefault(_short(made.job), cycle.time - result.start)
    return {job: first[job] for job in wanted if job in first}
