"""Cases C and D: a cluster full of low-priority gangs of 8, and one high-priority gang of whole-node tasks.

C is preemption inside one queue. D is the same across queues: victims in a queue of weight 1, the gang in one of weight
9, so that it stays within what its queue deserves.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import clusters
from benchmarks.cases import Case
from muster.snapshot import Mirror

TOPOLOGY_AWARE = """
configurations:
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
"""


def _full(nodes: int, tasks: int, gpus: int, *, tier: int | None, across: bool = False) -> Callable[[Mirror], None]:
    """Victims of 8 tasks of so many GPUs each; a gang of whole-node tasks that needs their room."""

    def build(mirror: Mirror) -> None:
        clusters.add_nodes(mirror, nodes)
        if tier is not None:
            clusters.add_topology(mirror, nodes)
        clusters.add_queues(mirror, 2 if across else 1, weights=(1, 9))
        clusters.fill_in_order(mirror, nodes, gpus, "q1")
        topology = None if tier is None else clusters.hard(tier)
        queue = "q2" if across else "q1"
        clusters.add_gang(mirror, "gang", queue, tasks, clusters.requests(8), topology=topology)

    return build


def _hopeless(mirror: Mirror) -> None:
    """200 gangs of 64 that wait for pods which nobody may evict: their priority is higher."""
    clusters.add_nodes(mirror, 5000)
    clusters.add_queues(mirror, 1)
    clusters.fill_in_order(mirror, 5000, 1, "q1", priority="top")
    for i in range(200):
        clusters.add_gang(mirror, f"gang-{i:03d}", "q1", 64, clusters.requests(8))


def _gang_case(name: str, nodes: int, tasks: int, gpus: int, goal: float, *, across: bool = False) -> Case:
    tier = 2 if tasks <= 256 else 3
    return Case(
        f"{name}/{tasks}-of-{nodes}-v{gpus}",
        f"{nodes:,} nodes, victims 8 x {gpus} GPU, gang of {tasks:,}, tier {tier}",
        goal,
        _full(nodes, tasks, gpus, tier=tier, across=across),
        pipelined=tasks,
        evicted=tasks * 8 // gpus,
        topology=True,
        actions="gangreclaim" if across else "gangpreempt",
    )


def _task_case(name: str, nodes: int, tasks: int, gpus: int, goal: float, *, across: bool = False) -> Case:
    return Case(
        f"{name}/legacy-{tasks}-of-{nodes}-v{gpus}",
        f"{nodes:,} nodes, victims 8 x {gpus} GPU, {tasks:,} tasks, task by task",
        goal,
        _full(nodes, tasks, gpus, tier=None, across=across),
        pipelined=tasks,
        evicted=tasks * 8 // gpus,
        actions="reclaim" if across else "preempt",
    )


_SIZES = (
    ("1", 1000, 64, (1,), 0.008),
    ("2", 1000, 512, (1, 8), 0.040),
    ("3", 1000, 1000, (1, 8), 0.060),
    ("4", 5000, 1000, (1, 8), 0.150),
)

EVICTION_CASES: tuple[Case, ...] = (
    *(_gang_case(f"C{k}", n, t, v, goal) for k, n, t, shapes, goal in _SIZES for v in shapes),
    *(_task_case(f"C{k}", n, t, v, goal) for k, n, t, shapes, goal in _SIZES for v in shapes),
    Case(
        "C5",
        "topology-aware preempt: 5,000 nodes, 64 tasks, victims 8 x 1 GPU",
        0.060,
        _full(5000, 64, 1, tier=None),
        pipelined=64,
        evicted=512,
        actions="preempt",
        options=TOPOLOGY_AWARE,
    ),
    Case("C6/gang", "hopeless: 5,000 full nodes, 200 gangs of 64", 0.300, _hopeless, actions="gangpreempt"),
    Case("C6/legacy", "the same, task by task", 0.300, _hopeless, actions="preempt"),
    # A gang that needs the whole cluster is more than its queue deserves, so D3 is left out, as with the peers.
    *(_gang_case(f"D{k}", n, t, v, goal, across=True) for k, n, t, shapes, goal in _SIZES for v in shapes if t < n),
    *(_task_case(f"D{k}", n, t, v, goal, across=True) for k, n, t, shapes, goal in _SIZES for v in shapes if t < n),
)
