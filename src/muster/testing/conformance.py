"""Checks that every plugin must pass, ours or a third party's.

    def test_my_plugin() -> None:
        check_plugin(MyPlugin)

The plugin is opened on a small cluster that has a bit of everything, and asked at every extension point that it
implements. Its answers must have the right shape and type, be the same when asked twice and when the objects
arrived in another order, and the snapshot must be untouched afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from muster.api import HyperNode, KubeObject, NetworkTopology, ObjectMeta, SubGroupPolicy, Taint, Toleration
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
from muster.framework import (
    Departure,
    Eviction,
    Evictor,
    NodeScores,
    Plugin,
    PluginOption,
    Purpose,
    Registry,
    Rejection,
    SchedulerConfig,
    Session,
    Vote,
)
from muster.framework.plugin import overrides
from muster.framework.reasons import all_reasons
from muster.snapshot import NO_ROW, Mirror, TaskStatus
from muster.testing.builders import gang, node, pod, pod_group, priority_class, queue
from muster.testing.fingerprint import fingerprint

#: Any: an answer of an extension point, whose type the point's check knows.
Answer = Any
Answers = dict[str, Answer]


def check_plugin(plugin: type[Plugin], arguments: Mapping[str, Any] | None = None) -> None:
    """Raise AssertionError, naming extension point and row, unless the plugin keeps its contract."""
    objects = sample_cluster()
    session = _open(plugin, arguments or {}, objects)
    before = fingerprint(session.snapshot)
    first = _ask_everything(session, plugin.name)
    assert first, f"plugin {plugin.name} implements no extension point"
    assert _same(first, _ask_everything(session, plugin.name)), f"plugin {plugin.name}: another answer when asked twice"
    session.close()
    assert fingerprint(session.snapshot) == before, f"plugin {plugin.name} changed the snapshot"
    other = _open(plugin, arguments or {}, list(reversed(objects)))
    turned = _ask_everything(other, plugin.name)
    assert _same(first, turned), f"plugin {plugin.name}: another answer when objects arrive in another order"


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
    plugin = session.plugins[name]
    answers: Answers = {}
    for point, (rows, check) in _questions(session).items():
        if not overrides(plugin, point):
            continue
        for label, arguments in rows:
            answer = getattr(plugin, point)(*arguments)
            problem = check(answer)
            assert not problem, f"plugin {name}: {point}({label}): {problem}"
            answers[f"{point} {label}"] = _domains(answer) if point in _DOMAIN_POINTS else _by_name(session, answer)
        if point.endswith("_order") and point != "task_order":
            _check_comparable(name, point, [answers[f"{point} {label}"] for label, _ in rows])
    return answers


#: Points whose answers are rows of domains, which are numbered alike in every snapshot.
_DOMAIN_POINTS = ("domain_gradients", "search_space")

Row = tuple[str, tuple[Any, ...]]
Check = Callable[[Answer], str]


def _questions(session: Session) -> dict[str, tuple[list[Row], Check]]:
    snapshot = session.snapshot
    jobs: list[Row] = [
        (record.id, (row,)) for row, record in enumerate(snapshot.jobs.records) if snapshot.jobs.live[row]
    ]
    queues: list[Row] = [(record.name, (row,)) for row, record in enumerate(snapshot.queues.records)]
    subgroups: list[Row] = [
        (f"{snapshot.jobs.records[snapshot.subgroups.job[row]].id} {name}", (row,))
        for row, name in enumerate(snapshot.subgroups.names)
    ]
    pending = sorted(snapshot.pending_tasks().tolist(), key=lambda task: snapshot.tasks.ids[task])
    tasks: list[Row] = [(snapshot.tasks.ids[task], (task,)) for task in pending]
    classes: list[Row] = [(snapshot.tasks.ids[task], (int(snapshot.tasks.cls[task]),)) for task in pending]
    # By name, so that a plugin that goes through them in order meets the same order in every snapshot.
    found = np.flatnonzero(snapshot.tasks.status == TaskStatus.RUNNING).tolist()
    running = np.array(sorted(found, key=lambda task: snapshot.tasks.ids[task]), np.int32)
    victims: list[Row] = [
        (f"{kind.name} {label}", (kind, Evictor(int(snapshot.tasks.job[task]), np.array([task], np.int32)), running))
        for kind in Eviction
        for label, (task,) in tasks
    ]
    every_job = np.array([row for _, (row,) in sorted(jobs)], np.int32)
    holders: list[Row] = [
        (f"{kind.name} {label}", (kind, row, every_job)) for kind in Eviction for label, (row,) in jobs
    ]
    all_pending = np.array(pending, np.int32)
    request = snapshot.request(pending[0])
    count, flag, key = _a_count, _a_bool, _anything
    domains = snapshot.topology.inside(0)
    placing: list[Row] = [(label, (row, NO_ROW)) for label, (row,) in jobs]
    placing += [(label, (int(snapshot.subgroups.job[row]), row)) for label, (row,) in subgroups]
    return {
        "job_order": (jobs, key),
        "queue_order": (queues, key),
        "subgroup_order": (subgroups, key),
        "victim_queue_order": ([(f"{a} {b}", (x, y)) for a, (x,) in queues for b, (y,) in queues], key),
        "task_order": ([("pending", (all_pending,))], lambda answer: _an_array(answer, np.int64, len(pending))),
        "job_valid": (
            jobs,
            lambda answer: (
                "" if answer is None or isinstance(answer, Rejection) else _not("a Rejection or None", answer)
            ),
        ),
        "job_ready": (jobs, count),
        "job_pipelined": (jobs, count),
        "subgroup_ready": (subgroups, count),
        "subgroup_pipelined": (subgroups, count),
        "job_starving": (jobs, flag),
        "job_enqueueable": (
            jobs,
            lambda answer: "" if isinstance(answer, Vote | Rejection) else _not("a Vote or a Rejection", answer),
        ),
        "node_mask": (classes, lambda answer: _verdicts(answer, len(snapshot.nodes))),
        "task_mask": (tasks, lambda answer: "" if answer is None else _verdicts(answer, len(snapshot.nodes))),
        "node_score": (classes, lambda answer: _scores(answer, session)),
        "task_score": (
            tasks,
            lambda answer: "" if answer is None else _an_array(answer, np.float64, len(snapshot.nodes)),
        ),
        "domain_gradients": (
            [(label, (*row, 0)) for label, row in placing],
            lambda answer: next((found for step in answer or () if (found := _rows(step, len(domains)))), ""),
        ),
        "domain_score": (
            [(label, (*row, domains)) for label, row in placing],
            lambda answer: _an_array(answer, np.float64, len(domains)),
        ),
        "search_space": (
            [(f"{label} {purpose.name}", (row, purpose)) for label, (row,) in jobs for purpose in Purpose],
            lambda answer: "" if answer is None else _rows(answer, len(domains)),
        ),
        "overused": (queues, flag),
        "queue_allocatable": ([(label, (row, request)) for label, (row,) in queues], count),
        "preemptive": ([(label, (row, all_pending)) for label, (row,) in queues], flag),
        "protected": (holders, lambda answer: _a_mask(answer, len(jobs))),
        "evictable": (victims, lambda answer: _a_choice(answer, running)),
        "must_leave": ([("everybody", ())], lambda answer: _departures(answer, running)),
    }


# -- what answers must look like: each check returns what is wrong, "" if nothing is ------------------------------


def _not(expected: str, answer: Answer) -> str:
    return f"expected {expected}, got {answer!r}"


def _anything(_answer: Answer) -> str:
    return ""


def _a_count(answer: Answer) -> str:
    is_count = isinstance(answer, int | np.integer) and not isinstance(answer, bool) and answer >= 0
    return "" if is_count else _not("a number of zero or more", answer)


def _a_bool(answer: Answer) -> str:
    return "" if isinstance(answer, bool | np.bool_) else _not("True or False", answer)


def _an_array(answer: Answer, dtype: type, length: int) -> str:
    if not isinstance(answer, np.ndarray) or answer.dtype != dtype or answer.shape != (length,):
        return _not(f"an array of {length} {dtype.__name__}", answer)
    return "" if np.isfinite(answer).all() else "expected finite numbers"


def _a_mask(answer: Answer, length: int) -> str:
    is_mask = isinstance(answer, np.ndarray) and answer.dtype == np.bool_ and answer.shape == (length,)
    return "" if is_mask else _not(f"an array of {length} truth values", answer)


def _verdicts(answer: Answer, n_nodes: int) -> str:
    if problem := _an_array(answer, np.int16, n_nodes):
        return problem
    known = {0, *(reason.number for reason in all_reasons())}
    return "" if set(answer.tolist()) <= known else "contains numbers that no declared reason has"


def _scores(answer: Answer, session: Session) -> str:
    if not isinstance(answer, NodeScores):
        return _not("NodeScores", answer)
    width = 2 + len(session.snapshot.axis)
    if any(len(term) != width for term in answer.terms):
        return f"expected terms of {width} numbers: kind, weight, and one per resource"
    return "" if answer.fixed is None else _an_array(answer.fixed, np.float64, len(session.snapshot.nodes))


def _rows(answer: Answer, count: int) -> str:
    if not isinstance(answer, np.ndarray) or answer.dtype != np.int32:
        return _not("an array of int32 rows", answer)
    return "" if set(answer.tolist()) <= set(range(count)) else f"expected rows below {count}, got {answer!r}"


def _a_choice(answer: Answer, candidates: Answer) -> str:
    if answer is None or set(np.asarray(answer).tolist()) <= set(candidates.tolist()):
        return ""
    return "names tasks that were not among the candidates"


def _departures(answer: Answer, running: Answer) -> str:
    if not all(isinstance(one, Departure) for one in answer):
        return _not("Departures", answer)
    return next((problem for one in answer if (problem := _a_choice(one.tasks, running))), "")


def _check_comparable(plugin: str, point: str, keys: list[Answer]) -> None:
    try:
        sorted((key,) for key in keys)  # in a tuple, as the session compares them
    except TypeError as error:
        raise AssertionError(f"plugin {plugin}: {point}: keys cannot be compared: {error}") from error


# -- comparing sessions whose rows differ ---------------------------------------------------------------------------


def _by_name(session: Session, answer: Answer) -> Answer:
    """Make an answer comparable: node rows are sorted by name in every snapshot, so arrays stand as they are."""
    if isinstance(answer, NodeScores):
        fixed = None if answer.fixed is None else answer.fixed.tolist()
        return fixed, [list(term) for term in answer.terms]
    if isinstance(answer, Departure):
        return [session.snapshot.tasks.ids[task] for task in answer.tasks.tolist()], answer.why
    if isinstance(answer, list | tuple) and any(isinstance(one, Departure) for one in answer):
        return [_by_name(session, one) for one in answer]
    if isinstance(answer, np.ndarray):
        if answer.dtype == np.int32:
            return sorted(session.snapshot.tasks.ids[task] for task in answer.tolist())
        return answer.tolist()
    return answer


def _domains(answer: Answer) -> Answer:
    if answer is None or isinstance(answer, np.ndarray):
        return None if answer is None else answer.tolist()
    return [step.tolist() for step in answer]


def _same(one: Answers, other: Answers) -> bool:
    return one == other
