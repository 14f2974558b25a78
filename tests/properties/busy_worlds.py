"""Small clusters whose jobs contend: full or nearly so, with queues, priorities and everything that protects pods.

Described as plain facts (`Job`, `World`) that judges read, from which the objects are made that the scheduler reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from muster.api import (
    KubeObject,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    SubGroupPolicy,
    Taint,
    Toleration,
)
from muster.api.names import PREEMPT_MIN_RUNTIME, PREEMPTABLE, RECLAIM_MIN_RUNTIME, START_STAMP
from muster.snapshot.records import stamp_text
from muster.testing import node, pod, pod_group, priority_class, queue
from tests.snapshot.networks import SOFT, hard, hyper_node

START = 10_000.0
GPUS = 4
CPUS = 8
TAINT = "kept"
PRIORITIES = {"low": 10, "mid": 50, "high": 90}
PART, JOB, POOL = "part", "job", "pool"


@dataclass
class Job:
    """A gang, or a lone pod (`minimum` 0): facts that never change while the world runs."""

    name: str
    queue: str
    priority: str
    pods: int
    gpus: int
    minimum: int
    pool: str = ""
    #: "": the pods may go. Else why they may not: "mark" on every pod, "group" on the PodGroup, "system".
    firm: str = ""
    #: Highest tier, "soft", or None.
    network: int | str | None = None
    #: Roles with their minimum; pods 0, 2, 4 … are of the first, the others of the second.
    roles: dict[str, int] = field(default_factory=dict)
    #: Pods of a sub-group; 0: not divided. Pod k is in sub-group k // part.
    part: int = 0
    #: At least so many pods must be available, by a budget; 0: none.
    budget: int = 0
    #: Where its first pods run when the world begins.
    on: list[str] = field(default_factory=list)
    #: Since when, seconds before the start.
    age: float = 0.0
    #: What each pod asks for beside GPUs.
    cpu: int = 0
    #: Whether its pods go to nodes with the taint.
    tolerates: bool = False

    @property
    def namespace(self) -> str:
        return "kube-system" if self.firm == "system" else "default"

    def pod_names(self) -> list[str]:
        return [f"{self.namespace}/{self.name}-{k}" for k in range(self.pods)]

    def role(self, number: int) -> str:
        return sorted(self.roles)[number % 2] if self.roles else ""

    def objects(self) -> list[KubeObject]:
        made: list[KubeObject] = []
        if self.minimum:
            group = pod_group(
                self.name,
                minimum=self.minimum,
                namespace=self.namespace,
                queue=self.queue,
                priority_class=self.priority,
                roles=self.roles,
                phase="Running" if self.on else "",
                created=START - self.age - 1,
            )
            if self.firm == "group":
                group.metadata.annotations[PREEMPTABLE] = "false"
            if self.on:
                group.metadata.annotations[START_STAMP] = stamp_text(START - self.age)
            if self.network is not None:
                group.spec.network_topology = hard(self.network) if isinstance(self.network, int) else SOFT
            if self.part:
                group.spec.sub_group_policy = [
                    SubGroupPolicy(name="p", match_label_keys=[PART], sub_group_size=self.part, min_sub_groups=1)
                ]
            made.append(group)
        made += [self._pod(number) for number in range(self.pods)]
        if self.budget:
            spec = PodDisruptionBudgetSpec(
                min_available=self.budget, selector=LabelSelector(match_labels={JOB: self.name})
            )
            made.append(PodDisruptionBudget(metadata=ObjectMeta(name=self.name, namespace=self.namespace), spec=spec))
        return made

    def _pod(self, number: int) -> Pod:
        labels = {JOB: self.name}
        if self.part:
            labels[PART] = str(number // self.part)
        made = pod(
            f"{self.name}-{number}",
            namespace=self.namespace,
            group=self.name if self.minimum else None,
            role=self.role(number),
            gpu=self.gpus,
            cpu=self.cpu,
            node=self.on[number] if number < len(self.on) else "",
            priority_class=self.priority,
            selector={POOL: self.pool} if self.pool else {},
            tolerations=[Toleration(key=TAINT, operator="Exists")] if self.tolerates else [],
            labels=labels,
            grace_seconds=1,
            created=START - self.age - 1,
        )
        if not self.minimum:
            made.metadata.annotations["scheduling.volcano.sh/queue-name"] = self.queue
        if self.firm == "mark":
            made.metadata.annotations[PREEMPTABLE] = "false"
        return made


@dataclass
class World:
    """Nodes by name with their pool, racks, queues with quota and limit, and jobs."""

    nodes: dict[str, str]
    racks: dict[str, list[str]]
    #: Name -> (parent, GPUs of its own).
    queues: dict[str, tuple[str, int]]
    jobs: list[Job]
    #: Minimum runtime of every queue, seconds; 0: none.
    runtime: int
    #: The most GPUs that a queue may hold, where that is limited.
    limits: dict[str, int] = field(default_factory=dict)
    #: Nodes with a taint that only some jobs tolerate.
    tainted: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line per job, as a counterexample is read."""
        jobs = "".join(f"\n  {job}" for job in self.jobs)
        rare = f" limits {self.limits} tainted {self.tainted}"
        return f"nodes {self.nodes} racks {self.racks} queues {self.queues} runtime {self.runtime}{rare}{jobs}"

    def objects(self) -> list[KubeObject]:
        made: list[KubeObject] = [priority_class(name, value) for name, value in PRIORITIES.items()]
        taint = Taint(key=TAINT, effect="NoSchedule")
        made += [
            node(name, gpu=GPUS, cpu=CPUS, labels={POOL: pool}, taints=[taint] if name in self.tainted else [])
            for name, pool in self.nodes.items()
        ]
        made += [hyper_node(name, 1, nodes=inside) for name, inside in self.racks.items()]
        for name, (parent, quota) in self.queues.items():
            limit = {"gpu": self.limits[name]} if name in self.limits else {}
            one = queue(name, parent=parent, deserved={"gpu": quota} if quota else {}, capability=limit)
            if self.runtime:
                one.metadata.annotations |= {
                    PREEMPT_MIN_RUNTIME: f"{self.runtime}s",
                    RECLAIM_MIN_RUNTIME: f"{self.runtime}s",
                }
            made.append(one)
        return [*made, *(thing for job in self.jobs for thing in job.objects())]


@st.composite
def worlds(draw: st.DrawFn, size: int = 1) -> World:
    """Two to four nodes, up to four queues, three to eight jobs of which some run; or `size` times as many."""
    pools = draw(st.sampled_from([[""], [""], ["a", "b"]]))
    nodes = {f"n{k}": pools[k % len(pools)] for k in range(draw(st.integers(2, 4 * size)))}
    names = list(nodes)
    racks = {}
    if draw(st.booleans()) and len(names) > 2:
        racks = {f"r{k // 2}": names[k : k + 2] for k in range(0, len(names), 2)}
    queues = draw(_queues(GPUS * len(nodes), size))
    leaves = [name for name in queues if name not in {parent for parent, _ in queues.values()}]
    tainted = (names[-1],) if draw(st.integers(0, 3)) == 0 else ()
    sizes = draw(st.sampled_from([[0], [0], [0, 1, 2, 4]]))
    free = dict.fromkeys(names, (GPUS, CPUS))
    jobs = []
    for number in range(draw(st.integers(3 * size, 8 * size))):
        job = draw(_jobs(f"j{number}", leaves, sorted(set(nodes.values())), 4 * size, has_racks=bool(racks)))
        job.cpu = draw(st.sampled_from(sizes)) if len(sizes) > 1 else 0
        job.tolerates = bool(tainted) and draw(st.booleans())
        if draw(st.integers(0, 3)):
            open_to_it = {name: pool for name, pool in nodes.items() if job.tolerates or name not in tainted}
            _settle(draw, job, open_to_it, racks, free)
        jobs.append(job)
    limits = {}
    if draw(st.integers(0, 3)) == 0:
        limits[draw(st.sampled_from(sorted(queues)))] = draw(st.integers(GPUS, GPUS * len(nodes)))
    return World(nodes, racks, queues, jobs, draw(st.sampled_from([0, 0, 60])), limits, tainted)


@st.composite
def _queues(draw: st.DrawFn, capacity: int, size: int) -> dict[str, tuple[str, int]]:
    """Flat, or teams of departments, two for each `size`; quotas within what there is, or beyond it."""
    share = draw(st.sampled_from([0, capacity // 4, capacity // 2, capacity]))
    if draw(st.booleans()):
        return {f"q{k}": ("", draw(st.sampled_from([0, share]))) for k in range(draw(st.integers(1, 2 + size)))}
    found: dict[str, tuple[str, int]] = {}
    for department in (f"d{k}" for k in range(2 if size == 1 else draw(st.integers(1, 2 * size)))):
        found[department] = ("", share)
        for team in range(draw(st.integers(1, 2))):
            found[f"{department}t{team}"] = (department, draw(st.sampled_from([0, share // 2])))
    return found


@st.composite
def _jobs(draw: st.DrawFn, name: str, leaves: list[str], pools: list[str], most: int, *, has_racks: bool) -> Job:
    pods = draw(st.integers(1, most))
    job = Job(
        name,
        queue=draw(st.sampled_from(leaves)),
        priority=draw(st.sampled_from(sorted(PRIORITIES))),
        pods=pods,
        gpus=draw(st.sampled_from([1, 2, 2, 4])),
        minimum=draw(st.integers(1, pods)),
        pool=draw(st.sampled_from(pools)) if len(pools) > 1 and draw(st.booleans()) else "",
        age=float(draw(st.sampled_from([0, 30, 600]))),
    )
    shape = draw(st.sampled_from(["plain", "plain", "plain", "lone", "roles", "parts", "network", "network"]))
    if shape == "lone":
        job.pods, job.minimum = 1, 0
    elif shape == "roles" and pods > 1:
        job.roles = {"driver": 1, "worker": draw(st.integers(0, pods // 2))}
        job.minimum = max(job.minimum, sum(job.roles.values()))
    elif shape == "parts":
        job.part = draw(st.integers(1, pods))
        job.pods = job.part * draw(st.integers(1, 2))
        job.minimum = job.part
    elif shape == "network" and has_racks:
        job.network = 1 if draw(st.integers(0, 2)) else "soft"
    firm = draw(st.sampled_from(["", "", "", "", "", "mark", "system", "budget", "group"]))
    if firm == "budget":
        job.budget = draw(st.integers(1, job.pods))
    elif firm != "group" or job.minimum:  # a lone pod has no PodGroup
        job.firm = firm
    return job


def _settle(
    draw: st.DrawFn,
    job: Job,
    nodes: Mapping[str, str],
    racks: Mapping[str, list[str]],
    free: dict[str, tuple[int, int]],
) -> None:
    """Let pods of the job run where there is room, its minimum at least, or none."""
    usable = [name for name, pool in nodes.items() if not job.pool or pool == job.pool]
    if isinstance(job.network, int):
        inside = draw(st.sampled_from(sorted(racks)))
        usable = [name for name in usable if name in racks[inside]]
    left, on = dict(free), []
    for _ in range(job.pods):
        able = [name for name in usable if left[name][0] >= job.gpus and left[name][1] >= job.cpu]
        if not able:
            break
        on.append(draw(st.sampled_from(able)))
        gpus, cpus = left[on[-1]]
        left[on[-1]] = gpus - job.gpus, cpus - job.cpu
    if job.part:
        on = on[: len(on) - len(on) % job.part]
    if job.roles and len(on) < job.pods:
        on = []
    if len(on) >= max(1, job.minimum):
        job.on = on
        free.update(left)
