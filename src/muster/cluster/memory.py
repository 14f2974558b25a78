"""The embedded cluster: an API server, kubelets and owners in one process, on a virtual clock.

It speaks the protocol of `muster.scheduler.Cluster` and decides nothing: a bound pod starts after a moment,
runs as long as `muster.sh/run-seconds` says, ends as `muster.sh/exit` says; an evicted one keeps its node for its
grace period, goes, and is made anew by its owner (an ownerReference or a PodGroup), same name and new uid; unless
that owner is here, too, and the controllers that are attached make its pods.
A bind that the node has no room for is refused, as a kubelet would. Nothing happens except in `advance_to`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from muster.api import (
    WORKLOADS,
    HyperNode,
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PodStatus,
    PriorityClass,
    Queue,
    UserError,
    group_of,
)
from muster.api.names import QUEUE_GATE, UNREADABLE
from muster.api.objects.pod import ephemeral_claims, is_made_for
from muster.api.resources import format_amount
from muster.cluster.clock import Agenda, VirtualClock, stamp_of, within_calendar
from muster.cluster.embedded_server import (
    Store,
    admit,
    ended_containers,
    exit_phase,
    grace_seconds,
    run_seconds,
    standard_queues,
    start_of,
)
from muster.cluster.written_objects import noted, updated_group, updated_hypernode, updated_queue, waiting_pod
from muster.snapshot import messages
from muster.snapshot.records import pod_of_lone_job

#: Seconds; what happens so soon after the first moment does not happen before the first cycle.
_A_MOMENT: Final = 0.001

_Made = TypeVar("_Made", bound=messages.Message)


class Controllers(Protocol):
    """Whoever makes objects of others, on this cluster and its clock."""

    def run(self) -> None: ...

    def due(self) -> float | None: ...


_Step = Literal["start", "finish", "remove", "make anew"]


class _Due(Struct, frozen=True, gc=False):
    """What happens to a pod at some moment: plain data, so that a copy of the cluster has the same before it."""

    pod: str
    uid: str
    step: _Step


#: When a pod that runs will end, from when it began and what time it is; None: never.
Ends = Callable[[Pod, float, float], float | None]


def written_end(pod: Pod, began: float, _now: float) -> float | None:
    """When a pod ends by its own word, `muster.sh/run-seconds`."""
    seconds = run_seconds(pod)
    return None if seconds is None else began + seconds


def start_delay(pod: Pod) -> float:
    """Seconds from binding to running: up to one, the same for the same pod in every run."""
    return zlib.crc32(pod.key.encode()) % 1001 / 1000


class MemoryCluster:
    """A cluster in memory. `start` is the first moment, by default just after the newest object was made.

    `as_is`: the objects are all there is, and at the first moment just as they are, overdue or not; else the queues
    that Volcano's installation makes are added.
    """

    def __init__(
        self,
        objects: Iterable[KubeObject] = (),
        *,
        start: float | None = None,
        delay: Callable[[Pod], float] = start_delay,
        as_is: bool = False,
    ) -> None:
        given = list(objects)
        self.start = start_of(given) if start is None else within_calendar(start)
        self._as_is = as_is
        self.store = Store()
        self._clock = VirtualClock(self.start)
        self._agenda: Agenda[_Due | Callable[[], None]] = Agenda()
        self._delay = delay
        self._ends: Ends = written_end
        self._made = 0
        self._controllers: Controllers | None = None
        #: Pods go on with their lives from here.
        self._goes_on_at = self.start + (_A_MOMENT if as_is else 0.0)
        self.add(given if as_is else [*standard_queues(given), *given])

    # -- time ----------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._clock.now()

    def advance_to(self, moment: float) -> None:
        """Let everything happen that is due by then."""
        self._agenda.play(self._clock, moment, self._happen)

    def next_event_at(self) -> float | None:
        """When something happens next of its own accord; None: never."""
        due = None if self._controllers is None else self._controllers.due()
        return min((moment for moment in (self._agenda.next_at(), due) if moment is not None), default=None)

    def at(self, moment: float, happening: Callable[[], None]) -> None:
        """Arrange for something to happen."""
        self._agenda.add(moment, happening)

    # -- the protocol --------------------------------------------------------------------------------------

    def poll(self) -> list[messages.Event]:
        if self._controllers is not None:
            self._controllers.run()
        return self.store.drain_events()

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
        return _failures(updates, self._update_queue)

    def update_hypernodes(self, updates: Sequence[messages.HyperNodeUpdate]) -> list[messages.Failure]:
        return _failures(updates, self._update_hypernode)

    def update_quarantine(self, updates: Sequence[messages.QuarantineUpdate]) -> None:
        for update in updates:
            present = self.store.find_same(update.object)
            if present is None or update.is_asked or UNREADABLE in present.metadata.annotations:
                continue
            said = noted(present, update, self._clock.stamp())
            if said is not None:
                self.store.put(said)

    def _bind(self, decision: messages.Bind) -> str:
        pod, node = self.store.get(Pod, decision.pod), self.store.get(Node, decision.node)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return "the pod is gone"
        if pod.spec.node_name:
            return f"the pod is on node {pod.spec.node_name} already"
        if node is None:
            return f"node {decision.node} is gone"
        if missing := self.store.missing_room(node, pod):
            lacks = ", ".join(f"{format_amount(name, missing[name])} {name}" for name in sorted(missing))
            return f"node {decision.node} lacks {lacks}"
        spec = replace(pod.spec, node_name=decision.node)
        self._put_bound(replace(pod, spec=spec, status=replace(pod.status, nominated_node_name="")))
        return ""

    def _evict(self, decision: messages.Evict) -> str:
        pod = self.store.get(Pod, decision.pod)
        if pod is None:
            return "the pod is gone"
        self._terminate(pod, "make anew")
        return ""

    def _nominate(self, decision: messages.Nominate) -> str:
        pod = self.store.get(Pod, decision.pod)
        if pod is None or pod.spec.node_name:
            return "the pod is gone or bound already"
        self.store.put(replace(pod, status=replace(pod.status, nominated_node_name=decision.node)))
        return ""

    def _ungate(self, decision: messages.Ungate) -> str:
        pod = self.store.get(Pod, decision.pod)
        if pod is None:
            return "the pod is gone"
        left = [gate for gate in pod.spec.scheduling_gates if gate.name != QUEUE_GATE]
        self.store.put(replace(pod, spec=replace(pod.spec, scheduling_gates=left)))
        return ""

    def _update_job(self, update: messages.JobUpdate) -> str:
        if not update.has_group:
            for pod in self._pods_of(update.job):
                if not pod.spec.node_name:
                    self.store.put(waiting_pod(pod, update.message, self._clock.stamp()))
            return ""
        group = self.store.get(PodGroup, update.job) or self.store.get(KaiPodGroup, update.job)
        if group is None:
            return "the PodGroup is gone"
        self.store.put(updated_group(group, update, self._clock.stamp()))
        return ""

    def _pods_of(self, job: str) -> list[Pod]:
        """The pods of a job: a lone one, or all that name a PodGroup, there or missing."""
        alone = pod_of_lone_job(job)
        if alone is None:
            return [pod for pod in self.store.all(Pod) if f"{pod.namespace}/{group_of(pod)}" == job]
        pod = self.store.get(Pod, alone)
        return [] if pod is None else [pod]

    def _update_queue(self, update: messages.QueueUpdate) -> str:
        queue = self.store.get(Queue, update.name) or self.store.get(KaiQueue, update.name)
        if queue is None:
            return "the queue is gone"
        self.store.note(updated_queue(queue, update))
        return ""

    def _update_hypernode(self, update: messages.HyperNodeUpdate) -> str:
        hyper_node = self.store.get(HyperNode, update.name)
        if hyper_node is None:
            return "the HyperNode is gone"
        self.store.put(updated_hypernode(hyper_node, update, self._clock.stamp()))
        return ""

    # -- what people and controllers do -----------------------------------------------------------------------

    def attach(self, controllers: Controllers) -> None:
        """Let controllers work here from now on; they do so whenever somebody looks."""
        self._controllers = controllers

    def news(self) -> list[tuple[messages.EventKind, KubeObject]]:
        """What controllers have not heard yet."""
        return [(event.kind, event.object) for event in self.store.feed()]

    def find(self, kind: type[KubeObject], key: str) -> KubeObject | None:
        """One object, as it is now."""
        return self.store.get(kind, key)

    def remove(self, thing: KubeObject) -> None:
        """Delete one object as an API server does: a pod in its own time, and with an owner all that it owns."""
        if isinstance(thing, Pod):
            self._terminate(thing, "remove")
            return
        self.store.remove(thing)
        for owned in self.store.owned_by(thing):
            self.remove(owned)

    def add(self, objects: Sequence[KubeObject]) -> None:
        """Make objects. Raises UserError for one that exists already or that cannot be."""
        classes = {known.name: known for known in self.store.all(PriorityClass)}
        for thing in admit(objects, self.now(), classes, as_is=self._as_is):
            if self._as_is and (fault := thing.metadata.annotations.get(UNREADABLE)):
                self.store.put_unreadable(thing, fault)
                continue
            standing = self.store.find(thing.kind, thing.key)
            # A real cluster may hold objects of one kind and name in two families.
            if standing is not None and not (self._as_is and type(standing) is not type(thing)):
                family = "" if type(standing) is type(thing) else f" as a {standing.kind} of {standing.api_version}"
                raise UserError(f"exists already{family}", subject=f"{thing.kind} {thing.key}")
            self._take_up(thing)
        for thing in objects:
            if isinstance(thing, Pod) and thing.spec.volumes:
                self._make_claims(thing.key)

    def _make_claims(self, key: str) -> None:
        """Make the claims of a pod's ephemeral volumes, but for those that came with it."""
        pod = self.store.get(Pod, key)
        if pod is None:
            return
        for claim in ephemeral_claims(pod):
            standing = self.store.get(PersistentVolumeClaim, claim.key)
            if standing is None or not is_made_for(standing, pod):
                self.store.put(admit([claim], self.now(), {})[0])

    def replace_object(self, thing: KubeObject) -> None:
        """Put a changed object in the place of the present one."""
        self.store.put(thing)

    def delete(self, thing: KubeObject) -> None:
        """Delete an object for good: a PodGroup takes its pods along, a node's pods are made anew elsewhere."""
        if isinstance(thing, Pod) or type(thing) in WORKLOADS.values():
            self.remove(thing)
            return
        self.store.remove(thing)
        if isinstance(thing, Node):
            for pod in self.store.pods_on(thing.name):
                self._make_anew(pod)
        elif isinstance(thing, PodGroup | KaiPodGroup):
            for pod in self.store.all(Pod):
                if pod.namespace == thing.namespace and group_of(pod) == thing.name:
                    self._terminate(pod, "remove")

    # -- the life of a pod -----------------------------------------------------------------------------------

    def _take_up(self, thing: KubeObject) -> None:
        """Take in a new object, and go on from the state it is in."""
        if not isinstance(thing, Pod):
            self.store.put(thing)
        elif thing.metadata.deletion_timestamp is not None:
            self.store.put(thing)
            self._remove_at(thing.metadata.deletion_timestamp.timestamp(), thing, "make anew")
        elif thing.status.phase == "Running":
            self._put_running(thing)
        elif thing.status.phase == "Pending" and thing.spec.node_name:
            self._put_bound(thing)
        else:
            self.store.put(thing)

    def _put_bound(self, pod: Pod) -> None:
        self.store.put(pod)
        self._later(self.now() + self._delay(pod), pod, "start")

    def _start(self, pod: Pod) -> None:
        status = replace(pod.status, phase="Running", start_time=self._clock.stamp())
        self._put_running(replace(pod, status=status))

    def _put_running(self, pod: Pod) -> None:
        self.store.put(pod)
        began = pod.status.start_time
        end = self._ends(pod, self.now() if began is None else began.timestamp(), self.now())
        if end is not None:
            self._later(max(end, self.now()), pod, "finish")

    def expect(self, ends: Ends) -> None:
        """From now on, let pods that do not say themselves when they end do so when somebody expects it."""
        self._ends = ends
        now = self.now()
        for pod in self.store.all(Pod):
            if pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
                continue
            began = pod.status.start_time
            since = now if began is None else began.timestamp()
            end = ends(pod, since, now)
            if end is not None and written_end(pod, since, now) is None:  # else it is on the agenda already
                self._later(max(end, now), pod, "finish")

    def _finish(self, pod: Pod) -> None:
        if pod.status.phase == "Running":  # else somebody has ended it before its time
            ends = ended_containers(pod, self._clock.stamp())
            self.store.put(replace(pod, status=replace(pod.status, phase=exit_phase(pod), container_statuses=ends)))

    def _terminate(self, pod: Pod, step: _Step) -> None:
        """Ask a pod to leave; one that holds no node, or has ended, goes at once."""
        if pod.metadata.deletion_timestamp is not None:
            return
        grace = grace_seconds(pod) if pod.spec.node_name and pod.status.phase in ("Pending", "Running") else 0.0
        if grace == 0.0:
            self._leave(pod, step)
            return
        gone_at = self.now() + grace
        leaving = replace(pod.metadata, deletion_timestamp=stamp_of(gone_at))
        self.store.put(replace(pod, metadata=leaving))
        self._remove_at(gone_at, pod, step)

    def _remove_at(self, moment: float, pod: Pod, step: _Step) -> None:
        self._agenda.add(max(moment, self.now(), self._goes_on_at), _Due(pod.key, pod.metadata.uid, step))

    def _later(self, moment: float, pod: Pod, step: _Step) -> None:
        """Go on with a pod later, unless it was asked to leave or replaced in the meantime."""
        self._agenda.add(max(moment, self._goes_on_at), _Due(pod.key, pod.metadata.uid, step))

    def _happen(self, due: _Due | Callable[[], None]) -> None:
        if not isinstance(due, _Due):
            due()
            return
        pod = self.store.get(Pod, due.pod)
        if pod is None or pod.metadata.uid != due.uid:
            return
        if due.step in ("remove", "make anew"):
            self._leave(pod, due.step)
        elif pod.metadata.deletion_timestamp is None:
            (self._start if due.step == "start" else self._finish)(pod)

    def _leave(self, pod: Pod, step: _Step) -> None:
        if step == "make anew":
            self._make_anew(pod)
        else:
            self.store.remove(pod)

    def _make_anew(self, pod: Pod) -> None:
        """Take a pod away; its owner, if it has one, makes another."""
        self.store.remove(pod)
        if not self._has_owner(pod):
            return
        self._made += 1
        meta = replace(
            pod.metadata,
            uid=f"{pod.metadata.uid.partition('#')[0]}#{self._made}",
            creation_timestamp=self._clock.stamp(),
            deletion_timestamp=None,
        )
        spec = replace(pod.spec, node_name="")
        self.store.put(replace(pod, metadata=meta, spec=spec, status=PodStatus(phase="Pending")))
        self._make_claims(pod.key)

    def _has_owner(self, pod: Pod) -> bool:
        """Is there somebody who makes the pod anew? A PodGroup stands for the controller behind it."""
        owners = pod.metadata.owner_references
        if self._controllers is not None and any(
            self.store.find(each.kind, f"{pod.namespace}/{each.name}") for each in owners
        ):
            return False  # and will be told
        if owners:
            return True
        key = f"{pod.namespace}/{group_of(pod)}"
        return self.store.find("PodGroup", key) is not None


def _failures(decisions: Sequence[_Made], carry_out: Callable[[_Made], str]) -> list[messages.Failure]:
    """Carry decisions out one by one; each returns what is wrong, "" if nothing is."""
    return [messages.Failure(made, error) for made in decisions if (error := carry_out(made))]
