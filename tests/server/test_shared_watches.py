"""Controllers beside a scheduler hear of what its watches bring, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from muster.api import KubeObject, Pod, PodGroup, Queue
from muster.api.names import JOB_NAME
from muster.cluster.kubernetes.client.reflector import Sink
from muster.server.shared_watches import SharedWatches
from muster.snapshot.messages import Event


class Source:
    """Watches that tests speak for; queues belong to a shard, so that others have to watch them for themselves."""

    def __init__(self) -> None:
        self.sink: Sink
        self.read: set[type[KubeObject]] = set()

    def share(self, kinds: Collection[type[KubeObject]], sink: Sink) -> frozenset[type[KubeObject]]:
        self.sink = sink
        return frozenset(kinds) - {Queue}

    def has_read(self, kind: type[KubeObject]) -> bool:
        return kind in self.read


class Heard:
    """What controllers hear."""

    def __init__(self) -> None:
        self.source = Source()
        self.watches = SharedWatches(self.source, [Pod, PodGroup, Queue], ["volcano"])
        self.events: list[tuple[str, str]] = []

    def listen(self) -> None:
        self.watches.listen(lambda events: self.events.extend((each.kind, each.object.name) for each in events))

    def tell(self, *events: Event) -> None:
        self.source.sink(list(events), is_urgent=True)


def pod(name: str, *, job: str = "", node: str = "", scheduler: str = "volcano") -> Pod:
    made = Pod()
    made.metadata.name = name
    made.metadata.labels = {JOB_NAME: job} if job else {}
    made.spec.node_name = node
    made.spec.scheduler_name = scheduler
    return made


def test_what_comes_before_anybody_listens_is_not_lost() -> None:
    heard = Heard()
    heard.tell(Event("ADDED", PodGroup()), Event("ADDED", pod("early")))
    heard.listen()
    heard.tell(Event("ADDED", pod("late")))
    assert heard.events == [("ADDED", ""), ("ADDED", "early"), ("ADDED", "late")]


def test_pods_of_jobs_are_followed_to_their_end() -> None:
    heard = Heard()
    heard.listen()
    heard.tell(Event("ADDED", pod("w", job="train", scheduler="other")))
    heard.tell(Event("MODIFIED", pod("w", job="train", node="n1", scheduler="other")))
    heard.tell(Event("DELETED", pod("w", job="train", node="n1", scheduler="other")))
    assert [kind for kind, _ in heard.events] == ["ADDED", "MODIFIED", "DELETED"]


def test_other_pods_are_gone_when_they_wait_no_more() -> None:
    heard = Heard()
    heard.listen()
    heard.tell(Event("ADDED", pod("foreign", scheduler="default-scheduler")), Event("ADDED", pod("ran", node="n1")))
    assert heard.events == []
    heard.tell(Event("ADDED", pod("alone")))
    heard.tell(Event("MODIFIED", pod("alone", node="n1")))
    heard.tell(Event("MODIFIED", pod("alone", node="n1")), Event("DELETED", pod("alone", node="n1")))
    assert heard.events == [("ADDED", "alone"), ("DELETED", "alone")]


def test_a_pod_that_leaves_its_job_is_gone() -> None:
    heard = Heard()
    heard.listen()
    heard.tell(Event("ADDED", pod("w", job="train", node="n1")), Event("MODIFIED", pod("w", node="n1")))
    assert heard.events == [("ADDED", "w"), ("DELETED", "w")]


def test_only_kinds_of_which_all_are_followed_are_shared() -> None:
    assert Heard().watches.kinds == {Pod, PodGroup}


def test_reading_is_over_when_the_watches_have_read_all() -> None:
    heard = Heard()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(heard.watches.read(Pod), 0.1)
        heard.source.read.add(Pod)
        await asyncio.wait_for(heard.watches.read(Pod), 5)

    asyncio.run(main())
