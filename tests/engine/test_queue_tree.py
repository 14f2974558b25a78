"""Queue tree: the leaf of the best queue of every level is next, also when the last one is the best."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.engine.lines import QueueTree
from muster.snapshot import Mirror, QueueTable
from muster.testing import queue

#: Queue -> parent.
PARENTS = {"east": "", "west": "", "lone": "", "e1": "east", "e2": "east", "deep": "west", "d1": "deep", "d2": "deep"}
LEAVES = ("lone", "e1", "e2", "d1", "d2")


def table() -> QueueTable:
    mirror = Mirror()
    for name, parent in PARENTS.items():
        mirror.upsert(queue(name, parent=parent))
    return mirror.snapshot().queues


class Heap:
    """How much lies in each leaf; the key of a queue is a number of its own and the height of its best leaf."""

    def __init__(self, heights: dict[str, int], *, last_first: bool = False) -> None:
        self.queues = table()
        self.heights = {self.queues.index[name]: height for name, height in heights.items()}
        self.own: dict[int, int] = {}
        self.asked = 0
        self.last_first = last_first
        occupied = [leaf for leaf, height in self.heights.items() if height > 0]
        self.tree = QueueTree(self.queues.steps, occupied, self.key, last_first=last_first)

    def key(self, queue: int, leaf: int) -> tuple[int, str]:
        self.asked += 1
        return self.own.get(queue, 0) + self.heights[leaf], self.queues.records[queue].name

    def take(self) -> str:
        """Take one from the leaf whose turn it is; "": there is none."""
        leaf = self.tree.next_leaf(self.key)
        if leaf is None:
            return ""
        self.put(leaf, -1)
        return self.queues.records[leaf].name

    def put(self, leaf: int, amount: int) -> None:
        self.heights[leaf] += amount
        self.tree.changed(leaf, self.key, occupied=self.heights[leaf] > 0)

    def expected(self, parent: int = -1) -> str:
        """What `take` ought to answer, with every key made anew."""
        occupied = {int(above) for leaf, height in self.heights.items() if height for above in self.queues.paths[leaf]}
        below = [one for one in occupied if self.queues.parent[one] == parent]
        if not below:
            return self.queues.records[parent].name if parent >= 0 else ""
        leaves = {one: self.expected(one) for one in below}
        choose = max if self.last_first else min
        return leaves[choose(below, key=lambda one: self.key(one, self.queues.index[leaves[one]]))]


def test_the_smallest_key_of_every_level_is_next() -> None:
    heap = Heap({"lone": 3, "e1": 2, "e2": 1, "d1": 1})
    assert [heap.take() for _ in range(8)] == ["e2", "d1", "e1", "e1", "lone", "lone", "lone", ""]


def test_the_largest_key_of_every_level_is_next_when_asked_for() -> None:
    heap = Heap({"lone": 2, "e1": 3, "e2": 1}, last_first=True)
    assert [heap.take() for _ in range(7)] == ["e1", "lone", "e1", "lone", "e2", "e1", ""]


def test_a_queue_that_was_served_is_compared_with_what_the_others_are_worth_now() -> None:
    heap = Heap({"lone": 2, "e1": 4})
    assert heap.take() == "lone"
    heap.own[heap.queues.index["east"]] = -9
    assert [heap.take() for _ in range(3)] == ["e1", "e1", "e1"]


def test_a_queue_that_became_worse_by_itself_keeps_its_place_until_it_is_served() -> None:
    heap = Heap({"lone": 1, "e1": 2})
    assert heap.tree.next_leaf(heap.key) == heap.queues.index["lone"]
    heap.own[heap.queues.index["lone"]] = 5
    assert [heap.take(), heap.take()] == ["lone", "e1"]


def test_a_queue_is_judged_by_the_leaf_that_was_served_until_its_children_are_compared_again() -> None:
    heap = Heap({"lone": 2, "e1": 1, "e2": 1})
    heap.own[heap.queues.index["e1"]] = -1
    assert heap.tree.next_leaf(heap.key) == heap.queues.index["e1"]
    # With e1 as it is now, east comes last, although e2 would be better than lone.
    heap.put(heap.queues.index["e1"], +8)
    assert [heap.take(), heap.take(), heap.take()] == ["lone", "lone", "e2"]


def test_leaves_come_back_after_they_were_empty() -> None:
    heap = Heap({"d1": 1})
    assert [heap.take(), heap.take()] == ["d1", ""]
    heap.put(heap.queues.index["d1"], +2)
    assert [heap.take(), heap.take(), heap.take()] == ["d1", "d1", ""]


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(LEAVES), st.integers(0, 4)), st.booleans())
def test_turns_are_as_if_every_key_was_made_anew_where_keys_do_not_change(
    heights: dict[str, int], last_first: bool
) -> None:
    class Steady(Heap):
        def key(self, queue: int, leaf: int) -> tuple[int, str]:
            return 0, self.queues.records[queue].name

    heap = Steady({**dict.fromkeys(LEAVES, 0), **heights}, last_first=last_first)
    while wanted := heap.expected():
        assert heap.take() == wanted
    assert heap.take() == ""


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.sampled_from(LEAVES), st.integers(0, 4)),
    st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(0, 3)), max_size=12),
    st.booleans(),
)
def test_everything_is_served_once_whatever_comes_on_the_way(
    heights: dict[str, int], changes: list[tuple[str, int]], last_first: bool
) -> None:
    heap = Heap({**dict.fromkeys(LEAVES, 0), **heights}, last_first=last_first)
    for leaf, amount in changes:
        before = dict(heap.heights)
        taken = heap.take()
        assert (taken == "") == (not any(before.values()))
        assert not taken or before[heap.queues.index[taken]] > 0
        heap.put(heap.queues.index[leaf], amount)
        heap.own[heap.queues.index[leaf]] = amount
    left = sum(heap.heights.values())
    assert len([taken for _ in range(left + 2) if (taken := heap.take())]) == left


def test_a_turn_costs_a_few_keys() -> None:
    heap = Heap(dict.fromkeys(LEAVES, 50))
    assert heap.take()
    heap.asked = 0
    while heap.take():
        pass
    # Of eight queues: those above the last leaf, and whoever is first now.
    assert heap.asked < 249 * 5
