"""Random small clusters of KAI's objects: queue trees, rigid and elastic gangs, pod sets, priorities, budgets, ages."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from muster.api import KaiPodGroup, KaiQueue, KubeObject, Node, Pod
from muster.testing import node
from tests.engine.evictions.solver.solver_stage import CLASSES, gang, kai_queue
from tests.plugins.test_pdb import budget

#: What gangs are guaranteed in worlds with ages, in seconds.
RUNTIME = 60.0
_AGES = [None, 0.0, RUNTIME - 1, RUNTIME, 600.0]

Room = dict[str, list[int]]


class World(list[KubeObject]):
    """Objects, shown in few words when a test fails."""

    def __repr__(self) -> str:
        return "\n".join(_words(item) for item in self)


def _words(item: KubeObject) -> str:
    if isinstance(item, KaiQueue) and item.spec.resources is not None:
        gpu = item.spec.resources.gpu
        return f"queue {item.name} in {item.spec.parent_queue!r}: {gpu} priority {item.spec.priority}"
    if isinstance(item, KaiPodGroup):
        sets = [(part.name, part.min_member) for part in item.spec.sub_groups] or item.spec.min_member
        firm = item.spec.preemptibility
        return f"gang {item.name} in {item.spec.queue}: {sets} {item.spec.priority_class_name} {firm}"
    if isinstance(item, Pod):
        asks = {name: str(amount) for name, amount in item.spec.containers[0].resources.requests.items()}
        return f"  pod {item.name} on {item.spec.node_name!r}: {asks} {item.metadata.labels}"
    if isinstance(item, Node):
        return f"node {item.name}: { ({name: str(amount) for name, amount in item.status.allocatable.items()}) }"
    return f"{item.kind} {item.name}"


@st.composite
def worlds(draw: st.DrawFn, *, budgets: bool = True, alike: bool = False) -> World:
    """A cluster; `alike`: every pod asks for the same."""
    objects = World(CLASSES)
    free: Room = {}
    for k in range(draw(st.integers(1, 4))):
        gpus, cpus = draw(st.integers(1, 6)), 64 if alike else draw(st.integers(2, 12))
        objects.append(node(f"n{k}", gpu=gpus, cpu=cpus))
        free[f"n{k}"] = [gpus, cpus]
    leaves = draw(queue_trees(objects))
    for k in range(draw(st.integers(2, 7))):
        objects.extend(draw(gangs(f"j{k}", leaves, free, created=k, alike=alike)))
    if budgets and draw(st.integers(0, 2)) == 0:
        objects.append(budget(allowed=draw(st.integers(0, 3))))
    return objects


@st.composite
def queue_trees(draw: st.DrawFn, objects: list[KubeObject]) -> list[str]:
    """Add queues, of one level or of two; return the names of the leaves."""
    leaves = [f"q{k}" for k in range(draw(st.integers(1, 3)))]
    tops = draw(st.sampled_from([[], ["d0"], ["d0", "d1"]]))
    objects.extend(kai_queue(name, gpu=draw(_shares)) for name in tops)
    objects.extend(
        kai_queue(
            name,
            gpu=draw(_shares),
            parent=draw(st.sampled_from(tops)) if tops else "",
            priority=draw(st.sampled_from([None, None, 200])),
        )
        for name in leaves
    )
    return leaves


#: Quota, limit and weight of a queue.
_shares = st.tuples(st.integers(-1, 6), st.sampled_from([-1, -1, -1, 4, 8]), st.integers(0, 3)).map(
    lambda drawn: (float(drawn[0]), float(drawn[1]), float(drawn[2]))
)


@st.composite
def gangs(
    draw: st.DrawFn, name: str, leaves: Sequence[str], free: Room, *, created: int, alike: bool
) -> list[KubeObject]:
    """A gang that waits, or runs on free room with at least its minimum and perhaps wants to grow."""
    each = (1, 1) if alike else (draw(st.integers(0, 3)), draw(st.integers(0, 3)))
    parts = draw(st.sampled_from([("",), ("",), ("a", "b")]))
    runs = draw(st.integers(0, 2)) > 0
    sets: dict[str, tuple[int, list[str], int]] = {}
    for part in parts:
        count = draw(st.integers(1, 4))
        minimum = draw(st.integers(1, count))
        places = _place(draw, free, each, count) if runs else []
        sets[part] = (minimum, places, count - len(places))
    if any(len(places) < minimum for minimum, places, _ in sets.values()):
        for part, (minimum, places, waiting) in sets.items():
            _give_back(free, each, places)
            sets[part] = (minimum, [], waiting + len(places))
    return gang(
        name,
        draw(st.sampled_from(leaves)),
        sets=sets,
        priority=draw(st.sampled_from(["low", "mid", "high"])),
        firm=draw(st.integers(0, 4)) == 0,
        created=float(created),
        age=draw(st.sampled_from(_AGES)),
        gpu=each[0],
        cpu=each[1],
        labels={"app": draw(st.sampled_from(["web", "batch"]))},
    )


def _place(draw: st.DrawFn, free: Room, each: tuple[int, int], count: int) -> list[str]:
    places: list[str] = []
    for _ in range(count):
        fitting = [name for name, left in free.items() if left[0] >= each[0] and left[1] >= each[1]]
        if not fitting:
            break
        place = draw(st.sampled_from(fitting))
        free[place] = [free[place][0] - each[0], free[place][1] - each[1]]
        places.append(place)
    return places


def _give_back(free: Room, each: tuple[int, int], places: Sequence[str]) -> None:
    for place in places:
        free[place] = [free[place][0] + each[0], free[place][1] + each[1]]
