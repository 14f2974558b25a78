"""Checks that every plugin must pass, ours or a third party's.

    def test_my_plugin() -> None:
        check_plugin(MyPlugin)

The plugin is opened on a small cluster that has a bit of everything, and asked at every extension point that it
implements. Its answers must have the right shape and type, be the same when asked twice and when the objects
arrived in another order, and the snapshot must be untouched afterwards.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from muster.api import HyperNode, KubeObject, NetworkTopology, ObjectMeta, SubGroupPolicy, Taint, Toleration
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
from muster.cluster import MemoryCluster
from muster.framework import (
    Departure,
    Division,
    Eviction,
    Evictor,
    NodeScores,
    Plugin,
    PluginOption,
    Purpose,
    Registry,
    Scenario,
    SchedulerConfig,
    Session,
    points,
)
from muster.framework.answers import FILTERS, KEY
from muster.framework.points import Point
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot import NO_ROW, Mirror, Pieces, Rows, Snapshot, TaskStatus
from muster.snapshot.messages import Bind, Evict
from muster.testing.builders import gang, node, pod, pod_group, priority_class, queue

#: Any: an answer of an extension point, whose type the point's check knows.
Answer = Any
Answers = dict[str, Answer]


def check_plugin(plugin: type[Plugin], arguments: Mapping[str, Any] | None = None) -> None:
    """Raise AssertionError, naming extension point and row, unless the plugin keeps its contract."""
    objects = sample_cluster()
    session = _open(plugin, arguments or {}, objects)
    before = fingerprint(session.snapshot, log=False)
    first = _ask_everything(session, plugin.name)
    assert first, f"plugin {plugin.name} implements no extension point{_near_misses(plugin)}"
    assert first == _ask_everything(session, plugin.name), f"plugin {plugin.name}: another answer when asked twice"
    session.close()
    assert fingerprint(session.snapshot, log=False) == before, f"plugin {plugin.name} changed the snapshot"
    other = _open(plugin, arguments or {}, list(reversed(objects)))
    turned = _ask_everything(other, plugin.name)
    assert first == turned, f"plugin {plugin.name}: another answer when objects arrive in another order"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle decided."""

    #: The node of every pod that was bound, as "namespace/name".
    placed: dict[str, str]
    evicted: list[str]


def one_cycle(
    plugin: type[Plugin],
    objects: Sequence[KubeObject],
    *,
    actions: str = "allocate",
    arguments: Mapping[str, Any] | None = None,
) -> Outcome:
    """Run actions once on a cluster, with the plugin beside priority, gang and predicates; a fault of it is raised."""
    registry = builtin_registry(third_party=False)
    registry.plugins[plugin.name] = plugin
    beside = [PluginOption(name) for name in ("priority", "gang", "predicates")]
    tier = (*beside, PluginOption(plugin.name, arguments=arguments or {}))
    config = SchedulerConfig(tuple(actions.replace(" ", "").split(",")), (tier,))
    scheduler = Scheduler(MemoryCluster(objects), config, registry)
    result = scheduler.run_once()
    if result.error is not None:
        raise result.error
    session = scheduler.last_session
    is_open = session is not None and plugin.name in session.plugins
    assert is_open, f"plugin {plugin.name}.open failed; the log says how"
    asked = next((aside for aside in scheduler.mirror.quarantine if aside.is_asked), None)
    assert asked is None, str(asked)
    decisions = result.decisions
    placed = {made.pod: made.node for made in decisions if isinstance(made, Bind)}
    return Outcome(placed, [made.pod for made in decisions if isinstance(made, Evict)])


def _near_misses(plugin: type[Plugin]) -> str:
    """Methods that are called almost as an extension point."""
    own = [name for name in vars(plugin) if not name.startswith("_") and callable(getattr(plugin, name))]
    meant = {name: difflib.get_close_matches(name, [point.name for point in points.POINTS], 1) for name in own}
    return "".join(f"; it has {name}: did you mean {found[0]}?" for name, found in meant.items() if found)


def sample_cluster() -> list[KubeObject]:
    """A small cluster with a bit of everything that plugins look at."""
    taint = Taint(key="dedicated", value="ml", effect="NoSchedule")
    tolerates = Toleration(key="dedicated", operator="Exists")
    return [
        node("n1", gpu=8, labels={"zone": "a"}),
        node("n2", gpu=8, labels={"zone": "b"}, taints=[taint]),
        node("n3", gpu=4, unschedulable=True),
        node("n4", gpu=8, ready=False),
        queue("research", weight=3, capability={"gpu": 12}, deserved={"gpu": 8}),
        queue("ops"),
        queue("default"),
        priority_class("high", 1000),
        *gang("train", 3, gpu=2, cpu=8, queue="research", priority_class="high", created=100),
        *gang("serve", 2, minimum=1, gpu=1, queue="ops", created=50, min_resources={"gpu": 1}),
        pod_group("busy", minimum=1, queue="research", phase="Running", created=10),
        pod("busy-0", group="busy", gpu=4, node="n1", created=10),
        pod("busy-1", group="busy", gpu=2, node="n2", created=10, tolerations=[tolerates]),
        pod("lone", gpu=1, selector={"zone": "b"}, tolerations=[tolerates], created=70),
        pod("tiny", created=80),
        *_network(),
    ]


def _network() -> list[KubeObject]:
    """Two racks under one spine, and a gang with two sub-groups that each want a rack."""
    mesh = pod_group("mesh", minimum=4, queue="ops", created=60)
    hard = [NetworkTopology(mode="hard", highest_tier_allowed=tier) for tier in (1, 2)]
    part = SubGroupPolicy(name="part", match_label_keys=["part"], sub_group_size=2, network_topology=hard[0])
    spec = replace(mesh.spec, network_topology=hard[1], sub_group_policy=[part])
    pods = [pod(f"mesh-{k}", group="mesh", gpu=1, created=60, labels={"part": str(k // 2)}) for k in range(4)]
    return [
        _hyper_node("rack-1", 1, "Node", "n1", "n2"),
        _hyper_node("rack-2", 1, "Node", "n3", "n4"),
        _hyper_node("spine", 2, "HyperNode", "rack-1", "rack-2"),
        replace(mesh, spec=spec),
        *pods,
    ]


def _hyper_node(name: str, tier: int, kind: str, *members: str) -> HyperNode:
    listed = [Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=member))) for member in members]
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=tier, members=listed))


def _open(plugin: type[Plugin], arguments: Mapping[str, Any], objects: list[KubeObject]) -> Session:
    mirror = Mirror()
    for thing in objects:
        mirror.upsert(thing)
    config = SchedulerConfig(actions=(), tiers=((PluginOption(plugin.name, arguments=arguments),),))
    return Session(mirror.snapshot(), config, Registry.of([plugin], []), now=1000.0, seed=7)


def _ask_everything(session: Session, name: str) -> Answers:
    """Ask every implemented point about every row; answers are kept under names that do not depend on rows."""
    plugin, samples = session.plugins[name], _Samples(session)
    answers: Answers = {}
    for point in points.implemented(type(plugin)):
        asked = samples.questions(point)
        for label, about in asked:
            answer = getattr(plugin, point.name)(*about)
            problem = point.answer.problem(answer, about, session.snapshot)
            assert not problem, f"plugin {name}: {point.name}({label}): {problem}; the contract is {point.contract}"
            answers[f"{point.name} {label}"] = _by_name(session, point, answer)
        if point.answer is KEY:
            _check_comparable(name, point.name, [answers[f"{point.name} {label}"] for label, _ in asked])
    return answers


#: What is asked about, and how it is called in every session.
Sample = tuple[str, Any]


class _Samples:
    """Something to ask about for every parameter of an extension point, by the parameter's name."""

    def __init__(self, session: Session) -> None:
        snapshot = self._snapshot = session.snapshot
        tasks, subgroups = snapshot.tasks, snapshot.subgroups
        by_id = sorted(range(len(tasks)), key=lambda task: tasks.ids[task])
        pending = [task for task in by_id if task in set(snapshot.pending_tasks().tolist())]
        running = np.array([task for task in by_id if tasks.status[task] == TaskStatus.RUNNING], np.intp)
        jobs = sorted((record.id, row) for row, record in enumerate(snapshot.jobs.records) if snapshot.jobs.live[row])
        every_job = np.array([row for _, row in jobs], np.intp)
        queues = [(record.name, row) for row, record in enumerate(snapshot.queues.records)]
        waiting, nobody = np.array(pending, np.intp), np.empty(0, np.intp)
        capacity = snapshot.nodes.allocatable()
        self._of: dict[str, list[Sample]] = {
            "session": [("", session)],
            "now": [("now", session.now)],
            "job": jobs,
            "jobs": [("all", every_job)],
            "victims": [("all", every_job)],
            "queue": queues,
            "reclaimer": queues,
            "task": [(tasks.ids[task], task) for task in pending],
            "tasks": [("pending", waiting)],
            "cls": [(tasks.ids[task], int(tasks.cls[task])) for task in pending],
            "subgroup": [
                (f"{snapshot.jobs.records[job].id} {name}", row)
                for row, (job, name) in enumerate(zip(subgroups.job, subgroups.names, strict=True))
            ],
            "left": [("running", running)],
            "leaving": [("nobody", None), ("one", snapshot.request(int(running[0])))],
            "request": [("one", snapshot.request(pending[0]))],
            "kind": [(kind.name, kind) for kind in Eviction],
            "evictor": [
                (tasks.ids[task], Evictor(int(tasks.job[task]), np.array([task], np.intp))) for task in pending
            ],
            "candidates": [("running", running)],
            "scenario": [
                (kind.name, Scenario(kind, int(tasks.job[pending[0]]), waiting[:1], running, running, nobody))
                for kind in Eviction
            ],
            "purpose": [(purpose.name, purpose) for purpose in Purpose],
            "scope": [("root", 0)],
            "domain": [("root", 0)],
            "domains": [("all", snapshot.topology.inside(0))],
            "used": [("half", capacity // 2)],
            "allocatable": [("all", capacity)],
        }

    def questions(self, point: Point[..., Any, Any]) -> list[tuple[str, tuple[Any, ...]]]:
        """Every combination of what the parameters may be, with its name."""
        names = list(inspect.signature(point.method).parameters)[1:]
        return [
            (" ".join(label for label, _ in chosen), tuple(value for _, value in chosen))
            for chosen in itertools.product(*(self._values(point, name) for name in names))
            if self._belong_together({name: value for name, (_, value) in zip(names, chosen, strict=True)})
        ]

    def _values(self, point: Point[..., Any, Any], name: str) -> list[Sample]:
        if point is points.PROTECTED and name == "evictor":  # a job, as many victims are asked about for it
            return self._of["job"]
        if point is points.VICTIM_ORDERS and name == "left":
            left = [self._running_of(job) for job in self._of["jobs"][0][1].tolist()]
            return [("running", Pieces(np.concatenate(left), np.cumsum([0, *map(len, left)], dtype=np.intp)))]
        if name == "subgroup" and point.name.startswith("domain_"):
            return [("no sub-group", NO_ROW), *self._of[name]]
        return self._of[name]

    def _running_of(self, job: int) -> Rows:
        own = self._snapshot.tasks_of(job)
        running: Rows = own[self._snapshot.tasks.status[own] == TaskStatus.RUNNING]
        return running

    def _belong_together(self, about: dict[str, Any]) -> bool:
        """Sub-groups go with their own job, scenarios with their kind."""
        if "job" in about and about.get("subgroup", NO_ROW) != NO_ROW:
            return bool(self._snapshot.subgroups.job[about["subgroup"]] == about["job"])
        return "scenario" not in about or about["scenario"].kind is about["kind"]


def _check_comparable(plugin: str, point: str, keys: list[Answer]) -> None:
    try:
        sorted((key,) for key in keys)  # in a tuple, as the session compares them
    except TypeError as error:
        raise AssertionError(f"plugin {plugin}: {point}: keys cannot be compared: {error}") from error


def _by_name(session: Session, point: Point[..., Any, Any], answer: Answer) -> Answer:
    """Make an answer comparable between sessions whose task rows differ; nodes and domains stand alike in all."""
    ids = session.snapshot.tasks.ids
    match answer:
        case NodeScores():
            return None if answer.fixed is None else answer.fixed.tolist(), [list(term) for term in answer.terms]
        case Division():
            return sorted((ids[task], answer.names[part]) for task, part in enumerate(answer.parts.tolist()))
        case Departure():
            return [ids[task] for task in answer.tasks.tolist()], answer.why
        case np.ndarray():
            are_tasks = "rows" in point.answer.words and "domains" not in point.answer.words
            return sorted(ids[task] for task in answer.tolist()) if are_tasks else answer.tolist()
        case list() | tuple() if point.answer is not KEY:
            return len(answer) if point.answer is FILTERS else [_by_name(session, point, one) for one in answer]
    return answer


def fingerprint(snapshot: Snapshot, *, log: bool = True) -> str:
    """Return a digest of everything in a snapshot that can change: equal before and after means that nothing did.

    `log`: the touch log counts, as far as it is written; a dry run that was undone leaves its traces there alone.
    """
    digest = hashlib.sha256()
    if log:
        digest.update(snapshot.touch_log[: snapshot.touched].tobytes())
    _feed(digest, snapshot, "snapshot")
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: object, name: str) -> None:
    if name == "touch_log":
        return
    if isinstance(value, np.ndarray):
        digest.update(f"{name}:{value.dtype}:{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        for item in value:
            _feed(digest, item, name)
    elif is_dataclass(value):
        for part in fields(value):
            _feed(digest, getattr(value, part.name), part.name)
