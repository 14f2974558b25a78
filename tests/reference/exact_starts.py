"""Whether and where a gang can start, exactly: stated for a constraint solver, with nothing of the engine in it.

A question is plain data: nodes with what is free on them, pods with what they ask for, and what the gang demands of any
set of places. CP-SAT (OR-Tools) either finds places that meet every demand, or proves that there are none. Meant for
clusters of a handful of nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

Amounts = tuple[int, ...]
Nodes = frozenset[str]


@dataclass(frozen=True)
class Part:
    """Some pods of a gang: all in one of `regions` (None: anywhere), and at least `minimum` of them.

    If it may stay out, none of them is fine, too.
    """

    pods: frozenset[str]
    minimum: int = 0
    regions: tuple[Nodes, ...] | None = None
    may_stay_out: bool = False


@dataclass(frozen=True)
class Demand:
    """What a gang wants: its pods, its parts, and of some sets of parts how many must be there."""

    pods: Mapping[str, Amounts]
    parts: tuple[Part, ...]
    #: Numbers of parts, and how many of these may not stay out.
    at_least: tuple[tuple[tuple[int, ...], int], ...] = ()
    #: Nodes that pods may be on; whoever is not named may be on all.
    allowed: Mapping[str, Nodes] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What is settled before the question: free amounts by node, and where pods of the gang are already."""

    free: Mapping[str, Amounts]
    placed: Mapping[str, str] = field(default_factory=dict)


def places(
    demand: Demand,
    held: Held,
    *,
    within: Collection[str] | None = None,
    at_least: int = 0,
    also: Iterable[str] = (),
) -> dict[str, str] | None:
    """Find nodes for the gang, with those placed already; None: there are none, proved.

    `within`: only these nodes. `at_least`: so many pods in all. `also`: these pods among them.
    """
    model = cp_model.CpModel()
    names = [name for name in held.free if within is None or name in within]
    on: dict[tuple[str, str], cp_model.IntVar] = {}
    for pod in demand.pods:
        fine = [name for name in names if name in demand.allowed.get(pod, names)]
        where = [held.placed[pod]] if pod in held.placed else fine
        for name in where:
            on[pod, name] = model.new_bool_var(f"{pod}@{name}")
        if pod in held.placed:
            model.add(on[pod, where[0]] == 1)
        else:
            model.add(sum(on[pod, name] for name in where) <= 1)
    for name in names:
        for kind, free in enumerate(held.free[name]):
            asked = [
                demand.pods[pod][kind] * here
                for (pod, place), here in on.items()
                if place == name and pod not in held.placed
            ]
            model.add(sum(asked) <= free)
    _state_parts(model, demand, on)
    model.add(sum(on.values()) >= at_least)
    for pod in also:
        model.add(sum(here for (owner, _), here in on.items() if owner == pod) == 1)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE), solver.status_name(status)
    return {pod: name for (pod, name), here in on.items() if solver.value(here)}


def _state_parts(model: cp_model.CpModel, demand: Demand, on: Mapping[tuple[str, str], cp_model.IntVar]) -> None:
    present = []
    for number, part in enumerate(demand.parts):
        there = model.new_bool_var(f"part{number}")
        present.append(there)
        if not part.may_stay_out:
            model.add(there == 1)
        own = {key: here for key, here in on.items() if key[0] in part.pods}
        count = sum(own.values())
        model.add(count >= max(part.minimum, 1 if part.may_stay_out else 0)).only_enforce_if(there)
        model.add(count == 0).only_enforce_if(~there)
        if part.regions is not None:
            chosen = [model.new_bool_var(f"part{number}in{k}") for k in range(len(part.regions))]
            model.add(sum(chosen) <= 1)
            for (_, name), here in own.items():
                model.add(sum(pick for pick, nodes in zip(chosen, part.regions, strict=True) if name in nodes) >= here)
    for numbers, least in demand.at_least:
        model.add(sum(present[number] for number in numbers) >= least)


def breaches(demand: Demand, capacity: Mapping[str, Amounts], placed: Mapping[str, str]) -> list[str]:
    """What is wrong with places that were given out; empty: nothing. For a gang of which some pod has a place."""
    wrong = []
    for name, amounts in capacity.items():
        for kind, most in enumerate(amounts):
            used = sum(demand.pods[pod][kind] for pod, place in placed.items() if place == name)
            if used > most:
                wrong.append(f"{name} holds {used} of {most}")
    for pod, name in placed.items():
        if name not in demand.allowed.get(pod, [name]):
            wrong.append(f"{pod} may not be on {name}")
    present = []
    for number, part in enumerate(demand.parts):
        own = {pod: placed[pod] for pod in part.pods if pod in placed}
        present.append(bool(own) or not part.may_stay_out)
        if len(own) < part.minimum and (own or not part.may_stay_out):
            wrong.append(f"part {number} has {len(own)} of {part.minimum} pods")
        if part.regions is not None and own and not any(set(own.values()) <= nodes for nodes in part.regions):
            wrong.append(f"part {number} is spread over {sorted(set(own.values()))}")
    wrong += [
        f"of parts {numbers} fewer than {least} are there"
        for numbers, least in demand.at_least
        if sum(present[number] for number in numbers) < least
    ]
    return wrong


def regions_of(domains: Mapping[str, tuple[int, Nodes]], limit: int | None) -> tuple[Nodes, ...] | None:
    """The sets of nodes that a constraint allows, given as the highest tier; None: no constraint.

    `domains`: tier and nodes by name. The whole cluster counts as one tier above all that are named.
    """
    top = max((tier for tier, _ in domains.values()), default=0) + 1
    if limit is None or limit >= top:
        return None
    return tuple(nodes for tier, nodes in domains.values() if tier <= limit)


def least_tier(domains: Mapping[str, tuple[int, Nodes]], able: Sequence[Nodes]) -> int:
    """The lowest tier of the domains, or of the whole cluster, that are among `able`."""
    top = max((tier for tier, _ in domains.values()), default=0) + 1
    tiers = [tier for tier, nodes in domains.values() if nodes in able]
    return min(tiers, default=top)
