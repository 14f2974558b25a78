"""Cases E: the solver strategy with the plugins of the profile `kai`, trimmed victims.

E1 and E2 preempt inside a queue, E3 takes back across queues, E4 is many small jobs, E5 moves jobs on fragmented nodes,
E6 looks for victims where nothing may be taken.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import clusters
from benchmarks.cases import Case
from muster.api import ObjectMeta, Quantity, Queue, QueueSpec
from muster.snapshot import Mirror

_TRIMMED = """
configurations:
- name: preempt
  arguments: {strategy: solver}
- name: reclaim
  arguments: {strategy: solver}
- name: consolidation
  arguments: {maxConsolidationPreemptees: -1}
"""


def _add_quota(mirror: Mirror, name: str, gpus: int) -> None:
    """A queue that is guaranteed so many GPUs, with the CPUs and the memory that go with them."""
    deserved = {"cpu": Quantity(str(8 * gpus)), "memory": Quantity(f"{64 * gpus}Gi"), clusters.GPU: Quantity(str(gpus))}
    mirror.upsert(Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1, deserved=deserved)))


def _full(nodes: int, tasks: int, *, across: bool) -> Callable[[Mirror], None]:
    """Gangs of 8 whole-node pods everywhere; a gang of whole-node tasks that needs their room."""

    def build(mirror: Mirror) -> None:
        clusters.add_nodes(mirror, nodes)
        clusters.add_queues(mirror, 1)
        clusters.fill_in_order(mirror, nodes, 8, "q1")
        if across:
            _add_quota(mirror, "q2", 8 * nodes)
        clusters.add_gang(mirror, "gang", "q2" if across else "q1", tasks, clusters.requests(8))

    return build


def _many_small(mirror: Mirror) -> None:
    """A queue has all 4,000 GPUs with jobs of one GPU; as many wait in another one of the same weight."""
    clusters.add_nodes(mirror, 500)
    clusters.add_queues(mirror, 2)
    clusters.fill(mirror, 4000, 500, "q1", gang=1)
    clusters.add_pending(mirror, 4000, ["q2"], gang=1)


def _fragmented(tasks: int) -> Callable[[Mirror], None]:
    """1,000 nodes with one to seven jobs of one GPU each; a gang of whole-node tasks waits."""

    def build(mirror: Mirror) -> None:
        clusters.add_nodes(mirror, 1000)
        clusters.add_queues(mirror, 1)
        slots = iter([clusters.node_name(i) for i in range(1000) for _ in range(1 + i % 7)])
        for i in range(sum(1 + i % 7 for i in range(1000))):
            clusters.add_gang(mirror, f"running-{i:05d}", "q1", 1, clusters.requests(1), nodes=slots, priority="high")
        clusters.add_gang(mirror, "gang", "q1", tasks, clusters.requests(8))

    return build


def _hopeless(mirror: Mirror) -> None:
    """1,000 jobs wait in a queue that may take back; the others have no more than they are guaranteed."""
    clusters.add_nodes(mirror, 1000)
    clusters.add_queues(mirror, 0)
    for i in range(10):
        _add_quota(mirror, f"full-{i}", 800)
    slots = (clusters.node_name(i) for i in range(1000))
    for i in range(1000):
        clusters.add_gang(mirror, f"running-{i:05d}", f"full-{i % 10}", 1, clusters.requests(8), nodes=slots)
    _add_quota(mirror, "waiting", 8000)
    for i in range(1000):
        clusters.add_gang(mirror, f"job-{i:05d}", "waiting", 1, clusters.requests(1 + i % 8))


def _case(
    name: str,
    work: str,
    goal: float,
    build: Callable[[Mirror], None],
    action: str,
    *,
    pipelined: int | None = 0,
    evicted: int | None = 0,
) -> Case:
    return Case(
        name,
        work,
        goal,
        build,
        pipelined=pipelined,
        evicted=evicted,
        actions=action,
        profile="kai",
        options=_TRIMMED,
    )


def _sizes(name: str, *, across: bool) -> list[Case]:
    sizes = [(1000, 64, 0.020), (5000, 64, 0.040)]
    sizes += [(1000, tasks, goal) for tasks, goal in ((128, 0.030), (256, 0.050), (512, 0.100), (1000, 0.200))]
    action, verb = ("reclaim", "takes back") if across else ("preempt", "preempts")
    return [
        _case(
            f"{name if across else 'E1' if tasks == 64 else 'E2'}/{tasks}-of-{nodes}",
            f"{nodes:,} nodes, gangs of 8 x 8 GPU, a gang of {tasks:,} {verb}",
            goal,
            _full(nodes, tasks, across=across),
            action,
            pipelined=tasks,
            evicted=8 * -(-tasks // 8),
        )
        for nodes, tasks, goal in sizes
    ]


SOLVER_CASES = (
    *_sizes("E1", across=False),
    *_sizes("E3", across=True),
    _case("E4", "500 nodes, 4,000 jobs run, 4,000 wait", 0.500, _many_small, "reclaim", pipelined=2000, evicted=2000),
    *(
        _case(
            f"E5/{tasks}",
            f"1,000 fragmented nodes, a gang of {tasks} needs whole ones",
            goal,
            _fragmented(tasks),
            "consolidation",
            evicted=moved,
            # Everybody who moves is promised a place, as the gang is.
            pipelined=moved + tasks,
        )
        for tasks, moved, goal in ((1, 6, 0.008), (16, 67, 0.040), (64, 258, 0.150))
    ),
    _case("E6", "1,000 nodes, 1,000 jobs wait, nothing may be taken", 0.300, _hopeless, "reclaim"),
)
