"""How jobs and HyperNodes are, written to their objects and, for jobs that wait, to their pods.

Reports go in a lane of their own and never delay a binding; one that was not sent yet is replaced by its successor.
What stands there already is not written again: a pod's condition only when the reason itself changed, since the numbers
in its message change with every cycle and a gang has many pods.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from muster.api import HyperNode, KaiPodGroup, KubeObject, Node, Pod, PodGroup, waits_for
from muster.api.objects.topology import NodeShard
from muster.cluster.groups import (
    AnyGroup,
    quarantine_text,
    quarantined_hypernode,
    quarantined_job,
    updated_group,
    updated_hypernode,
    usable,
)
from muster.cluster.kubernetes import acting, calls, statuses
from muster.cluster.kubernetes.assumptions import Assumptions, told_to_wait, with_annotations, with_status
from muster.cluster.kubernetes.calls import Call
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.jobs import PodsOfJobs
from muster.cluster.kubernetes.lanes import Errand
from muster.cluster.kubernetes.pending import Pending
from muster.snapshot.messages import Failure, HyperNodeUpdate, JobUpdate, QuarantineUpdate, Ungate
from muster.snapshot.records import pod_of_lone_job

log = logging.getLogger("muster.kubernetes")

#: Seconds until what was written and is not to be seen is written again.
AGAIN_SECONDS: Final = 15.0


class _GoneError(Exception):
    """There is nothing to write on."""


class Reports:
    """Writes statuses and conditions."""

    def __init__(self, room: EngineRoom, assumptions: Assumptions, pending: Pending, pods: PodsOfJobs) -> None:
        self._room = room
        self._assumptions = assumptions
        self._pending = pending
        self._pods = pods
        #: The NodeShard as it was last written, and until when the watch may take to show it.
        self._told_shard: NodeShard | None = None
        self._tell_shard_again_at = 0.0
        #: Until when the gate of a pod is not asked for again, by uid.
        self._ungated: dict[str, float] = {}

    def group(self, job: str) -> AnyGroup | None:
        """The PodGroup of a job, of either family."""
        return self._assumptions.find_assumed(PodGroup, job) or self._assumptions.find_assumed(KaiPodGroup, job)

    def update_jobs(self, updates: Sequence[JobUpdate], now: float) -> list[Failure]:
        failures: list[Failure] = []
        errands: list[Errand] = []
        for update in updates:
            try:
                errands += self._errands(update, now)
            except _GoneError as gone:
                failures.append(Failure(update, str(gone)))
            except Exception as fault:  # one report that fails must not cost the others
                log.exception("event=error job=%s what=report", update.job)
                failures.append(Failure(update, f"{type(fault).__name__}: {fault}"))
        self._room.reports.submit(errands)
        return failures

    def _errands(self, update: JobUpdate, now: float) -> Iterator[Errand]:
        """What is to be sent about one job. Raises _GoneError."""
        if not update.has_group:
            yield from self._conditions(update, now)
            return
        group = self.group(update.job)
        resource = None if group is None else self._room.resource(type(group))
        if group is None or resource is None:
            raise _GoneError("the PodGroup is gone")
        changed = updated_group(group, update, calls.stamp(now))
        seen = self._assumptions.find(type(group), update.job)
        send = partial(self._write, group, statuses.write_group(resource, changed, [seen, group]))
        yield self._pending.assume_report(with_status(changed), send)
        if update.annotations:
            call = calls.annotate(resource.path_of(group.key), group.metadata.uid, update.annotations)
            send = partial(self._write, group, call)
            yield self._pending.assume_report(with_annotations(group, update.annotations), send)
        yield from self._conditions(update, now)

    def ungate(self, decisions: Sequence[Ungate]) -> list[Failure]:
        """Take gates off; the watch shows it, and until then, or for a while after a refusal, it is not asked again."""
        moment = time.monotonic()
        self._ungated = {uid: at for uid, at in self._ungated.items() if at > moment}
        failures: list[Failure] = []
        errands: list[Errand] = []
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            if pod is None:
                failures.append(Failure(made, acting.GONE))
            elif pod.metadata.uid not in self._ungated:
                self._ungated[pod.metadata.uid] = moment + AGAIN_SECONDS
                send = partial(acting.write, self._room.client, calls.ungate(pod))
                errands.append(self._pending.errand((Pod, pod.key, "gate"), send, partial(_heard, "gate", pod)))
        self._room.reports.submit(errands)
        return failures

    async def _write(self, thing: KubeObject, call: Call) -> str:
        """Send a report, unless it has waited too long: a server that writes a status does not look at the uid."""
        return await acting.write(self._room.client, call) if self._room.is_there(thing) else acting.REPLACED

    def _conditions(self, update: JobUpdate, now: float) -> Iterator[Errand]:
        """Say on the pods of a job that waits what it waits for."""
        if update.unschedulable is None:
            return
        for pod in self.to_tell(update):
            send = partial(acting.write, self._room.client, calls.unschedulable(pod, update.message, now))
            if update.has_group:
                yield self._pending.errand((Pod, pod.key, "condition"), send, lambda _: None)
            else:
                # Nothing else remembers that it was told: no PodGroup has it in its status.
                said = told_to_wait(pod, update.unschedulable, update.message, calls.stamp(now))
                yield self._pending.assume_report(said, send)

    def to_tell(self, update: JobUpdate) -> list[Pod]:
        """The pods of a job that wait and do not say so, or say something else.

        Of a pod with gates the server says itself what it waits for, and autoscalers go by it.
        """
        if update.unschedulable is None:
            return []
        waiting = (pod for pod in self.pods(update.job) if not pod.spec.node_name and not pod.spec.scheduling_gates)
        return [pod for pod in waiting if not waits_for(pod, update.unschedulable)]

    def pods(self, job: str) -> list[Pod]:
        """The pods of a job, by name; a pod without a PodGroup is a job of its own."""
        alone = pod_of_lone_job(job)
        keys = self._pods.of(job) if alone is None else [alone]
        pods = (self._assumptions.find_assumed(Pod, key) for key in keys)
        return [pod for pod in pods if pod is not None]

    def update_hypernodes(self, updates: Sequence[HyperNodeUpdate], now: float) -> list[Failure]:
        failures: list[Failure] = []
        errands: list[Errand] = []
        resource = self._room.resource(HyperNode)
        for update in updates:
            hyper_node = self._assumptions.find_assumed(HyperNode, update.name)
            if hyper_node is None or resource is None:
                failures.append(Failure(update, "the HyperNode is gone"))
                continue
            changed = updated_hypernode(hyper_node, update, calls.stamp(now))
            seen = self._assumptions.find(HyperNode, update.name)
            send = partial(self._write, hyper_node, statuses.write_hypernode(resource, changed, [seen, hyper_node]))
            errands.append(self._pending.assume_report(with_status(changed), send))
        self._room.reports.submit(errands)
        return failures

    def update_quarantine(self, updates: Sequence[QuarantineUpdate], now: float) -> None:
        """Say on objects that they cannot be used, or can again; other schedulers' pods are left alone."""
        errands: list[Errand] = []
        for update in updates:
            call = self._note(update, now)
            if call is not None:
                send = partial(self._write, update.object, call)
                key = (type(update.object), update.object.key, "condition")
                errands.append(self._pending.errand(key, send, lambda _: None))
        self._room.reports.submit(errands)

    def _note(self, update: QuarantineUpdate, now: float) -> Call | None:
        """What is to be written on an object that cannot be used, or can again; None: nothing."""
        thing = update.object
        if isinstance(thing, Node):
            return calls.say_usable(thing, usable(update, calls.stamp(now)))
        if isinstance(thing, HyperNode) and (resource := self._room.resource(HyperNode)) is not None:
            if not update.reason:
                return None  # its place in the tree is written at the end of the cycle
            made = updated_hypernode(thing, quarantined_hypernode(update), calls.stamp(now))
            return statuses.write_hypernode(resource, made, [thing])
        if not update.reason or not update.job or update.is_asked:
            return None  # a job that waits says so in any case
        if isinstance(thing, Pod):
            return None if thing.spec.node_name else calls.unschedulable(thing, quarantine_text(update), now)
        if isinstance(thing, PodGroup | KaiPodGroup) and (resource := self._room.resource(type(thing))) is not None:
            changed = updated_group(thing, quarantined_job(thing, update), calls.stamp(now))
            return statuses.write_group(resource, changed, [thing])
        return None

    def tell_node_shard(self) -> None:
        """Write which nodes of the NodeShard are in use, if that is not what stands there."""
        shards, resource = self._room.node_shards, self._room.resource(NodeShard)
        shard = None if shards is None else shards.to_tell()
        is_told = shard == self._told_shard and time.monotonic() < self._tell_shard_again_at
        if shard is None or resource is None or is_told or not self._room.may_act():
            return
        self._told_shard, self._tell_shard_again_at = shard, time.monotonic() + AGAIN_SECONDS
        lists = {"nodesInUse": shard.status.nodes_in_use, "nodesToAdd": shard.status.nodes_to_add, "nodesToRemove": []}
        call = calls.patch_status(resource.status_path_of(shard.key), shard.metadata.uid, lists)
        send = partial(acting.write, self._room.client, call)
        self._room.reports.submit(
            [self._pending.errand((NodeShard, shard.key), send, partial(_heard, "status", shard))]
        )


def _heard(what: str, thing: KubeObject, error: str) -> None:
    if error:
        log.warning("event=refused what=%r object=%s error=%r", what, thing.key, error)
