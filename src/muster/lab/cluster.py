"""The cluster of a replay: jobs come, run for their time and go, and nothing else is kept.

It speaks the scheduler's protocol. A gang runs from the moment at which its minimum has places, for the time that its
trace says; pods that get a place later join it. If evictions take it below its minimum, it has to begin again: what it
did since its last checkpoint is lost, evicted pods are made anew when they have left, and it goes on when it is whole.
Finished jobs leave nothing behind, so that a long trace costs no more memory than a short one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec.structs import replace

from muster.api import KubeObject, Pod, PodGroup, PodStatus, Queue
from muster.api.names import EXPECTED_SECONDS, QUEUE_GATE
from muster.cluster.clock import stamp_of
from muster.cluster.embedded_server import admit, standard_queues
from muster.cluster.written_objects import updated_group
from muster.framework.run_times import RunTimes, owner_of
from muster.lab.job_objects import ObjectMaker
from muster.lab.record import Recorder
from muster.lab.trace import TraceJob
from muster.snapshot import messages
from muster.snapshot.messages import Event, EventKind
from muster.snapshot.records import job_from_group

_Made = TypeVar("_Made", bound=messages.Decision | messages.JobUpdate | messages.Ungate)
#: What the scheduler sees as the beginning of the trace: 1 January 2001.
EPOCH: Final = 978_307_200.0


@dataclass(slots=True)
class LiveJob:
    """A job that has come and not ended."""

    job: TraceJob
    number: int
    group: PodGroup
    pods: dict[str, Pod]
    #: Pods that have a node and are not leaving.
    placed: set[str] = field(default_factory=set)
    #: Since when its minimum runs; None: it does not.
    running_since: float | None = None
    #: What it need not do again.
    done_s: float = 0.0
    #: How often it has begun.
    starts: int = 0


class ReplayCluster:
    """Nodes and other objects that stay, and the jobs of a trace."""

    def __init__(
        self,
        objects: Iterable[KubeObject],
        jobs: Sequence[TraceJob],
        recorder: Recorder,
        *,
        grace_s: float = 0.0,
        checkpoint_s: float | None = None,
    ) -> None:
        """`grace_s`: how long evicted pods take to leave; `checkpoint_s`: how often jobs save their work.

        0: always, None: never.
        """
        given = list(objects)
        self._now = EPOCH
        self._jobs = jobs
        self._next = 0
        self._recorder = recorder
        self._grace_s = grace_s
        self._checkpoint_s = checkpoint_s
        self._make = ObjectMaker(EPOCH)
        #: Told what jobs took, as a scheduler that looks all the time would see it; None: nobody wants to know.
        self.run_times: RunTimes | None = None
        self._live: dict[str, LiveJob] = {}
        self._n_running = 0
        #: When, in which order, whose, what: the n-th run of a job ends, or a pod has left.
        self._agenda: list[tuple[float, int, str, str | int]] = []
        self._put_down = 0
        #: What nobody has asked for yet, by kind and uid of the object: the last that happened to each.
        self._events: dict[tuple[str, str], Event] = {}
        for thing in admit([*_queues(given, jobs), *given], EPOCH, {}):
            self._tell("ADDED", thing)

    # -- time ----------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._now

    def next_event_at(self) -> float | None:
        """When something happens next of its own accord; None: never."""
        coming = EPOCH + self._jobs[self._next].submit_s if self._next < len(self._jobs) else None
        due = self._agenda[0][0] if self._agenda else None
        return min((moment for moment in (coming, due) if moment is not None), default=None)

    def advance_to(self, moment: float) -> bool:
        """Let everything happen that is due by then; True: something came, or room may have come free."""
        is_news = False
        while (at := self.next_event_at()) is not None and at <= moment:
            self._now = max(self._now, at)
            if self._agenda and self._agenda[0][0] <= at:
                _, _, job, what = heapq.heappop(self._agenda)
                is_news |= self._end(job, what) if isinstance(what, int) else self._leave(job, what)
            else:
                self._come(self._jobs[self._next])
                self._next += 1
                is_news = True
        self._now = max(self._now, moment)
        return is_news

    def _later(self, at: float, job: str, what: str | int) -> None:
        heapq.heappush(self._agenda, (at, self._put_down, job, what))
        self._put_down += 1

    @property
    def n_done(self) -> int:
        """Jobs that have come and ended."""
        return self._next - len(self._live)

    @property
    def n_waiting(self) -> int:
        """Jobs that have come and do not run."""
        return len(self._live) - self._n_running

    # -- the protocol --------------------------------------------------------------------------------------------

    def poll(self) -> list[Event]:
        events, self._events = self._events, {}
        return list(events.values())

    def _tell(self, kind: EventKind, thing: KubeObject) -> None:
        """Note what happened to an object; nobody needs to hear of what happened to the same one before."""
        key = thing.kind, thing.metadata.uid or thing.key
        self._events.pop(key, None)
        self._events[key] = Event(kind, thing)

    def bind(self, decisions: Sequence[messages.Bind]) -> list[messages.Failure]:
        return _failures(decisions, self._bind)

    def evict(self, decisions: Sequence[messages.Evict]) -> list[messages.Failure]:
        return _failures(decisions, self._evict)

    def nominate(self, decisions: Sequence[messages.Nominate]) -> list[messages.Failure]:
        return _failures(decisions, self._nominate)

    def ungate(self, decisions: Sequence[messages.Ungate]) -> list[messages.Failure]:
        return _failures(decisions, self._ungate)

    def update_jobs(self, updates: Sequence[messages.JobUpdate]) -> list[messages.Failure]:
        return _failures(updates, self._update_job)

    def update_queues(self, updates: Sequence[messages.QueueUpdate]) -> list[messages.Failure]:
        return []

    def update_hypernodes(self, updates: Sequence[messages.HyperNodeUpdate]) -> list[messages.Failure]:
        return []

    def update_quarantine(self, updates: Sequence[messages.QuarantineUpdate]) -> None:
        for update in updates:
            if update.reason:
                self._recorder.put_aside(f"{update.object.kind} {update.object.key}", update.reason)

    def _bind(self, decision: messages.Bind) -> str:
        live, pod = self._find(decision)
        if live is None or pod is None or pod.spec.node_name:
            return "the pod is gone or bound already"
        status = PodStatus(phase="Running", start_time=stamp_of(self._now))
        self._put(live, replace(pod, spec=replace(pod.spec, node_name=decision.node), status=status))
        live.placed.add(pod.key)
        self._recorder.placed(live.number, decision.node, self._now - EPOCH)
        if live.running_since is None and len(live.placed) >= live.group.spec.min_member:
            self._begin(live)
        return ""

    def _evict(self, decision: messages.Evict) -> str:
        live, pod = self._find(decision)
        if live is None or pod is None or pod.key not in live.placed:
            return "the pod is gone, or has no node"
        action = decision.why.partition(":")[0]
        live.placed.discard(pod.key)
        self._recorder.evicted(live.number, action, decision.node, self._now - EPOCH)
        if live.running_since is not None and len(live.placed) < live.group.spec.min_member:
            self._break(live)
        leaving = replace(pod.metadata, deletion_timestamp=stamp_of(self._now + self._grace_s))
        self._put(live, replace(pod, metadata=leaving))
        self._later(self._now + self._grace_s, live.group.key, pod.key)
        return ""

    def _nominate(self, decision: messages.Nominate) -> str:
        live, pod = self._find(decision)
        if live is None or pod is None or pod.spec.node_name:
            return "the pod is gone or bound already"
        self._put(live, replace(pod, status=replace(pod.status, nominated_node_name=decision.node)))
        return ""

    def _ungate(self, decision: messages.Ungate) -> str:
        live, pod = self._find(decision)
        if live is None or pod is None:
            return "the pod is gone"
        left = [gate for gate in pod.spec.scheduling_gates if gate.name != QUEUE_GATE]
        self._put(live, replace(pod, spec=replace(pod.spec, scheduling_gates=left)))
        return ""

    def _update_job(self, update: messages.JobUpdate) -> str:
        live = self._live.get(update.job)
        if live is None:
            return "the PodGroup is gone"
        group = updated_group(live.group, update, stamp_of(self._now))
        assert isinstance(group, PodGroup)
        live.group = group
        self._tell("MODIFIED", group)
        return ""

    def _find(self, decision: messages.Decision | messages.Ungate) -> tuple[LiveJob | None, Pod | None]:
        live = self._live.get(decision.job)
        return live, None if live is None else live.pods.get(decision.pod)

    def _put(self, live: LiveJob, pod: Pod) -> None:
        live.pods[pod.key] = pod
        self._tell("MODIFIED", pod)

    # -- the life of a job ---------------------------------------------------------------------------------------

    def _come(self, job: TraceJob) -> None:
        group, pods = self._make.objects(job)
        live = LiveJob(job, self._next, group, {pod.key: pod for pod in pods})
        self._live[group.key] = live
        self._recorder.came(live.number)
        for thing in (group, *pods):
            self._tell("ADDED", thing)

    def _begin(self, live: LiveJob) -> None:
        live.running_since = self._now
        live.starts += 1
        self._n_running += 1
        self._recorder.began(live.number, self._now - EPOCH)
        if live.job.run_s is not None:
            ends = self._now + live.job.run_s - live.done_s
            self._later(ends, live.group.key, live.starts)

    def _break(self, live: LiveJob) -> None:
        assert live.running_since is not None
        ran = live.done_s + self._now - live.running_since
        every = self._checkpoint_s
        kept = 0.0 if every is None else ran // every * every if every else ran
        self._recorder.broke(live.number, self._now - EPOCH, lost_s=ran - kept)
        live.done_s, live.running_since = kept, None
        self._n_running -= 1
        if live.job.expected_s is not None and live.job.group is None:
            self._tell_expected(live, max(0.0, live.job.expected_s - kept))

    def _tell_expected(self, live: LiveJob, seconds: float) -> None:
        """A job that goes on from a checkpoint says what it will take from there."""
        marks = {**live.group.metadata.annotations, EXPECTED_SECONDS: f"{seconds:g}"}
        live.group = replace(live.group, metadata=replace(live.group.metadata, annotations=marks))
        self._tell("MODIFIED", live.group)

    def _end(self, key: str, start: int) -> bool:
        live = self._live.get(key)
        if live is None or live.running_since is None or live.starts != start:
            return False  # it was broken, and has begun anew or waits
        del self._live[key]
        self._n_running -= 1
        for thing in (*live.pods.values(), live.group):
            self._tell("DELETED", thing)
        self._recorder.ended(live.number, self._now - EPOCH)
        if self.run_times is not None:
            owner = owner_of(job_from_group(live.group), next(iter(live.pods.values()), None))
            self.run_times.ended(key, owner, self._now - live.running_since)
        return True

    def _leave(self, job: str, key: str) -> bool:
        live = self._live.get(job)
        if live is None:
            return False
        pod = live.pods[key]
        anew = live.pods[key] = self._make.anew(pod, live.job, self._now)
        self._tell("DELETED", pod)
        self._tell("ADDED", anew)
        return True


def _queues(given: Sequence[KubeObject], jobs: Sequence[TraceJob]) -> list[KubeObject]:
    """Queues that jobs name and nobody has described: as Volcano's users get them, with a weight of one."""
    known = {thing.name for thing in given if thing.kind == "Queue"}
    named = sorted({job.queue for job in jobs} - known)
    made = [Queue() for _ in named]
    for queue, name in zip(made, named, strict=True):
        queue.metadata.name = name
    return [*made, *standard_queues([*given, *made])]


def _failures(decisions: Sequence[_Made], carry_out: Callable[[_Made], str]) -> list[messages.Failure]:
    return [messages.Failure(made, error) for made in decisions if (error := carry_out(made))]
