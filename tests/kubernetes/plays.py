"""Plays: a cluster, a configuration and what happens later, written once and run on both clusters.

`on_embedded` runs a play in memory, `LivePlay` on the real parts: the same scheduler, on a clock that jumps to what is
due next as soon as nothing changes any more. Both give a `SimulationResult`; `outcome_of` takes from it what must be
the same: how many pods of each job are on each node, how many of each job were evicted and when, and how far it is.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from muster.api import KaiPodGroup, KubeObject, Node, Pod, PodGroup, PriorityClass, group_of, load_files
from muster.cluster import Timeline
from muster.cluster.embedded_server import standard_queues
from muster.cluster.kubernetes import KubernetesCluster
from muster.cluster.timeline import Add, Change, Cordon, Delete, Entry, ObjectName, Patch
from muster.framework import SchedulerConfig, Session, default_config
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from muster.simulate import SimulationResult, simulate
from muster.simulate.report import report_jobs, report_nodes
from muster.snapshot.messages import Event, Evict
from tests.kubernetes.documents import SCHEDULER, document_of
from tests.kubernetes.kubectl import Json, Kubectl, kind_of
from tests.kubernetes.owners import Owners, key_of

#: Cycles after which a play that does not come to rest is a failure.
MAX_CYCLES = 100
#: A real cluster at rest says nothing for this many cycles.
_QUIET_CYCLES = 3


@dataclass(frozen=True, slots=True)
class Play:
    """What both clusters are given."""

    objects: Sequence[KubeObject]
    config: SchedulerConfig = field(default_factory=default_config)
    later: Timeline = field(default_factory=Timeline)
    #: Jobs come in different seconds, since their order decides.
    in_turn: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What both clusters must agree on."""

    #: Pods of a job on a node, by job and node.
    placed: dict[tuple[str, str], int]
    #: Evictions by job.
    evicted: dict[str, int]
    #: In which minute of the play they were.
    minutes: dict[str, set[int]]
    #: Phases by job.
    phases: dict[str, str]


def add(at: float, objects: Iterable[KubeObject]) -> Entry:
    """Objects that come later."""
    return Entry(at, Add(tuple(objects)), f"at {at}")


def read(*paths: Path) -> list[KubeObject]:
    """The objects of files."""
    return load_files(paths).objects


def on_embedded(play: Play) -> SimulationResult:
    """Run a play in memory."""
    return simulate(play.objects, play.config, timeline=play.later)


def outcome_of(result: SimulationResult) -> Outcome:
    """What a run came to."""
    assert result.last_session is not None
    tasks, jobs = result.last_session.snapshot.tasks, result.last_session.snapshot.jobs
    job_of = {pod: jobs.records[job].id for pod, job in zip(tasks.ids, tasks.job.tolist(), strict=True)}
    placed = Counter((job_of[pod], name) for name, node in result.nodes.items() for pod in node.pods)
    evictions = [
        (made.job, int(cycle.time - result.start) // 60)
        for cycle in result.cycles
        for made in cycle.decisions
        if isinstance(made, Evict)
    ]
    minutes: dict[str, set[int]] = defaultdict(set)
    for job, minute in evictions:
        minutes[job].add(minute)
    evicted = Counter(job for job, _ in evictions)
    phases = {name: job.phase for name, job in result.jobs.items()}
    return Outcome(dict(placed), dict(evicted), dict(minutes), phases)


class Clock:
    """The real time, and what has been jumped over."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self._ahead

    def jump(self, seconds: float) -> None:
        """Let time pass, or come back."""
        self._ahead += seconds

    def move_to(self, moment: float) -> None:
        self._ahead += max(0.0, moment - self())


class Listener(KubernetesCluster):
    """Muster's backend, with an ear on what the scheduler has been told."""

    def __init__(self, kubeconfig: Path, clock: Clock) -> None:
        super().__init__(kubeconfig, clock=clock)
        self.clock = clock
        #: The newest version of everything, by type and key.
        self.heard: dict[tuple[str, str, str], KubeObject] = {}

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to poll, urgent or not: a play has no other work that it would keep from."""
        return self._inbox.wait(timeout_s, calm_s=0.0)

    def poll(self) -> list[Event]:
        events = super().poll()
        for event in events:
            thing = event.object
            place = (thing.api_version, thing.kind, thing.key)
            if event.kind == "DELETED":
                self.heard.pop(place, None)
            else:
                self.heard[place] = thing
        return events

    def has_heard(self, place: tuple[str, str, str], version: int) -> bool:
        known = self.heard.get(place)
        return known is not None and int(known.metadata.resource_version or 0) >= version


#: Connects Muster's backend, on a clock of its own or on one that goes on.
Connect = Callable[..., AbstractContextManager[Listener]]


class LivePlay:
    """A play on the real parts."""

    def __init__(self, cluster: Listener, kubectl: Kubectl, play: Play) -> None:
        self._kubectl = kubectl
        self._play = play
        self._clock = cluster.clock
        self._owners = Owners(kubectl, cluster.clock)
        self.serve(cluster)
        self.cycles: list[CycleResult] = []
        self._session: Session | None = None
        #: Versions that the scheduler must have been told before it may decide.
        self._awaited: dict[tuple[str, str, str], int] = {}

    def serve(self, cluster: Listener) -> None:
        """Let a new scheduler, which knows nothing, go on from here."""
        self._cluster = cluster
        # As in a simulation, the report is about finished jobs too.
        self.scheduler = Scheduler(
            cluster, self._play.config, builtin_registry(), scheduler_names=[SCHEDULER], keeps_finished=True
        )

    def after_cycle(self) -> None:
        """What happens after every cycle; nothing, unless a test has other ideas."""

    def run(self) -> SimulationResult:
        """Run to the end."""
        start = float(math.ceil(self._clock()))  # stamps are whole seconds
        self._clock.move_to(start)
        self._create([*standard_queues(self._play.objects), *self._play.objects])
        self._kubectl.wait(lambda: not self._owners.take_a_turn())  # what is said to run runs
        self._settle()
        waiting = sorted(self._play.later.entries, key=lambda entry: entry.at)
        while (moment := self._next_moment(start, waiting)) is not None:
            self._clock.move_to(moment)
            while waiting and start + waiting[0].at <= self._clock():
                self._apply(waiting.pop(0).change)
            self._settle()
        final = self.scheduler.observe()
        session = self._session
        return SimulationResult(
            start, self.cycles, report_jobs(final, session), report_nodes(final), settled=True, last_session=session
        )

    def _next_moment(self, start: float, waiting: Sequence[Entry]) -> float | None:
        due = self.cycles[-1].due
        own = start + waiting[0].at if waiting else None
        return min((known for known in (due, own, self._owners.next_end()) if known is not None), default=None)

    # -- cycles --------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Run cycles until nothing changes any more."""
        n_quiet = 0
        for _ in range(MAX_CYCLES):
            is_busy = self._owners.take_a_turn()
            self._catch_up()
            result = self.scheduler.run_once()
            assert result.error is None
            self.cycles.append(result)
            self._session = self.scheduler.last_session
            self.after_cycle()
            n_quiet = n_quiet + 1 if _is_quiet(result) and not is_busy and self._knows_all_pods() else 0
            if n_quiet == _QUIET_CYCLES:
                return
            self._cluster.wait(0.05)
        raise AssertionError(f"still changing after {MAX_CYCLES} cycles: {self.cycles[-3:]}")

    def _catch_up(self) -> None:
        """What people did at once is seen at once: how fast the watches are must not decide who comes first."""

        def has_heard_all() -> bool:
            self.scheduler.observe()
            return all(self._cluster.has_heard(place, version) for place, version in self._awaited.items())

        self._kubectl.wait(has_heard_all)
        self._awaited.clear()

    def _knows_all_pods(self) -> bool:
        """Whether all that the scheduler has been told, or takes for done, has come true."""
        told = {
            (
                pod.key,
                pod.metadata.uid,
                pod.spec.node_name,
                pod.status.nominated_node_name,
                pod.status.phase,
                pod.metadata.deletion_timestamp is not None,
            )
            for pod in self._cluster.heard.values()
            if isinstance(pod, Pod)
        }
        return told == {
            (
                key_of(pod),
                pod["metadata"]["uid"],
                pod["spec"].get("nodeName", ""),
                pod["status"].get("nominatedNodeName", ""),
                pod["status"]["phase"],
                "deletionTimestamp" in pod["metadata"],
            )
            for pod in self._kubectl.list("Pod")
        }

    # -- what people do ------------------------------------------------------------------------------------

    def _apply(self, change: Change) -> None:
        if isinstance(change, Add):
            self._create(change.objects)
        elif isinstance(change, Delete):
            for target in change.targets:
                self._delete(target)
        elif isinstance(change, Cordon):
            for name in change.nodes:
                self._patch(ObjectName("Node", name), {"spec": {"unschedulable": change.unschedulable}})
        elif isinstance(change, Patch):
            self._patch(change.target, dict(change.merge))
        else:
            raise TypeError(f"{change}: leave this out of plays on the real parts, as KWOK keeps every node ready")

    def _create(self, objects: Sequence[KubeObject]) -> None:
        self._make_namespaces({thing.namespace for thing in objects if thing.namespaced})
        classes = {each.value: each.name for each in self._play.objects if isinstance(each, PriorityClass)}
        before = ""
        for thing in objects:
            document = document_of(thing, classes)
            if isinstance(thing, PodGroup | KaiPodGroup) or (isinstance(thing, Pod) and group_of(thing) is None):
                if thing.name < before or (before and self._play.in_turn):
                    _wait_for_the_next_second()
                before = thing.name
            made = self._kubectl.create(document)
            if isinstance(thing, Pod) and group_of(thing) is not None:
                self._owners.own(document)
            if status := _status_of(thing):
                made = self._kubectl.patch(kind_of(made), thing.name, {"status": status}, thing.namespace, status=True)
            self._await(made)

    def _make_namespaces(self, names: set[str]) -> None:
        standing = {known["metadata"]["name"] for known in self._kubectl.list("Namespace")}
        for name in sorted(names - standing):
            self._kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def _delete(self, target: ObjectName) -> None:
        namespace, _, name = target.key.rpartition("/")
        if target.kind == Pod.kind:
            self._owners.disown([target.key])
        elif target.kind == PodGroup.kind:
            members = [pod for pod in self._kubectl.list("Pod") if _group(pod) == target.key]
            self._owners.disown(map(key_of, members))
            for pod in members:
                self._kubectl.delete("Pod", pod["metadata"]["name"], namespace)
        self._kubectl.delete(target.kind, name, namespace)
        if target.kind == Node.kind:
            self._kubectl.wait(lambda: self._has_forgotten((Node.api_version, Node.kind, name)))

    def _has_forgotten(self, place: tuple[str, str, str]) -> bool:
        self.scheduler.observe()
        return place not in self._cluster.heard

    def _patch(self, target: ObjectName, body: Json) -> None:
        namespace, _, name = target.key.rpartition("/")
        self._await(self._kubectl.patch(target.kind, name, body, namespace))

    def _await(self, made: Json) -> None:
        key = made["metadata"]["name"] if "namespace" not in made["metadata"] else key_of(made)
        self._awaited[made["apiVersion"], made["kind"], key] = int(made["metadata"]["resourceVersion"])


def _is_quiet(result: CycleResult) -> bool:
    """Whether a cycle changed anything that a later one goes by; how jobs are may be told a moment later."""
    return not result.decisions and not any(update.annotations for update in result.updates)


def _status_of(thing: KubeObject) -> Json:
    """What was found out about an object before the play began; a server takes it apart from the object."""
    if isinstance(thing, Pod) and thing.status.nominated_node_name:
        return {"nominatedNodeName": thing.status.nominated_node_name}
    if isinstance(thing, PodGroup | KaiPodGroup) and thing.status.phase:
        return {"phase": thing.status.phase}
    return {}


def _wait_for_the_next_second() -> None:
    """Stamps of creation are whole seconds; those who come in the same one are served by name."""
    time.sleep(1.0 - time.time() % 1.0)


def _group(pod: Json) -> str:
    group = pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name", "")
    return f"{pod['metadata']['namespace']}/{group}"
