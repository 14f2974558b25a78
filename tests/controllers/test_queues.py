"""Queues that are opened and closed."""

from __future__ import annotations

from msgspec.structs import replace

from muster.api import PodGroup, Queue
from muster.api.objects.batch import Command
from muster.api.objects.meta import ObjectMeta, OwnerReference
from muster.cluster import MemoryCluster
from muster.controllers.embedded import served
from muster.testing.builders import pod_group, queue


def cluster_with(*things: Queue | PodGroup) -> MemoryCluster:
    cluster = MemoryCluster([queue("research"), *things], start=100.0)
    cluster.attach(served(cluster))
    cluster.poll()
    return cluster


def tell(cluster: MemoryCluster, action: str) -> None:
    target = OwnerReference(api_version=Queue.api_version, kind="Queue", name="research")
    cluster.add([Command(metadata=ObjectMeta(name="word"), action=action, target=target)])
    cluster.poll()


def state(cluster: MemoryCluster) -> str:
    found = cluster.store.get(Queue, "research")
    assert found is not None
    return found.status.state


def test_an_empty_queue_is_closed_at_once_and_opened_again() -> None:
    cluster = cluster_with()
    tell(cluster, "CloseQueue")
    assert (state(cluster), list(cluster.store.all(Command))) == ("Closed", [])
    tell(cluster, "CloseQueue")
    assert state(cluster) == "Closed"
    tell(cluster, "OpenQueue")
    assert state(cluster) == "Open"


def test_a_queue_that_holds_jobs_drains_first() -> None:
    cluster = cluster_with(pod_group("train", queue="research"), pod_group("other"))
    tell(cluster, "CloseQueue")
    assert state(cluster) == "Closing"
    group = cluster.store.get(PodGroup, "default/train")
    assert group is not None
    cluster.delete(group)
    cluster.poll()
    assert state(cluster) == "Closed"


def test_a_word_to_a_queue_that_is_not_there_waits_for_it() -> None:
    cluster = MemoryCluster([], start=100.0)
    cluster.attach(served(cluster))
    tell(cluster, "CloseQueue")
    assert len(list(cluster.store.all(Command))) == 1
    cluster.add([queue("research")])
    cluster.poll()
    assert (state(cluster), list(cluster.store.all(Command))) == ("Closed", [])


def family(*held: str) -> MemoryCluster:
    """org with teams a and b below it; PodGroups in the named queues."""
    org, a, b = queue("org"), queue("a", parent="org"), queue("b", parent="org")
    cluster = MemoryCluster([org, a, b, *(pod_group(f"in-{name}", queue=name) for name in held)], start=100.0)
    cluster.attach(served(cluster))
    cluster.poll()
    return cluster


def say(cluster: MemoryCluster, *words: tuple[str, str]) -> None:
    for place, (action, name) in enumerate(words):
        target = OwnerReference(api_version=Queue.api_version, kind="Queue", name=name)
        cluster.add([Command(metadata=ObjectMeta(name=f"word-{place}"), action=action, target=target)])
    cluster.poll()


def states(cluster: MemoryCluster) -> dict[str, str]:
    return {found.name: found.status.state for found in cluster.store.all(Queue) if found.name in ("org", "a", "b")}


def test_queues_that_nobody_has_closed_say_that_they_are_open() -> None:
    assert states(family()) == {"org": "Open", "a": "Open", "b": "Open"}


def test_queues_close_and_open_with_the_one_above_but_not_those_closed_by_a_word() -> None:
    cluster = family("a")
    say(cluster, ("CloseQueue", "b"))
    say(cluster, ("CloseQueue", "org"))
    assert states(cluster) == {"org": "Closed", "a": "Closing", "b": "Closed"}
    say(cluster, ("OpenQueue", "org"))
    assert states(cluster) == {"org": "Open", "a": "Open", "b": "Closed"}


def test_a_queue_below_a_closed_one_does_not_open_and_says_why() -> None:
    cluster = MemoryCluster([queue("org"), queue("a", parent="org")], start=100.0)
    controllers = served(cluster)
    cluster.attach(controllers)
    cluster.poll()
    say(cluster, ("CloseQueue", "org"))
    say(cluster, ("OpenQueue", "a"))
    assert states(cluster) == {"org": "Closed", "a": "Closed"}
    assert controllers.told[-1].message == "Queue stays Closed: queue org above it is Closed, open that one first"
    assert not list(cluster.store.all(Command))


def test_words_to_a_queue_and_the_one_above_it_may_come_in_any_order() -> None:
    cluster = family()
    say(cluster, ("CloseQueue", "a"), ("CloseQueue", "org"))
    say(cluster, ("OpenQueue", "a"), ("OpenQueue", "org"))
    assert states(cluster) == {"org": "Open", "a": "Open", "b": "Open"}
    assert not list(cluster.store.all(Command))


def test_a_queue_that_moves_below_a_closed_one_is_closed() -> None:
    cluster = family()
    cluster.add([queue("shut")])
    say(cluster, ("CloseQueue", "shut"))
    moved = cluster.store.get(Queue, "a")
    assert moved is not None
    cluster.replace_object(replace(moved, spec=replace(moved.spec, parent="shut")))
    cluster.poll()
    assert states(cluster)["a"] == "Closed"


def test_root_is_never_closed() -> None:
    cluster = MemoryCluster([queue("root")], start=100.0)
    cluster.attach(served(cluster))
    say(cluster, ("CloseQueue", "root"))
    found = cluster.store.get(Queue, "root")
    assert found is not None
    assert found.status.state == "Open"
    assert not list(cluster.store.all(Command))
