"""Networks of racks and spines, gangs with topology constraints, and random clusters of both, for tests of plugins."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from muster.actions.allocate import Allocate
from muster.api import HyperNode, KubeObject, NetworkTopology, ObjectMeta, SubGroupPolicy
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
from muster.framework import PluginOption, Registry, SchedulerConfig, Session
from muster.plugins import BUILTIN
from muster.snapshot import Mirror
from muster.testing import builders

REGISTRY = Registry.of(BUILTIN, [Allocate])
GROUP_ID = "group-id"


def hyper_node(name: str, tier: int, *members: str, kind: str = "") -> HyperNode:
    """A HyperNode with members by name: nodes at tier 1, HyperNodes above, unless `kind` says otherwise."""
    kind = kind or ("Node" if tier == 1 else "HyperNode")
    found = [Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=member))) for member in members]
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=tier, members=found))


def network(shape: Sequence[Sequence[int]], *, gpu: int = 8, cpu: int = 64) -> list[KubeObject]:
    """Spines s0, s1, … of racks s0-r0, … of nodes s0-r0-n0, …; `shape` gives nodes per rack, rack by rack."""
    objects: list[KubeObject] = []
    for s, racks in enumerate(shape):
        for r, size in enumerate(racks):
            names = [f"s{s}-r{r}-n{n}" for n in range(size)]
            objects += [builders.node(name, gpu=gpu, cpu=cpu, memory="256Gi") for name in names]
            objects.append(hyper_node(f"s{s}-r{r}", 1, *names))
        objects.append(hyper_node(f"s{s}", 2, *(f"s{s}-r{r}" for r in range(len(racks)))))
    return objects


def constraint(tier: int | None) -> NetworkTopology:
    """Hard with the highest tier allowed; None: soft."""
    if tier is None:
        return NetworkTopology(mode="soft")
    return NetworkTopology(mode="hard", highest_tier_allowed=tier)


def partitioned_gang(
    name: str, sizes: Sequence[int], *, tier: int, part_tier: int | None, gpus: Sequence[int] = (8,)
) -> list[KubeObject]:
    """A gang whose sub-groups have these sizes; tasks of a sub-group ask for the GPUs of the list in turn."""
    parts = SubGroupPolicy(
        name="part",
        match_label_keys=[GROUP_ID],
        sub_group_size=min(sizes),
        min_sub_groups=len(sizes),
        network_topology=constraint(part_tier),
    )
    group = builders.pod_group(name, minimum=sum(sizes))
    spec = msgspec.structs.replace(group.spec, network_topology=constraint(tier), sub_group_policy=[parts])
    pods = [
        builders.pod(f"{name}-{number}-{k}", group=name, cpu=4, gpu=gpus[k % len(gpus)], labels={GROUP_ID: str(number)})
        for number, size in enumerate(sizes)
        for k in range(size)
    ]
    return [msgspec.structs.replace(group, spec=spec), *pods]


def random_cluster(seed: int) -> list[KubeObject]:
    """An uneven network, filled at random, and one gang with sub-groups."""
    rng = random.Random(seed)
    shape = [[rng.randint(2, 6) for _ in range(rng.randint(2, 5))] for _ in range(rng.randint(2, 5))]
    objects = network(shape)
    fill = rng.choice([0.0, 0.3, 0.5, 0.7])
    nodes = [item.metadata.name for item in objects if item.kind == "Node"]
    for name in nodes:
        free = 8
        while free and rng.random() < fill:
            size = rng.choice([gpus for gpus in (1, 2, 4, 8) if gpus <= free])
            objects.append(builders.pod(f"old-{len(objects)}", gpu=size, cpu=rng.choice([1, 2, 4]), node=name))
            free -= size
    sizes = [rng.randint(1, 4)] * rng.randint(2, 6)
    if rng.random() < 0.3:
        sizes = [rng.randint(1, 4) for _ in sizes]
    gpus = rng.choice([(8,), (4,), (2,), (8, 4), (4, 2, 1)])
    tier = rng.choice([2, 2, 3])
    return [
        *objects,
        builders.queue("default"),
        *partitioned_gang("train", sizes, tier=tier, part_tier=rng.choice([1, 1, 1, 2, None]), gpus=gpus),
    ]


def open_session(objects: Iterable[KubeObject], plugins: Mapping[str, Mapping[str, Any]]) -> Session:
    """Open a session with the plugins and their arguments."""
    mirror = Mirror()
    for item in objects:
        mirror.upsert(item)
    options = tuple(PluginOption(name, arguments=arguments) for name, arguments in plugins.items())
    return Session(mirror.snapshot(), SchedulerConfig(("allocate",), (options,)), REGISTRY)
