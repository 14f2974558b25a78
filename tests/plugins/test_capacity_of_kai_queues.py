"""Quotas without end, which only KAI's queues have, stay without end when they are added up."""

from muster.api import KaiQueue, KaiQueueResource, KaiQueueResources, KaiQueueSpec, ObjectMeta
from muster.snapshot import UNLIMITED
from muster.testing import node, queue
from tests.plugins.queue_stage import GPU, Stage


def endless(name: str) -> KaiQueue:
    gpu = KaiQueueResource(quota=-1, limit=-1)
    spec = KaiQueueSpec(parent_queue="root", resources=KaiQueueResources(gpu=gpu))
    return KaiQueue(metadata=ObjectMeta(name=name), spec=spec)


def test_a_root_above_many_endless_queues_deserves_without_end() -> None:
    stage = Stage("capacity", [node("n", gpu=8), queue("root"), *(endless(f"q{n}") for n in range(5))], tree=True)
    deserved = stage.plugin.queue_deserved(stage.queue("root"))
    assert deserved[stage.snapshot.axis.index[GPU]] == UNLIMITED
