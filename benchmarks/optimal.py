"""How close victims come to the fewest possible: random fragmented clusters, beside an exact solver (case C7).

Gangs are scattered over three racks each, so that freeing a node touches many of them and it matters which domain is
entered. An exact solver (OR-Tools CP-SAT, of the test extra) finds, over all racks that the gang may enter, the fewest
gangs that must be broken, the fewest GPUs that broken gangs must lose, and the least of both together (a gang counts
like the GPUs of the mean gang, as in the scheduler). No answer is best in all three.
Run: python -m benchmarks.optimal [CLUSTERS]
"""

from __future__ import annotations

import random
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from benchmarks import clusters
from benchmarks.cases import CONFIG, TOPOLOGY_CONFIG
from benchmarks.measure import calibrate
from muster.framework import Session, parse_config
from muster.scheduler import builtin_registry
from muster.snapshot import Mirror, OperationKind, TaskStatus

GPUS = 8


@dataclass(frozen=True, slots=True)
class Gang:
    """A running gang: GPUs per task, and the node of each task."""

    gpus: int
    nodes: tuple[int, ...]

    @property
    def held(self) -> int:
        return self.gpus * len(self.nodes)

    def on(self, node: int) -> int:
        """GPUs that it holds on a node."""
        return self.gpus * self.nodes.count(node)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One random cluster: racks of nodes, gangs that run there, and what is asked for."""

    racks: int
    nodes_per_rack: int
    gangs: tuple[Gang, ...]
    tasks: int
    gpus: int
    #: Whether the gang that asks must stay inside a rack.
    in_rack: bool

    @property
    def nodes(self) -> int:
        return self.racks * self.nodes_per_rack


@dataclass(frozen=True, slots=True)
class Outcome:
    """Gangs broken, and GPUs that they held."""

    gangs: int
    gpus: int


def make_cluster(seed: int) -> Cluster:
    """Fill nodes with gangs of 2 to 8 tasks, each scattered over three racks, until few places are left."""
    rng = random.Random(seed)  # noqa: S311 - reproducible clusters, not secrets
    racks, per_rack = rng.choice([(4, 8), (8, 8), (4, 16), (6, 8)])
    free = [GPUS] * (racks * per_rack)
    gangs = []
    for _ in range(400):
        homes = rng.sample(range(racks), 3)
        nodes = [rack * per_rack + k for rack in homes for k in range(per_rack)]
        gang = _scatter(rng, free, nodes, rng.randint(2, 8), rng.choice([1, 1, 2, 4]))
        if gang is not None:
            gangs.append(gang)
    tasks, gpus = rng.randint(1, per_rack // 2), rng.choice([4, 8, 8])
    return Cluster(racks, per_rack, tuple(gangs), tasks, gpus, rng.random() < 0.75)


def _scatter(rng: random.Random, free: list[int], nodes: list[int], size: int, gpus: int) -> Gang | None:
    """Put the tasks of a gang on nodes at random; None: they do not all fit, and nothing has changed."""
    taken: list[int] = []
    for _ in range(size):
        fitting = [node for node in nodes if free[node] >= gpus]
        if not fitting:
            for node in taken:
                free[node] += gpus
            return None
        taken.append(rng.choice(fitting))
        free[taken[-1]] -= gpus
    return Gang(gpus, tuple(taken))


# -- the exact answer ------------------------------------------------------------------------------------------


def solve(cluster: Cluster, weights: list[int]) -> int | None:
    """The least weight of broken gangs, in the best domain; None: no eviction helps."""
    found = [answer for span in _spans(cluster) if (answer := _solve_in(cluster, span, weights)) is not None]
    return min(found, default=None)


def _spans(cluster: Cluster) -> list[range]:
    if not cluster.in_rack:
        return [range(cluster.nodes)]
    step = cluster.nodes_per_rack
    return [range(rack * step, (rack + 1) * step) for rack in range(cluster.racks)]


def _solve_in(cluster: Cluster, span: range, weights: list[int]) -> int | None:
    model = cp_model.CpModel()
    broken = [model.new_bool_var(f"gang{number}") for number in range(len(cluster.gangs))]
    places = []
    for node in span:
        held = [gang.on(node) for gang in cluster.gangs]
        count = model.new_int_var(0, GPUS // cluster.gpus, f"places{node}")
        freed = sum(amount * gone for amount, gone in zip(held, broken, strict=True) if amount)
        model.add(cluster.gpus * count <= GPUS - sum(held) + freed)
        places.append(count)
    model.add(sum(places) >= cluster.tasks)
    model.minimize(sum(weight * gone for weight, gone in zip(weights, broken, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 60
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status != cp_model.OPTIMAL:
        raise SystemExit("the exact solver did not finish in time")
    return round(solver.objective_value)


# -- Muster's answer -------------------------------------------------------------------------------------------


def evict(cluster: Cluster) -> Outcome | None:
    """Let Muster preempt; None: it evicts nobody."""
    mirror = Mirror()
    clusters.add_nodes(mirror, cluster.nodes)
    clusters.add_topology(mirror, cluster.nodes, rack=cluster.nodes_per_rack)
    clusters.add_queues(mirror, 1)
    for number, gang in enumerate(cluster.gangs):
        nodes = iter([clusters.node_name(node) for node in gang.nodes])
        name = f"victim-{number:03d}"
        clusters.add_gang(mirror, name, "q1", len(gang.nodes), clusters.requests(gang.gpus), nodes=nodes)
    topology = clusters.hard(1) if cluster.in_rack else None
    clusters.add_gang(mirror, "gang", "q1", cluster.tasks, clusters.requests(cluster.gpus), topology=topology)
    config = parse_config('actions: "gangpreempt"\n' + CONFIG + TOPOLOGY_CONFIG, "benchmark configuration")
    registry = builtin_registry(third_party=False)
    session = Session(mirror.snapshot(), config, registry)
    registry.make_action("gangpreempt", {}).run(session)
    return _outcome(session, cluster)


def _outcome(session: Session, cluster: Cluster) -> Outcome | None:
    tasks, records = session.snapshot.tasks, session.snapshot.jobs.records
    broken = {
        int(records[int(tasks.job[task])].name.removeprefix("victim-"))
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is OperationKind.EVICT
        for task in operation.tasks.tolist()
    }
    if int((tasks.status == TaskStatus.PIPELINED).sum()) < cluster.tasks:
        return None
    return Outcome(len(broken), sum(cluster.gangs[number].held for number in broken))


# -- side by side ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """One cluster: what Muster broke, and the least that must be broken."""

    seed: int
    requested: int
    ours: Outcome
    #: Mean GPUs of a gang.
    mean: int
    fewest_gangs: int
    fewest_gpus: int
    least_of_both: int

    def ratios(self) -> tuple[float, float, float]:
        """Ours ÷ the least possible: gangs, GPUs, both together."""
        both = self.ours.gpus + self.mean * self.ours.gangs
        return self.ours.gangs / self.fewest_gangs, self.ours.gpus / self.fewest_gpus, both / self.least_of_both


def compare(seed: int) -> Comparison | None:
    """Both answers for one cluster; None: nobody has to go, or nothing helps. Only one finding a way is an error."""
    cluster = make_cluster(seed)
    held = [gang.held for gang in cluster.gangs]
    mean = round(sum(held) / len(held))
    gangs = solve(cluster, [1] * len(held))
    ours = evict(cluster)
    if (gangs is None) != (ours is None):
        raise SystemExit(f"cluster {seed}: the exact solver says {gangs} gangs, Muster {ours}")
    gpus, both = solve(cluster, held), solve(cluster, [amount + mean for amount in held])
    if not gangs or not gpus or not both or ours is None:
        return None
    return Comparison(seed, cluster.tasks * cluster.gpus, ours, mean, gangs, gpus, both)


NAME = "C7"
WORK = "100 random clusters of up to 64 nodes: victims beside what an exact solver finds minimal"
_MEASURES = ("gangs broken", "GPUs lost", "both together")


def find(count: int) -> list[Comparison]:
    """Compare clusters until `count` of them needed victims."""
    found: list[Comparison] = []
    seed = 0
    while len(found) < count:
        one = compare(seed)
        seed += 1
        if one is not None:
            found.append(one)
    return found


def result(count: int = 100) -> dict[str, Any]:
    """The case as results.json holds it; `seconds` is for everything, solver included."""
    begin = time.perf_counter()
    found = find(count)
    seconds = time.perf_counter() - begin
    done: dict[str, float] = {}
    for name, ratios in zip(_MEASURES, zip(*(one.ratios() for one in found), strict=True), strict=True):
        done[f"x optimal {name} (mean)"] = round(sum(ratios) / count, 3)
        done[f"x optimal {name} (worst)"] = round(max(ratios), 2)
    done["evicted per requested"] = round(sum(one.ours.gpus / one.requested for one in found) / count, 2)
    return {
        "case": NAME,
        "work": WORK,
        "seconds": round(seconds, 3),
        "goal_seconds": 0.0,
        "runs": count,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calibration_seconds": calibrate(),
        "done": done,
        "parts": {"snapshot": 0.0, "session": 0.0, "actions": 0.0},
    }


def main(count: int) -> int:
    """Print how far from the optimum the choices are."""
    for what, figure in result(count)["done"].items():
        print(f"{figure:>7} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
