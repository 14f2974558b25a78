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

from muster.api import KubeObject, Pod
from muster.cluster.kubernetes.client.leases import Election, LeaseOptions
from muster.cluster.kubernetes.client.reflector import Sink
from muster.cluster.kubernetes.client.shards import WHOLE_CLUSTER, Shard, ShardView, Target
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumptions, nominated
from muster.cluster.kubernetes.sending.events import DecisionEvents
from muster.cluster.kubernetes.sending.in_flight import GONE, Answered, InFlight, Race, write
from muster.cluster.kubernetes.sending.queues import Inbox, Request, Send
from muster.cluster.kubernetes.verbs.bindings import Bindings
from muster.cluster.kubernetes.verbs.eviction_requests import EVICTION_PATIENCE_S
from muster.cluster.kubernetes.verbs.evictions import Evictions
from muster.cluster.kubernetes.verbs.job_reports import JobReports, ReportDebounce
from muster.cluster.kubernetes.verbs.mirror_only import AwaitedPodGroups
from muster.cluster.kubernetes.verbs.object_reports import ObjectReports, StandardQueues
from muster.cluster.kubernetes.verbs.partial_gangs import PartialGangs
from muster.snapshot import messages

log = logging.getLogger("muster.kubernetes")

#: Seconds from an answer to the event that must follow it; after that, the pod is looked at.
CONFIRM_SECONDS: Final = 15.0
#: Seconds that a gang of which some pods failed to bind has to become complete.
HALF_BOUND_SECONDS: Final = 30.0
#: Seconds that a pod waits for its claims to be bound.
VOLUME_WAIT_SECONDS: Final = 600.0
START_SECONDS: Final = 120.0
#: Seconds between looks at what has been read while more is on its way.
_READ_AHEAD_SECONDS: Final = 0.02


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
        awaits_groups: bool = False,
    ) -> None:
        self._clock = clock
        self._inbox = Inbox()
        election = None if lease is None else Election(lease)
        self._api = ApiThread(self._inbox, Target(kubeconfig, context, shard), election)
        self._view = ShardView(shard) if shard.is_by_labels else None
        self._assumptions = Assumptions()
        self._in_flight = InFlight(self._inbox, self._api, self._assumptions, confirm_s)
        self._job_reports = JobReports(self._api, self._assumptions, self._in_flight)
        self._events = DecisionEvents(self._api.tell, self._assumptions.group)
        self._debounce = ReportDebounce()
        self._awaits_groups = awaits_groups
        self._awaited_groups = AwaitedPodGroups(self._assumptions, takes_over_from)
        self._object_reports = ObjectReports(self._api, self._assumptions, self._in_flight)
        self._queues = StandardQueues(self._api, self._in_flight, wanted=makes_queues)
        self._evictions = Evictions(self._api, self._in_flight, self.now, eviction_patience_s)
        self._partial_gangs = PartialGangs(self._api, self._assumptions, half_bound_s, takes_over_from)
        self._bindings = Bindings(
            self._api, self._assumptions, self._in_flight, self._partial_gangs, self._events, volume_wait_s
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def share(self, kinds: Collection[type[KubeObject]], sink: Sink) -> frozenset[type[KubeObject]]:
        """Tell somebody else of kinds, too, before `begin`; returns those of which all objects are told."""
        return self._api.share(kinds, sink)

    def has_read(self, kind: type[KubeObject]) -> bool:
        """Whether all objects of a kind have been read, and told of; from any thread."""
        return self._api.has_read(kind)

    def begin(self) -> None:
        """Connect, and begin to read everything; `start` waits for the end of it."""
        self._api.begin()

    def start(
        self, timeout_s: float = START_SECONDS, take: Callable[[list[messages.Event]], None] | None = None
    ) -> None:
        """Connect and read everything; `take` gets what has come while more is on its way. Raises MusterError."""
        began = time.monotonic()
        self._api.begin()
        if take is not None:
            self._hand_over(take, began + timeout_s)
        self._api.start(timeout_s, began)

    def _hand_over(self, take: Callable[[list[messages.Event]], None], until: float) -> None:
        """Hand over what is read, pods after everything else that is there: they are looked at anew for their gangs."""
        held: list[messages.Event] = []
        while not self._api.wait(_READ_AHEAD_SECONDS) and time.monotonic() < until:
            events, answers = self._inbox.take()
            for settle in answers:
                settle()
            held += [event for event in events if isinstance(event.object, Pod)]
            others = [event for event in events if not isinstance(event.object, Pod)]
            if self._api.has_groups():
                others, held = [*others, *held], []
            take(self._take_in(others))
        take(self._take_in(held))

    def stop(self) -> None:
        """Finish what is under way and disconnect."""
        self._api.stop()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to poll; False when nothing came in time."""
        return self._inbox.wait(timeout_s)

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._inbox.put_answer(lambda: None)

    def check(self) -> None:
        """Raise what broke for good. Nothing is read or sent after that."""
        self._api.check()

    def is_leader(self) -> bool:
        """Whether what is decided may be sent; from any thread."""
        return self._api.may_act()

    def stand_down(self, seconds: float) -> None:
        """Lead no more, and let another replica for so long at least; from any thread. Without a lease: nothing."""
        self._api.stand_down(seconds)

    def trouble(self, limit_s: float) -> str:
        """What keeps us from knowing the present or from deciding for longer than a limit, "" if nothing does."""
        return self._api.trouble(limit_s)

    def ask(self, path: str, body: bytes) -> bytes:
        """Post a question that changes nothing; from any thread. Raises BackendError."""
        return self._api.ask(path, body)

    def is_busy(self) -> bool:
        """Whether so much is being sent that more decisions would only have to wait; from any thread."""
        return self._api.urgent.is_busy()

    def refusals(self) -> Mapping[str, int]:
        """How often the server refused what, by a word for it."""
        return self._in_flight.refused

    def time_requests(self, observe: Callable[[str, float], None]) -> None:
        """Tell of every request but watches its method and seconds, in the thread that sends; before `start`."""
        self._api.observe_request = observe

    def shard_nodes(self) -> frozenset[str] | None:
        """The nodes that a NodeShard leaves to this scheduler; None when none is asked; from any thread."""
        return None if self._api.node_shards is None else self._api.node_shards.own_nodes

    # -- the protocol --------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._clock()

    def poll(self) -> list[messages.Event]:
        self._api.check()
        self._evictions.begin_cycle()
        events, answers = self._inbox.take()
        for settle in answers:
            settle()
        self._in_flight.look_at_overdue()
        if given_up := self._partial_gangs.given_up(self._bindings.waiting()):
            why = "the rest of its gang could not be bound"
            self._api.urgent.submit([self._evictions.leave(pod, why) for pod in given_up])
        self._bindings.backoff.end()
        self._awaited_groups.end()
        self._evictions.tell_reasons()
        self._object_reports.tell_node_shard()
        # What was assumed or given back is older than what the watches say now.
        seen = [*self._assumptions.drain(), *self._take_in(events)]
        self._queues.make_missing()
        self._evictions.look_at_beneficiaries(self._is_waiting)
        self._bindings.settle()
        seen += [*self._assumptions.drain(), *self._bindings.drain()]
        self._partial_gangs.take_over(self.now())
        return seen

    def _take_in(self, events: list[messages.Event]) -> list[messages.Event]:
        """Let everybody here know of what the watches say; returns what the scheduler is to see of it."""
        if self._view is not None:
            events = [seen for event in events for seen in self._view.observe(event)]
        seen = [*map(self._note, events)]
        if self._api.is_beside_volcano or self._awaits_groups:
            for event in events:
                self._awaited_groups.observe(event, owned_only=not self._api.is_beside_volcano)
        return seen

    def _note(self, event: messages.Event) -> messages.Event:
        """Let everybody here know of an event; returns it with what is assumed laid over it."""
        if event.kind == "UNREADABLE":  # nobody can do anything with it but the scheduler, who puts it aside
            return event
        for observer in (self._evictions.budgets, self._bindings, self._queues):
            try:
                observer.observe(event)
            except Exception:  # the others, and the events that follow, are told only once
                log.exception("event=error kind=%s name=%s what=event", event.object.kind, event.object.key)
        return self._assumptions.observe(event)

    def bind(self, decisions: Sequence[messages.Bind]) -> list[messages.Failure]:
        return self._bindings.bind(decisions)

    def nominate(self, decisions: Sequence[messages.Nominate]) -> list[messages.Failure]:
        failures: list[messages.Failure] = []
        requests: list[Request] = []
        answers, now = self._events.answers(), self.now()
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            if pod is None or pod.spec.node_name:
                failures.append(messages.Failure(made, "the pod is gone or bound already"))
            elif pod.status.nominated_node_name != made.node:
                note = partial(write, self._api.client, calls.nominate(pod, made.node, made.says, now))
                # Nobody waits for a promise to be taken back.
                send: Send = self._evictions.nominations_of(made.job).with_one_more(note) if made.node else note
                assumption = nominated(pod, made.node, made.says, calls.stamp(now))
                requests.append(
                    self._in_flight.assume(assumption, send, self._heard(made.job, answers.expect(made, pod)))
                )
        self._api.urgent.submit(requests)
        return failures

    def ungate(self, decisions: Sequence[messages.Ungate]) -> list[messages.Failure]:
        return self._job_reports.ungate(decisions)

    def evict(self, decisions: Sequence[messages.Evict]) -> list[messages.Failure]:
        failures: list[messages.Failure] = []
        wanted = []
        answers = self._events.answers()
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            if pod is None:
                failures.append(messages.Failure(made, GONE))
            elif pod.metadata.deletion_timestamp is None:
                wanted.append((made, pod, self._heard(made.beneficiary, answers.expect(made, pod))))
        self._api.urgent.submit(self._evictions.requests(wanted))
        return failures

    def _heard(self, job: str, told: Answered) -> Answered:
        """Returns what to call with the answer to something that is done for a job, which rests if it is refused."""

        def heard(error: str) -> None:
            told(error)
            is_refused = error and not isinstance(error, Race)
            if is_refused and job and self._api.may_act():
                for pod in self._waiting(job):
                    self._bindings.backoff.note(job, pod)

        return heard

    def _waiting(self, job: str) -> list[Pod]:
        """The pods of a job that have no node yet."""
        pods = self._assumptions.pods(job)
        return [pod for pod in pods if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]

    def _is_waiting(self, job: str) -> bool:
        return bool(self._waiting(job))

    def update_jobs(self, updates: Sequence[messages.JobUpdate]) -> list[messages.Failure]:
        resting = self._bindings.backoff.jobs() | self._awaited_groups.jobs()
        updates = [update for update in updates if update.unschedulable is None or update.job not in resting]
        due = self._debounce.due(updates, self._assumptions.group, time.monotonic())
        for update in due:
            self._events.waits(update, self._assumptions.group(update.job), self._job_reports.to_tell(update))
        return self._job_reports.update_jobs(due, self.now())

    def update_quarantine(self, updates: Sequence[messages.QuarantineUpdate]) -> None:
        for update in updates:
            self._events.is_aside(update)
        self._object_reports.update_quarantine(updates, self.now())

    def update_queues(self, updates: Sequence[messages.QueueUpdate]) -> list[messages.Failure]:
        return self._object_reports.update_queues(updates)

    def update_hypernodes(self, updates: Sequence[messages.HyperNodeUpdate]) -> list[messages.Failure]:
        return self._object_reports.update_hypernodes(updates, self.now())
