"""How queues, HyperNodes, NodeShards and objects that cannot be used are, written to them; and queues that are missing.

Where KAI's or Volcano's own controllers write the same fields of a queue, they may see things otherwise. Who writes
what was just written over leaves it standing for a while, longer each time, so that two do not write against each other
for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from muster.api import Condition, HyperNode, KaiPodGroup, KaiQueue, KubeObject, Node, Pod, PodGroup, Queue
from muster.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client.kinds import Resource
from muster.cluster.kubernetes.client.requests import ApiError
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumptions, with_status, with_use
from muster.cluster.kubernetes.sending.calls import Call
from muster.cluster.kubernetes.sending.in_flight import REPLACED, InFlight, Race, log_refusal, said, write, write_status
from muster.cluster.kubernetes.sending.queues import Request, Send
from muster.cluster.written_objects import (
    AnyQueue,
    quarantine_text,
    quarantined_hypernode,
    quarantined_job,
    updated_group,
    updated_hypernode,
    updated_queue,
    usable,
    valid,
)
from muster.snapshot.messages import Event, Failure, HyperNodeUpdate, QuarantineUpdate, QueueUpdate

log = logging.getLogger("muster.kubernetes")

#: Seconds between attempts to make a queue, or to write the same status; and in the long run.
_AGAIN_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 600.0
#: How often a condition is written that others are faster with.
_ATTEMPTS: Final = 4
#: The queues that Volcano's scheduler makes, and what may be taken back from them.
_RECLAIMABLE: Final = {ROOT_QUEUE: False, DEFAULT_QUEUE: True}


@dataclass(slots=True)
class _Written:
    """A queue's status as it was last written, and until when it is not written again."""

    update: QueueUpdate
    until: float
    seconds: float = _AGAIN_SECONDS


class ObjectReports:
    """Writes statuses of everything but jobs."""

    def __init__(self, api: ApiThread, assumptions: Assumptions, in_flight: InFlight) -> None:
        self._api = api
        self._assumptions = assumptions
        self._in_flight = in_flight
        self._queues: dict[tuple[type, str], _Written] = {}
        #: The NodeShard as it was last written, and until when the watch may take to show it.
        self._told_shard: NodeShard | None = None
        self._tell_shard_again_at = 0.0

    def update_queues(self, updates: Sequence[QueueUpdate]) -> list[Failure]:
        failures: list[Failure] = []
        requests: list[Request] = []
        for update in updates:
            queue = self._find_queue(update.name)
            resource = None if queue is None else self._api.resource(type(queue))
            if queue is None or resource is None:
                failures.append(Failure(update, "the queue is gone"))
                continue
            changed = updated_queue(queue, update)
            if self._is_due(queue, update):
                call = calls.write_queue(resource, changed, self._assumptions.find(type(queue), queue.key))
                send = partial(write, self._api.client, call)
                # What a queue holds changes with every pod, and nobody acts upon it.
                use = with_use(queue, update)
                requests.append(self._in_flight.assume_report(use, send, is_patient=True, is_passing=True))
        self._api.reports.submit(requests)
        return failures

    def _find_queue(self, name: str) -> AnyQueue | None:
        return self._assumptions.find_assumed(Queue, name) or self._assumptions.find_assumed(KaiQueue, name)

    def _is_due(self, queue: AnyQueue, update: QueueUpdate) -> bool:
        """Whether to write: not what was written a moment ago, though it does not stand there any more."""
        moment, place = time.monotonic(), (type(queue), queue.key)
        written = self._queues.get(place)
        if written is None or written.update != update:
            self._queues[place] = _Written(update, moment + _AGAIN_SECONDS)
            return True
        if moment < written.until:
            return False
        written.seconds = min(2 * written.seconds, _LONGEST_SECONDS)
        written.until = moment + written.seconds
        return True

    def update_hypernodes(self, updates: Sequence[HyperNodeUpdate], now: float) -> list[Failure]:
        failures: list[Failure] = []
        requests: list[Request] = []
        resource = self._api.resource(HyperNode)
        for update in updates:
            hyper_node = self._assumptions.find_assumed(HyperNode, update.name)
            if hyper_node is None or resource is None:
                failures.append(Failure(update, "the HyperNode is gone"))
                continue
            changed = updated_hypernode(hyper_node, update, calls.stamp(now))
            seen = self._assumptions.find(HyperNode, update.name)
            condition = valid(hyper_node, update, calls.stamp(now))
            is_said = all(each is not None and condition in each.status.conditions for each in (seen, hyper_node))
            send = self._send(resource, changed, None if is_said else condition, {"nodeCount": update.node_count})
            requests.append(self._in_flight.assume_report(with_status(changed), send))
        self._api.reports.submit(requests)
        return failures

    def _send(
        self, resource: Resource, thing: KubeObject, condition: Condition | None, fields: Mapping[str, object]
    ) -> Send:
        """What writes fields of an object's status, and a condition."""
        if condition is not None:
            return partial(self._write_condition, resource, thing, condition, fields)
        call = calls.patch_status(resource.status_path_of(thing.key), thing.metadata.uid, fields)
        return partial(write_status, self._api, thing, call)

    async def _write_condition(
        self, resource: Resource, thing: KubeObject, condition: Condition, fields: Mapping[str, object]
    ) -> str:
        """Write a condition into a list that others write as well, in the API thread.

        It is read first, as theirs may say more than we know, and again when one of them was faster.
        """
        client, path = self._api.client, resource.status_path_of(thing.key)
        error = ""
        for _ in range(_ATTEMPTS):
            try:
                # As a list of one: who may watch a kind may list it, but not always get an object.
                read = await client.send("GET", f"{resource.path}?fieldSelector=metadata.name%3D{thing.name}")
            except ApiError as fault:
                return said(fault)
            found = msgspec.json.decode(read)["items"]
            if not found or found[0]["metadata"]["uid"] != thing.metadata.uid:
                return REPLACED
            error = await write(client, calls.write_condition(path, thing, condition, fields, found[0]))
            if not isinstance(error, Race):
                break
        return error

    def update_quarantine(self, updates: Sequence[QuarantineUpdate], now: float) -> None:
        """Say on objects that they cannot be used, or can again; other schedulers' pods are left alone."""
        requests: list[Request] = []
        for update in updates:
            send = self._note(update, now)
            if send is not None:
                key = (type(update.object), update.object.key, "condition")
                requests.append(self._in_flight.request(key, send, lambda _: None))
        self._api.reports.submit(requests)

    def _note(self, update: QuarantineUpdate, now: float) -> Send | None:
        """What writes on an object that it cannot be used, or can again; None: nothing does."""
        thing, resource = update.object, self._api.resource(type(update.object))
        if isinstance(thing, HyperNode) and resource is not None:
            if not update.reason:
                return None  # its place in the tree is written at the end of the cycle
            condition = valid(thing, quarantined_hypernode(update), calls.stamp(now))
            return self._send(resource, thing, condition, {"nodeCount": 0})
        if isinstance(thing, KaiQueue) and resource is not None:
            return self._send(resource, thing, usable(update, calls.stamp(now)), {})
        call = self._note_call(update, now)
        return None if call is None else partial(write_status, self._api, thing, call)

    def _note_call(self, update: QuarantineUpdate, now: float) -> Call | None:
        thing = update.object
        if isinstance(thing, Node):
            return calls.say_usable(thing, usable(update, calls.stamp(now)))
        if not update.reason or not update.job or update.is_asked:
            return None  # a job that waits says so in any case
        if isinstance(thing, Pod):
            return None if thing.spec.node_name else calls.unschedulable(thing, quarantine_text(update), now)
        if isinstance(thing, PodGroup | KaiPodGroup) and (resource := self._api.resource(type(thing))) is not None:
            changed = updated_group(thing, quarantined_job(thing, update), calls.stamp(now))
            return calls.write_group(resource, changed, [thing])
        return None

    def tell_node_shard(self) -> None:
        """Write which nodes of the NodeShard are in use, if that is not what stands there."""
        shards, resource = self._api.node_shards, self._api.resource(NodeShard)
        shard = None if shards is None else shards.to_tell()
        is_told = shard == self._told_shard and time.monotonic() < self._tell_shard_again_at
        if shard is None or resource is None or is_told or not self._api.may_act():
            return
        self._told_shard, self._tell_shard_again_at = shard, time.monotonic() + _AGAIN_SECONDS
        lists = {"nodesInUse": shard.status.nodes_in_use, "nodesToAdd": shard.status.nodes_to_add, "nodesToRemove": []}
        call = calls.patch_status(resource.status_path_of(shard.key), shard.metadata.uid, lists)
        send, heard = partial(write, self._api.client, call), partial(log_refusal, "status", shard)
        self._api.reports.submit([self._in_flight.request((NodeShard, shard.key), send, heard)])


class StandardQueues:
    """Makes `root` and `default` where Volcano's queues are known and lack them.

    Volcano's scheduler makes them when it starts, and its controllers and webhooks count on it. A queue that was there
    once and is gone was deleted by somebody who wanted that; it is not made again before the next start.
    """

    def __init__(self, api: ApiThread, in_flight: InFlight, *, wanted: bool) -> None:
        self._api = api
        self._in_flight = in_flight
        #: When to ask for those that nobody has seen.
        self._missing = dict.fromkeys(_RECLAIMABLE if wanted else (), 0.0)
        #: What was refused is said once.
        self._told: set[str] = set()

    def observe(self, event: Event) -> None:
        """A queue of either family is there: names are shared."""
        if isinstance(event.object, Queue | KaiQueue):
            self._missing.pop(event.object.name, None)

    def make_missing(self) -> None:
        """Ask for those that nobody has seen yet."""
        resource = self._api.resource(Queue)
        if not self._missing or resource is None or not self._api.may_act():
            return
        moment = time.monotonic()
        for name in [name for name, at in self._missing.items() if at <= moment]:
            self._missing[name] = moment + _AGAIN_SECONDS
            send = partial(write, self._api.client, calls.make_queue(resource, name, _RECLAIMABLE[name]))
            self._api.reports.submit([self._in_flight.request((Queue, name, "make"), send, partial(self._heard, name))])

    def _heard(self, name: str, error: str) -> None:
        if not error:
            log.info("event=queue-made queue=%s", name)
        elif not isinstance(error, Race) and name not in self._told:
            self._told.add(name)
            log.warning("event=refused what='queue' object=%s error=%r", name, error)
