"""Jobs with topology constraints that are placed task by task, at the expense of others."""

from collections.abc import Sequence
from typing import Any

from muster.api import KubeObject, NetworkTopology, SubGroupPolicy
from muster.framework import Session, parse_config
from muster.testing import node
from tests.engine.evictions.eviction_stage import act, evicted, promised, running
from tests.snapshot.networks import SOFT, group, hard, members, parts, racks

CONFIG = parse_config(
    'actions: "preempt"\ntiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}, '
    "{name: conformance}]}, {plugins: [{name: predicates}]}]",
    "test",
)


def gang(
    pods: int,
    topology: NetworkTopology | None,
    *,
    on: Sequence[str] = (),
    minimum: int | None = None,
    policies: Sequence[SubGroupPolicy] = (),
    **more: Any,
) -> list[KubeObject]:
    head = group("new", pods if minimum is None else minimum, topology, policies, priority_class="high")
    return [head, *members("new", pods, on=on, gpu=8, priority=1000, **more)]


def filled(*names: str, gpu: int = 8) -> list[KubeObject]:
    """One running job on each of the nodes."""
    return [made for name in names for made in running(f"old-{name}", [name], gpu=gpu)]


def racks_used(session: Session) -> set[str]:
    return {name.rsplit("-", 1)[0] for name in promised(session).values()}


NETWORK = racks({"s0": [2, 2], "s1": [2, 2]})
NODES = [f"s{s}-r{r}-n{n}" for s in range(2) for r in range(2) for n in range(2)]


def test_the_first_task_pins_the_domain() -> None:
    session = act([*NETWORK, *filled(*NODES), *gang(2, hard(1))], CONFIG)
    assert len(evicted(session)) == 2
    assert len(racks_used(session)) == 1


def test_the_pin_is_as_wide_as_the_tier_allows() -> None:
    session = act([*NETWORK, *filled(*NODES), *gang(3, hard(2))], CONFIG)
    assert len(evicted(session)) == 3
    assert {name.split("-")[0] for name in promised(session).values()} in ({"s0"}, {"s1"})


def test_a_gang_that_fits_in_no_domain_evicts_nobody() -> None:
    assert not act([*NETWORK, *filled(*NODES), *gang(3, hard(1))], CONFIG).committed


def test_domains_that_could_not_hold_the_rest_are_not_pinned() -> None:
    # The first rack has room for one at once, but nobody to evict for the second.
    spared = running("spared", ["s0-r0-n1"], gpu=8, annotations={"volcano.sh/preemptable": "false"})
    world = [*NETWORK, *spared, *filled(*NODES[2:]), *gang(2, hard(1))]
    session = act(world, CONFIG)
    assert len(evicted(session)) == 2
    assert len(racks_used(session)) == 1
    assert racks_used(session) != {"s0-r0"}


def test_running_pods_hold_the_gang_where_it_is() -> None:
    world = [*NETWORK, *filled(*NODES[:3], *NODES[4:]), *gang(2, hard(1), on=["s0-r1-n1"])]
    session = act(world, CONFIG)
    assert evicted(session) == ["old-s0-r1-n0-0"]
    assert promised(session) == {"new-1": "s0-r1-n0"}


def test_soft_constraints_leave_all_nodes_open() -> None:
    spared = [
        made
        for name in ("s0-r0-n0", "s0-r1-n0", "s1-r0-n0")
        for made in running(f"spared-{name}", [name], gpu=8, annotations={"volcano.sh/preemptable": "false"})
    ]
    free = [name for name in NODES if name not in ("s0-r0-n0", "s0-r1-n0", "s1-r0-n0")]
    session = act([*NETWORK, *spared, *filled(*free), *gang(5, SOFT)], CONFIG)
    assert len(evicted(session)) == 5


def test_sub_groups_have_domains_of_their_own() -> None:
    policies = [parts(2, 2, hard(1))]
    head = group("new", 4, hard(2), policies, priority_class="high")
    pods = [made for part in ("x", "y") for made in members("new", 2, part=part, gpu=8, priority=1000)]
    session = act([*NETWORK, *filled(*NODES), head, *pods], CONFIG)
    assert len(evicted(session)) == 4
    places = promised(session)
    for part in ("x", "y"):
        assert len({places[f"new-{part}-{k}"].rsplit("-", 1)[0] for k in range(2)}) == 1
    assert len({name.split("-")[0] for name in places.values()}) == 1


def test_nodes_outside_every_domain_do_not_count() -> None:
    world = [*racks({"s0": [1]}), node("stray", gpu=8), *filled("s0-r0-n0", "stray"), *gang(2, hard(1))]
    assert not act(world, CONFIG).committed
