"""The scheduler beside an exact solver, on tiny clusters with gangs of every kind.

What the solver proves is what is asked: a gang starts if and only if it can, as low in the network as it can, with all
its pods if there are places for all, and no rule is broken on the way. The solver knows nothing of the engine.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from muster.framework import SchedulerConfig, profile
from muster.scheduler import builtin_registry
from muster.simulate import simulate
from muster.snapshot.messages import Bind, Evict
from tests.properties.oracle_gangs import KINDS, Gang
from tests.properties.oracle_worlds import Crowd, World, crowds, less, started_worlds, worlds
from tests.properties.told import told
from tests.reference.exact_starts import Amounts, Held, breaches, least_tier, places

REGISTRY = builtin_registry(third_party=False)
CYCLES = 8
#: Cycles from an eviction to the start of whom it was for.
PATIENCE = 10
#: The same worlds in every ordinary run, others in each soak.
STEADY = settings(derandomize=os.environ.get("MUSTER_SOAK") != "1")


def _without_evictions(name: str) -> SchedulerConfig:
    whole = profile(name)
    return replace(
        whole, actions=tuple(action for action in whole.actions if action in ("enqueue", "allocate", "backfill"))
    )


#: Half as many, where a world takes several times as long.
LONG = settings(STEADY, max_examples=STEADY.max_examples // 2)
PROFILES = st.sampled_from(["muster", "volcano", "kai"])
CONFIGS = {name: _without_evictions(name) for name in ("muster", "volcano", "kai")}


def run(world: World, config: SchedulerConfig) -> list[dict[str, str]]:
    """Places of all pods after each cycle."""
    result = simulate(world.objects, config, cycles=CYCLES, registry=REGISTRY)
    placed = dict(world.held)
    after = []
    for cycle in result.cycles:
        assert cycle.error is None
        assert not any(isinstance(made, Evict) for made in cycle.decisions)
        placed |= {made.pod.removeprefix("default/"): made.node for made in cycle.decisions if isinstance(made, Bind)}
        after.append(dict(placed))
    return after


def own_places(gang: Gang, placed: dict[str, str]) -> dict[str, str]:
    return {pod: placed[pod] for pod in gang.demand.pods if pod in placed}


def left_over(world: World, placed: dict[str, str]) -> dict[str, Amounts]:
    new = {pod: name for pod, name in placed.items() if pod not in world.held}
    return less(
        world.free,
        ((name, gang.demand.pods[pod]) for gang in world.gangs for pod, name in own_places(gang, new).items()),
    )


def check_rules(world: World, placed: dict[str, str]) -> None:
    assert all(min(amounts) >= 0 for amounts in left_over(world, placed).values()), "a node is overfull"
    for gang in world.gangs:
        own = own_places(gang, placed)
        if own:
            assert breaches(gang.demand, world.network.nodes, own) == [], gang.name


def check_starts(world: World, profile_name: str) -> None:
    """One gang waits: it starts if and only if it can, with all its pods if there are places for all."""
    [gang] = world.gangs
    after = run(world, CONFIGS[profile_name])
    for placed in after:
        check_rules(world, placed)
    own = own_places(gang, after[-1])
    solution = places(gang.demand, Held(world.free))
    event("starts" if solution else "cannot start")
    assert bool(own) == (solution is not None), f"placed {own}, possible {solution}"
    if solution is not None and len(own) < len(gang.demand.pods):
        everybody = places(gang.demand, Held(world.free), at_least=len(gang.demand.pods))
        assert everybody is None, f"placed {own}, possible for all {everybody}"
        more = places(gang.demand, Held(left_over(world, after[-1]), own), at_least=len(own) + 1)
        assert more is None, f"placed {own}, possible {more}"


def check_tier(world: World, profile_name: str) -> None:
    """Of places with equal room, for all pods or for the minimum, the gang takes one of the lowest tier."""
    [gang] = world.gangs
    if gang.limit is None and not gang.soft:
        return
    own = own_places(gang, run(world, CONFIGS[profile_name])[-1])
    if not own:
        return
    domains, held, everybody = world.network.domains, Held(world.free), len(gang.demand.pods)
    whole = places(gang.demand, held, at_least=everybody) is not None
    least = everybody if whole else 0
    able = [
        nodes for _, nodes in domains.values() if places(gang.demand, held, within=nodes, at_least=least) is not None
    ]
    # Pods beyond the minimum may stand further away under a soft constraint.
    together = everybody if whole else max(1, gang.demand.parts[-1].minimum)
    used = [nodes for _, nodes in domains.values() if sum(place in nodes for place in own.values()) >= together]
    lowest = least_tier(domains, able)
    assert least_tier(domains, used) <= lowest, f"placed {own}, possible within tier {lowest}"


def check_growth(world: World, profile_name: str) -> None:
    """A gang that runs, or has run, gets whatever it can have, and keeps its rules; if some of it was lost, too."""
    [gang] = world.gangs
    after = run(world, CONFIGS[profile_name])
    was_whole = breaches(gang.demand, world.network.nodes, world.held) == []
    for placed in after:
        assert all(min(amounts) >= 0 for amounts in left_over(world, placed).values()), "a node is overfull"
        wrong = breaches(gang.demand, world.network.nodes, own_places(gang, placed)) if placed else []
        assert was_whole is False or wrong == []
        assert not any("spread" in one or "may not" in one for one in wrong)
    own = own_places(gang, after[-1])
    event("whole" if was_whole else "broken")
    more = places(gang.demand, Held(left_over(world, after[-1]), own), at_least=len(own) + 1)
    assert more is None, f"placed {own}, possible {more}"


def check_several(world: World, profile_name: str) -> None:
    """Several gangs wait: in the end nobody waits who could start, and nobody who could grow."""
    after = run(world, CONFIGS[profile_name])
    for placed in after:
        check_rules(world, placed)
    free = left_over(world, after[-1])
    for gang in world.gangs:
        own = own_places(gang, after[-1])
        more = places(gang.demand, Held(free, own), at_least=len(own) + 1)
        assert more is None, f"{gang.name} placed {own}, possible {more}"


def check_evictions(crowd: Crowd, profile_name: str) -> None:
    """Others go only for a gang that cannot start beside them, all at once, and it starts soon, within its rules.

    What spare pods do for one that has started is another matter.
    """
    [gang] = crowd.world.gangs
    result = simulate(crowd.objects, profile(profile_name), cycles=PATIENCE + 4, registry=REGISTRY)
    own: dict[str, str] = {}
    cleared: int | None = None
    for number, cycle in enumerate(result.cycles):
        assert cycle.error is None
        bound = {made.pod.removeprefix("default/"): made.node for made in cycle.decisions if isinstance(made, Bind)}
        own |= own_places(gang, bound)
        gone = [made.pod for made in cycle.decisions if isinstance(made, Evict) and made.beneficiary.endswith("/a")]
        if gone and not own:
            assert cleared is None, f"{gone} go for it too, for which others went in cycle {cleared}"
            beside = places(gang.demand, Held(crowd.free))
            assert beside is None, f"{gone} go though it could start: {beside}"
            cleared = number
        assert cleared is None or own or number <= cleared + PATIENCE, f"others went in cycle {cleared} for nothing"
    event("starts after evictions" if cleared is not None else "starts" if own else "waits")
    if own:
        assert breaches(gang.demand, crowd.world.network.nodes, own) == []


def check_promises(crowd: Crowd, profile_name: str) -> None:
    """Several gangs wait among others that run: whoever goes, goes for a gang that starts or grows soon.

    Unless a gang of a higher priority takes what was cleared, or pods that went find room themselves.
    """
    result = simulate(crowd.objects, profile(profile_name), cycles=2 * PATIENCE + 4, registry=REGISTRY)
    own: dict[str, dict[str, str]] = {gang.name: {} for gang in crowd.world.gangs}
    cleared: dict[str, tuple[int, int, list[str]]] = {}
    for number, cycle in enumerate(result.cycles):
        assert cycle.error is None
        bound = {made.pod.removeprefix("default/"): made.node for made in cycle.decisions if isinstance(made, Bind)}
        gone = {made.pod.removeprefix("default/") for made in cycle.decisions if isinstance(made, Evict)}
        for gang in crowd.world.gangs:
            own[gang.name] |= own_places(gang, bound)
            own[gang.name] = {pod: name for pod, name in own[gang.name].items() if pod not in gone}
            went = [
                made.pod
                for made in cycle.decisions
                if isinstance(made, Evict) and made.beneficiary == f"default/{gang.name}"
            ]
            if went and gang.name not in cleared:
                cleared[gang.name] = number, len(own[gang.name]), went
        for name, (since, had, went) in [*cleared.items()]:
            if len(own[name]) > had:
                del cleared[name]
                continue
            assert number <= since + PATIENCE, f"{went} went in cycle {since} for {name}, which did not start"
    event("evictions" if any(isinstance(m, Evict) for c in result.cycles for m in c.decisions) else "none")


@pytest.mark.parametrize("kind", KINDS)
@STEADY
@given(data=st.data())
def test_a_gang_that_has_started_grows_and_mends_where_it_can(kind: str, data: st.DataObject) -> None:
    world, profile_name = data.draw(started_worlds(kind)), data.draw(PROFILES)
    with told(world.objects, profile_name):
        check_growth(world, profile_name)


@pytest.mark.parametrize("kind", KINDS)
@STEADY
@given(data=st.data())
def test_who_is_evicted_goes_for_a_gang_that_starts(kind: str, data: st.DataObject) -> None:
    crowd, profile_name = data.draw(crowds(kind)), data.draw(PROFILES)
    with told(crowd.objects, profile_name):
        check_evictions(crowd, profile_name)


@pytest.mark.parametrize("kind", KINDS)
@LONG
@given(data=st.data())
def test_where_several_wait_nobody_goes_for_a_gang_that_does_not_start(kind: str, data: st.DataObject) -> None:
    crowd, profile_name = data.draw(crowds(kind, most_gangs=3)), data.draw(PROFILES)
    with told(crowd.objects, profile_name):
        check_promises(crowd, profile_name)


@pytest.mark.parametrize("kind", KINDS)
@STEADY
@given(data=st.data())
def test_a_gang_starts_if_and_only_if_it_can(kind: str, data: st.DataObject) -> None:
    world, profile_name = data.draw(worlds(kind)), data.draw(PROFILES)
    with told(world.objects, profile_name):
        check_starts(world, profile_name)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nested"])
@STEADY
@given(data=st.data())
def test_of_places_with_equal_room_the_lowest_tier_is_taken(kind: str, data: st.DataObject) -> None:
    world = data.draw(worlds(kind))
    with told(world.objects, "muster"):
        check_tier(world, "muster")


@pytest.mark.parametrize("kind", KINDS)
@STEADY
@given(data=st.data())
def test_where_several_wait_nobody_waits_who_could_start(kind: str, data: st.DataObject) -> None:
    world, profile_name = data.draw(worlds(kind, most_gangs=3)), data.draw(PROFILES)
    with told(world.objects, profile_name):
        check_several(world, profile_name)
