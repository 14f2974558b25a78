"""Answers of plugins that a case asks for without running an action: scores, verdicts, orders, votes.

Each question is put to the session or to the plugins' own extension points, and answered in the form that the
case expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from conformance.cases import Body, Case
from conformance.results import Mismatch, Value
from conformance.scheduling import decode_all, open_session
from conformance.topology_questions import SCORED_NODES, TOPOLOGY_QUESTIONS
from muster.api import KubeObject, decode, names
from muster.framework import FITS, Eviction, Evictor, Registry, Session, points, reason_number
from muster.kernels.placement import score_node

#: Recorded scores are cut after eight places; what floats lose comes on top.
_TOLERANCE = 1e-8 + 1e-12
_EVERY_JOB = "jobEnqueueable(every job)"
_EVERY_JOB_ADMITTED = "jobEnqueueable(every job, after JobEnqueued was called for it)"
_FIRST_JOB = "jobEnqueueable(job1)"
_JOB_ORDER = "jobOrderFn(job1,job2): job1 before job2"
_VICTIMS = "preemptable victims"
_VICTIM_PODS = "preempteePods"
_STEPS = "steps"
_EVICTABLE = "unifiedEvictable with evictor job priority 500"

#: Session and expected value -> what the product says, in the same form.
Question = Callable[[Session, Value], Value]


def has_questions(case: Case) -> bool:
    """Whether the case asks plugins instead of running actions."""
    return not case.body["config"].get("actions")


def compare_answers(case: Case, registry: Registry) -> Iterator[Mismatch]:
    """Yield the answers that differ from what the case expects."""
    session = open_session(case, registry, _objects_of(case))
    for key, wanted in case.body["expect"].items():
        if key in QUESTIONS:
            got = QUESTIONS[key](session, wanted)
            if not _is_same(wanted, got):
                yield Mismatch(key, wanted, got)


def _objects_of(case: Case) -> list[KubeObject] | None:
    """Objects of cases that describe them elsewhere than in `objects`; None: they are there."""
    if jobs := case.body["config"].get("jobs"):
        return list(_bare_jobs(jobs))
    if _EVICTABLE in case.body["expect"]:
        return [*decode_all(case.body["objects"]), *_evictor()]
    if pods := case.body["expect"].get(_VICTIM_PODS):
        return [decode({"apiVersion": "v1", "kind": "Pod", **pod}) for pod in pods]
    return None


def _evictor() -> Iterator[KubeObject]:
    """The job that asks for victims, of priority 500."""
    yield decode({**_document("scheduling.k8s.io/v1", "PriorityClass", {"name": "evictor"}), "value": 500})
    group = _document("scheduling.volcano.sh/v1beta1", "PodGroup", {"name": "evictor", "namespace": "default"})
    yield decode({**group, "spec": {"queue": "q1", "priorityClassName": "evictor"}})


def _bare_jobs(jobs: Body) -> Iterator[KubeObject]:
    """Jobs given as a number of tasks and a waiting time; the time stands in the usual annotation."""
    yield decode(_document("scheduling.volcano.sh/v1beta1", "Queue", {"name": "default"}))
    for name, job in jobs.items():
        if not isinstance(job, dict):
            continue
        waiting = job.get("waitingTime")
        meta = {"name": name, "annotations": {names.SLA_WAITING_TIME: waiting} if waiting else {}}
        yield decode(_document("scheduling.volcano.sh/v1beta1", "PodGroup", meta))
        for number in range(job["tasks"]):
            pod = {"name": f"{name}-{number}", "annotations": {names.GROUP_NAME: name}}
            yield decode(_document("v1", "Pod", pod))


def _document(api_version: str, kind: str, metadata: Body) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _is_same(wanted: Value, got: Value) -> bool:
    if isinstance(wanted, dict) and isinstance(got, dict):
        return all(_is_same(wanted.get(key, 0), got.get(key, 0)) for key in {**wanted, **got})
    if isinstance(wanted, int | float) and isinstance(got, int | float):
        return abs(wanted - got) <= _TOLERANCE
    return bool(wanted == got)


# -- nodes -------------------------------------------------------------------------------------------------


def _task_row(session: Session, pod: str) -> int:
    return session.snapshot.tasks.ids.index(pod)


def _scores(session: Session, task: int) -> NDArray[np.float64]:
    """Sum of all plugins' scores for one more task like this one, on every node, fitting or not."""
    snapshot = session.snapshot
    cls = int(snapshot.tasks.cls[task])
    total = np.zeros(len(snapshot.nodes))
    for scores in session.node_scores(cls):
        if scores.fixed is not None:
            total += scores.fixed
        if len(scores.terms):
            terms = np.array(scores.terms, np.float64)
            for row in range(len(total)):
                total[row] += score_node(snapshot.nodes.state, snapshot.classes.requests[cls], terms, row)
    live = session.task_scores(task)
    return total if live is None else total + live


def _node_scores(session: Session, wanted: Value) -> Value:
    return {
        pod: dict(zip(session.snapshot.nodes.names, _scores(session, _task_row(session, pod)).tolist(), strict=True))
        for pod in wanted
    }


def _verdicts(session: Session, task: int) -> list[int]:
    verdicts = session.node_verdicts(int(session.snapshot.tasks.cls[task]))
    live = session.task_verdicts(task)
    if live is not None:
        verdicts = np.where(verdicts == FITS, live, verdicts)
    return [int(verdict) for verdict in verdicts]


def _status_code(verdict: int) -> int:
    """Kubernetes' codes: 0 fits, 2 unschedulable, 3 unschedulable whatever is evicted."""
    if verdict == FITS:
        return 0
    return 2 if reason_number(verdict).eviction_helps else 3


def _predicate_status(session: Session, wanted: Value) -> Value:
    got = {}
    for pod in wanted:
        codes = [_status_code(verdict) for verdict in _verdicts(session, _task_row(session, pod))]
        got[pod] = dict(zip(session.snapshot.nodes.names, codes, strict=True))
    return got


def _feasible_nodes(session: Session, _: Value) -> Value:
    """Nodes that every pending pod may go to, room aside."""
    snapshot = session.snapshot
    fits = np.ones(len(snapshot.nodes), np.bool_)
    for task in snapshot.pending_tasks().tolist():
        fits &= np.array(_verdicts(session, task)) == FITS
    return {name: True for name, good in zip(snapshot.nodes.names, fits.tolist(), strict=True) if good}


def _carry_out(session: Session, wanted: Value) -> Value:
    """Carry out steps in one session: "allocate POD on NODE", and "predicate POD on NODE: " with the answer."""
    snapshot, statement = session.snapshot, session.statement()
    got = []
    for step in wanted:
        what = step.partition(":")[0]
        verb, pod, _, name = what.split()
        task, node = _task_row(session, pod), snapshot.nodes.index[name]
        if verb == "allocate":
            statement.place(task, node)
            got.append(what)
        else:
            got.append(f"{what}: {'fits' if _verdicts(session, task)[node] == FITS else 'does not fit'}")
    return got


# -- jobs --------------------------------------------------------------------------------------------------


def _every_job_enqueueable(session: Session, _: Value) -> Value:
    jobs = np.flatnonzero(session.snapshot.jobs.live).tolist()
    return all(session.job_enqueueable(job) for job in jobs)


def _every_admitted_job_enqueueable(session: Session, _: Value) -> Value:
    """As Volcano's test asks: each job is reported as admitted and then asked about again."""
    answers = []
    for job in np.flatnonzero(session.snapshot.jobs.live).tolist():
        for tell in session.asked(points.JOB_ENQUEUED):
            tell(job)
        answers.append(session.job_enqueueable(job))
    return all(answers)


def _first_job_enqueueable(session: Session, _: Value) -> Value:
    return session.job_enqueueable(session.snapshot.jobs.index["default/job1"])


def _first_job_before_second(session: Session, _: Value) -> Value:
    """Compare the plugins' keys alone, without the session's own tie-breaks."""
    index = session.snapshot.jobs.index
    first, second = (
        [ask(index[name]) for ask in session.asked(points.JOB_ORDER)] for name in ("default/job1", "default/job2")
    )
    return bool(first < second)


def _preemptable_victims(session: Session, _: Value) -> Value:
    """Candidates that every plugin lets go, whoever asks for them."""
    tasks = session.snapshot.tasks
    victims = np.arange(len(tasks), dtype=np.intp)
    evictor = Evictor(int(tasks.job[0]), victims[:1])
    for ask in session.asked(points.EVICTABLE):
        answer = ask(Eviction.PREEMPT, evictor, victims)
        victims = victims if answer is None else answer
    return [tasks.ids[task] for task in victims.tolist()]


def _number_of_departures(session: Session, _: Value) -> Value:
    """Pods that plugins say have to leave."""
    return len({task for departure in session.must_leave() for task in departure.tasks.tolist()})


def _evictable_victims(session: Session, wanted: Value) -> Value:
    """Candidates that every plugin lets go, for gangs; no opinion is no objection."""
    tasks = session.snapshot.tasks
    evictor = session.snapshot.jobs.index["default/evictor"]
    kinds = {"GangPreempt": Eviction.PREEMPT, "GangReclaim": Eviction.RECLAIM}
    got = {}
    for name in wanted:
        victims = np.arange(len(tasks), dtype=np.intp)
        for ask in session.asked(points.EVICTABLE):
            answer = ask(kinds[name], Evictor(evictor, session.snapshot.tasks_of(evictor), breaks_gangs=True), victims)
            victims = victims if answer is None else answer
        got[name] = sorted(tasks.ids[task] for task in victims.tolist())
    return got


QUESTIONS: dict[str, Question] = {
    "nodeScores": _node_scores,
    "predicateStatus": _predicate_status,
    "feasibleNodes": _feasible_nodes,
    _STEPS: _carry_out,
    _EVERY_JOB: _every_job_enqueueable,
    _EVERY_JOB_ADMITTED: _every_admitted_job_enqueueable,
    _FIRST_JOB: _first_job_enqueueable,
    _JOB_ORDER: _first_job_before_second,
    _VICTIMS: _preemptable_victims,
    "victimsNum": _number_of_departures,
    _EVICTABLE: _evictable_victims,
    **TOPOLOGY_QUESTIONS,
}
#: Keys that are understood here; the last two hold input.
KNOWN_KEYS = frozenset({*QUESTIONS, _VICTIM_PODS, SCORED_NODES})
