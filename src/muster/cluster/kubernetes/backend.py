"""A Kubernetes cluster behind the scheduler's protocol.

`poll` reads what the watches brought, verbs hand decisions to the event loop and return at once: what they ask for is
assumed until the watch shows it, and taken back when the server refuses. So `Failure` is returned only for what is
known to be impossible at once; later refusals are logged, and the next poll reports the pod as it is.
All methods but those that say otherwise are called from one thread, the scheduler's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from muster.api import Pod
from muster.cluster.kubernetes import acting, calls
from muster.cluster.kubernetes.assumptions import Assumptions, nominated
from muster.cluster.kubernetes.bindings import Bindings
from muster.cluster.kubernetes.custody import Custody
from muster.cluster.kubernetes.departures import EVICTION_PATIENCE_S
from muster.cluster.kubernetes.engine_room import EngineRoom, Target
from muster.cluster.kubernetes.evictions import Evictions
from muster.cluster.kubernetes.inbox import Inbox
from muster.cluster.kubernetes.jobs import PodsOfJobs
from muster.cluster.kubernetes.lanes import Errand, Send
from muster.cluster.kubernetes.leases import Election, LeaseOptions
from muster.cluster.kubernetes.newcomers import Newcomers
from muster.cluster.kubernetes.news import Newsroom
from muster.cluster.kubernetes.pending import Answered, Pending
from muster.cluster.kubernetes.queues import QueueReports, StandardQueues
from muster.cluster.kubernetes.reports import Reports
from muster.cluster.kubernetes.shard_view import ShardView
from muster.cluster.kubernetes.shards import WHOLE_CLUSTER, Shard
from muster.cluster.kubernetes.unnamed import Unnamed
from muster.snapshot.messages import (
    Bind,
    Event,
    Evict,
    Failure,
    HyperNodeUpdate,
    JobUpdate,
    Nominate,
    QuarantineUpdate,
    QueueUpdate,
    Ungate,
)

log = logging.getLogger("muster.kubernetes")

#: Seconds from an answer to the event that must follow it; after that, the pod is looked at.
CONFIRM_SECONDS: Final = 15.0
#: Seconds that a gang of which some pods failed to bind has to become complete.
HALF_BOUND_SECONDS: Final = 30.0
#: Seconds that a pod waits for its claims to be bound.
VOLUME_WAIT_SECONDS: Final = 600.0
START_SECONDS: Final = 120.0


class KubernetesCluster:
    """The cluster that a kubeconfig, or the pod's own account, leads to. Use it as a context manager."""

    def __init__(
        self,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        shard: Shard = WHOLE_CLUSTER,
        lease: LeaseOptions | None = None,
        confirm_s: float = CONFIRM_SECONDS,
        half_bound_s: float = HALF_BOUND_SECONDS,
        volume_wait_s: float = VOLUME_WAIT_SECONDS,
        eviction_patience_s: float = EVICTION_PATIENCE_S,
        clock: Callable[[], float] = time.time,
        takes_over_from: Collection[str] = (),
        makes_queues: bool = False,
    ) -> None:
        self._clock = clock
        self._inbox = Inbox()
        election = None if lease is None else Election(lease)
        self._room = EngineRoom(self._inbox, Target(kubeconfig, context, shard), election)
        self._view = ShardView(shard) if shard.is_by_labels else None
        self._assumptions = Assumptions()
        self._pods = PodsOfJobs()
        self._pending = Pending(self._inbox, self._room, self._assumptions, confirm_s)
        self._reports = Reports(self._room, self._assumptions, self._pending, self._pods)
        self._news = Newsroom(self._room.tell, self._reports.group)
        self._newcomers = Newcomers()
        self._unnamed = Unnamed(self._assumptions, takes_over_from)
        self._queue_reports = QueueReports(self._room, self._assumptions, self._pending)
        self._queues = StandardQueues(self._room, self._pending, wanted=makes_queues)
        self._evictions = Evictions(self._room, self._pending, self.now, eviction_patience_s)
        self._custody = Custody(self._room, self._assumptions, self._pods, self._reports, half_bound_s, takes_over_from)
        self._bindings = Bindings(
            self._room, self._assumptions, self._pending, self._custody, self._news, volume_wait_s
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout_s: float = START_SECONDS) -> None:
        """Connect and read everything. Raises MusterError."""
        self._room.start(timeout_s)

    def stop(self) -> None:
        """Finish what is under way and disconnect."""
        self._room.stop()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to poll; False when nothing came in time."""
        return self._inbox.wait(timeout_s)

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._inbox.put_answer(lambda: None)

    def check(self) -> None:
        """Raise what broke for good. Nothing is read or sent after that."""
        self._room.check()

    def is_leader(self) -> bool:
        """Whether what is decided may be sent; from any thread."""
        return self._room.may_act()

    def stand_down(self, seconds: float) -> None:
        """Lead no more, and let another replica for so long at least; from any thread. Without a lease: nothing."""
        self._room.stand_down(seconds)

    def trouble(self, limit_s: float) -> str:
        """What keeps us from knowing the present or from deciding for longer than a limit, "" if nothing does."""
        return self._room.trouble(limit_s)

    def ask(self, path: str, body: bytes) -> bytes:
        """Post a question that changes nothing; from any thread. Raises BackendError."""
        return self._room.ask(path, body)

    def is_busy(self) -> bool:
        """Whether so much is being sent that more decisions would only have to wait; from any thread."""
        return self._room.urgent.is_busy()

    def refusals(self) -> Mapping[str, int]:
        """How often the server refused what, by a word for it."""
        return self._pending.refused

    def shard_nodes(self) -> frozenset[str] | None:
        """The nodes that a NodeShard leaves to this scheduler; None when none is asked; from any thread."""
        return None if self._room.node_shards is None else self._room.node_shards.own_nodes

    # -- the protocol --------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._clock()

    def poll(self) -> list[Event]:
        self._room.check()
        self._evictions.begin_cycle()
        events, answers = self._inbox.take()
        for settle in answers:
            settle()
        self._pending.look_at_overdue()
        if given_up := self._custody.given_up(self._bindings.waiting()):
            why = "the rest of its gang could not be bound"
            self._room.urgent.submit([self._evictions.leave(pod, why) for pod in given_up])
        self._bindings.rests.end()
        self._unnamed.end()
        self._evictions.tell_reasons()
        self._reports.tell_node_shard()
        # What was assumed or given back is older than what the watches say now.
        made = self._assumptions.drain()
        if self._view is not None:
            events = [seen for event in events for seen in self._view.observe(event)]
        seen = [*made, *map(self._note, events)]
        if self._room.is_beside_volcano:
            for event in events:
                self._unnamed.observe(event)
        self._queues.make_missing()
        self._evictions.look_at_beneficiaries(self._is_waiting)
        self._bindings.settle()
        seen += [*self._assumptions.drain(), *self._bindings.drain()]
        self._custody.take_over(self.now())
        return seen

    def _note(self, event: Event) -> Event:
        """Let everybody here know of an event; returns it with what is assumed laid over it."""
        if event.kind == "UNREADABLE":  # nobody can do anything with it but the scheduler, who puts it aside
            return event
        for observer in (self._pods, self._evictions.guards, self._bindings, self._queues):
            try:
                observer.observe(event)
            except Exception:  # the others, and the events that follow, are told only once
                log.exception("event=error kind=%s name=%s what=event", event.object.kind, event.object.key)
        return self._assumptions.observe(event)

    def bind(self, decisions: Sequence[Bind]) -> list[Failure]:
        return self._bindings.bind(decisions)

    def nominate(self, decisions: Sequence[Nominate]) -> list[Failure]:
        failures: list[Failure] = []
        errands: list[Errand] = []
        news, now = self._news.round(), self.now()
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            if pod is None or pod.spec.node_name:
                failures.append(Failure(made, "the pod is gone or bound already"))
            elif pod.status.nominated_node_name != made.node:
                note = partial(acting.write, self._room.client, calls.nominate(pod, made.node, made.says, now))
                # Nobody waits for a promise to be taken back.
                send: Send = self._evictions.promise(made.job).with_one_more(note) if made.node else note
                assumption = nominated(pod, made.node, made.says, calls.stamp(now))
                errands.append(self._pending.assume(assumption, send, self._heard(made.job, news.expect(made, pod))))
        self._room.urgent.submit(errands)
        return failures

    def ungate(self, decisions: Sequence[Ungate]) -> list[Failure]:
        return self._reports.ungate(decisions)

    def evict(self, decisions: Sequence[Evict]) -> list[Failure]:
        failures: list[Failure] = []
        wanted = []
        news = self._news.round()
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            if pod is None:
                failures.append(Failure(made, acting.GONE))
            elif pod.metadata.deletion_timestamp is None:
                wanted.append((made, pod, self._heard(made.beneficiary, news.expect(made, pod))))
        self._room.urgent.submit(self._evictions.errands(wanted))
        return failures

    def _heard(self, job: str, told: Answered) -> Answered:
        """Returns what to call with the answer to something that is done for a job, which rests if it is refused."""

        def heard(error: str) -> None:
            told(error)
            is_refused = error and not isinstance(error, acting.Race)
            if is_refused and job and self._room.may_act():
                for pod in self._waiting(job):
                    self._bindings.rests.note(job, pod)

        return heard

    def _waiting(self, job: str) -> list[Pod]:
        """The pods of a job that have no node yet."""
        pods = self._reports.pods(job)
        return [pod for pod in pods if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]

    def _is_waiting(self, job: str) -> bool:
        return bool(self._waiting(job))

    def update_jobs(self, updates: Sequence[JobUpdate]) -> list[Failure]:
        resting = self._bindings.rests.jobs() | self._unnamed.jobs()
        updates = [update for update in updates if update.unschedulable is None or update.job not in resting]
        told = self._newcomers.told(updates, self._reports.group, time.monotonic())
        for update in told:
            self._news.waits(update, self._reports.group(update.job), self._reports.to_tell(update))
        return self._reports.update_jobs(told, self.now())

    def update_quarantine(self, updates: Sequence[QuarantineUpdate]) -> None:
        for update in updates:
            self._news.is_aside(update)
        self._reports.update_quarantine(updates, self.now())

    def update_queues(self, updates: Sequence[QueueUpdate]) -> list[Failure]:
        return self._queue_reports.update_queues(updates)

    def update_hypernodes(self, updates: Sequence[HyperNodeUpdate]) -> list[Failure]:
        return self._reports.update_hypernodes(updates, self.now())
