"""What the mirror keeps from one snapshot to the next is made anew as soon as it would be wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.api import Taint
from muster.snapshot import Mirror, Statement
from muster.snapshot.growing import Names
from muster.testing.builders import node, pod, pod_group, queue


def test_a_taint_that_comes_later_is_seen() -> None:
    mirror = Mirror()
    mirror.upsert(node("a"))
    mirror.upsert(node("b"))
    before = mirror.snapshot().nodes.taints
    assert mirror.snapshot().nodes.taints is before
    assert before.codes.tolist() == [0, 0]

    tainted = node("b", taints=[Taint(key="gpu", effect="NoSchedule")])
    mirror.upsert(tainted)

    after = mirror.snapshot().nodes.taints
    assert after.codes.tolist() == [0, 1]
    assert [taint.key for taint in after.sets[1]] == ["gpu"]
    assert before.codes.tolist() == [0, 0]


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=12, unique=True), st.data())
def test_jobs_are_ordered_by_name_whether_few_or_all_are_asked_for(names: list[str], data: st.DataObject) -> None:
    mirror = Mirror()
    for name in names:
        mirror.upsert(pod_group(name))
    gone = data.draw(st.sampled_from(names))
    mirror.snapshot().jobs.names.places(np.arange(len(names), dtype=np.intp), mirror.snapshot().jobs.records)
    mirror.delete(pod_group(gone))
    mirror.upsert(pod_group("bb-late"))

    jobs = mirror.snapshot().jobs
    for asked in ([*jobs.index.values()][:1], [*jobs.index.values()]):
        places = jobs.names.places(np.array(asked, np.intp), jobs.records)
        ordered = [jobs.records[asked[k]].id for k in np.argsort(places)]
        assert ordered == sorted(jobs.records[job].id for job in asked)


def test_a_name_that_comes_later_finds_its_row() -> None:
    names, index = Names(), {"a": 0, "b": 1}
    names.take("b")
    assert names.rows(index).tolist() == [1, -1]
    names.take("a")
    assert names.rows(index).tolist() == [1, 0, -1]
    assert names.rows({"a": 5}).tolist() == [-1, 5, -1]


def test_a_resource_that_only_a_later_job_names_gets_a_column() -> None:
    mirror = Mirror()
    mirror.upsert(pod("p"))
    assert "example.com/licence" not in mirror.snapshot().axis.index

    mirror.upsert(pod_group("g", min_resources={"example.com/licence": "1"}))

    assert "example.com/licence" in mirror.snapshot().axis.index


def test_what_follows_from_queues_alone_is_kept_until_one_of_them_says_something_else() -> None:
    mirror = Mirror()
    mirror.upsert(queue("a", weight=2))
    first = mirror.snapshot().queues
    first.derived["mine"] = "kept"
    changed = queue("a", weight=2)
    changed.status.running = 3
    mirror.upsert(changed)
    second = mirror.snapshot().queues
    assert second.derived == {"mine": "kept"}, "a status says nothing about who may have what"
    assert second.records[0].source is changed
    second.tree_allocated[:] = 7
    assert not mirror.snapshot().queues.tree_allocated.any(), "sums are a picture's own"
    mirror.upsert(queue("a", weight=3))
    assert mirror.snapshot().queues.derived == {}


def test_pending_tasks_are_those_of_the_moment_within_one_picture() -> None:
    mirror = Mirror()
    for thing in (queue("default"), node("n"), pod_group("g"), pod("g-0", group="g", cpu=1)):
        mirror.upsert(thing)
    snapshot = mirror.snapshot()
    assert len(snapshot.pending_tasks()) == 1
    with Statement(snapshot) as statement:
        statement.place(int(snapshot.pending_tasks()[0]), 0)
        assert len(snapshot.pending_tasks()) == 0
        statement.rollback()
    assert len(snapshot.pending_tasks()) == 1
