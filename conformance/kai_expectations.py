"""What a KAI cluster case asserts about its rounds, compared by the exact meaning of each key.

Called by the runner. A key that nothing here understands makes the case skipped, not passed. Random cases say how
many tasks of each job end in which state; which task and node it is, only `strict` looks at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from conformance.cases import Body, Case
from conformance.kai_cluster import Round, run_once, run_rounds
from conformance.kai_objects import GPU
from conformance.results import Mismatch, Value
from conformance.scheduling import NOW
from muster.framework import Registry
from muster.kernels.planes import ALLOCATABLE, RELEASING, USED

#: Whole numbers of a case in our base units.
_MILLI = 1000
_CALLS = {"maxBinds": "binds", "maxEvictions": "evictions", "maxPipelines": "pipelines"}
#: Keys of `expect`; what `neverChecked` holds is not asserted by KAI's own tests either.
_KNOWN = frozenset({"jobs", "tasks", "jobCounts", "mocks", "nodes", "neverChecked"})
#: Keys of an entry of `jobs` or `tasks` that assert nothing of their own, or nothing without GPU sharing.
_NO_ASSERTION = frozenset({"status", "node", "dontValidateGpuGroup", "gpuGroups"})


def unknown_kai_key(expect: Body) -> str:
    """Return the first key that is not understood, "" if there is none."""
    entries = (entry for kind in ("jobs", "tasks") for entry in (expect.get(kind) or {}).values())
    unknown = [key for key in expect if key not in _KNOWN]
    unknown += [key for entry in entries for key in entry if key not in _NO_ASSERTION and key not in ENTRY_READERS]
    return next(iter(unknown), "")


def compare_cluster(case: Case, registry: Registry, *, strict: bool) -> Iterator[Mismatch]:
    """Run the case and yield the expectations that do not hold; of several rounds, those of the first that fails."""
    if "rounds" not in case.body:
        yield from _compare(case, run_once(case, registry), strict=strict)
        return
    for number, done in enumerate(run_rounds(case, registry), start=1):
        settled = number > case.body["rounds"]["untilMatch"]
        found = list(_compare(case, done, strict=strict) if settled else _compare_calls(case, done))
        yield from (Mismatch(f"round {number}: {miss.key}", miss.expected, miss.got) for miss in found)
        if found:
            return


def _compare(case: Case, done: Round, *, strict: bool) -> Iterator[Mismatch]:
    expect = case.body["expect"]
    yield from _compare_calls(case, done)
    yield from _compare_states("jobs", _by_job(case.body), done)
    yield from _compare_states("tasks", expect.get("tasks") or {}, done)
    yield from _compare_entries(case.body, done)
    for key, reader in (("jobCounts", _job_counts), ("nodes", _gpus_of_nodes)):
        if key in expect and reader(case.body, done) != expect[key]:
            yield Mismatch(key, expect[key], reader(case.body, done))
    observed = _observed(case.body) if strict and case.is_random else {}
    got = {name: str(done.states[name]) for name in observed}
    if got != observed:
        yield Mismatch("observed", observed, got)


def _compare_calls(case: Case, done: Round) -> Iterator[Mismatch]:
    """Upper bounds on what one round tells the cluster."""
    for key, most in (case.body["expect"].get("mocks") or {}).items():
        count = done.calls[_CALLS[key]]
        if count > most:
            yield Mismatch(key, most, count)


def _by_job(body: Body) -> Body:
    """What is said of a job, said of each of its tasks."""
    tasks = {job["name"]: [task["name"] for task in job["tasks"]] for job in body["jobs"]}
    said = (body["expect"].get("jobs") or {}).items()
    return {task: entry for job, entry in said for task in tasks[job]}


def _compare_states(key: str, wanted: Body, done: Round) -> Iterator[Mismatch]:
    expected, got = {}, {}
    for name, entry in wanted.items():
        place, node = done.states[name], entry.get("node", "")
        if place.state != entry["status"] or (node and place.node != node):
            expected[name] = f"{entry['status']}@{node}" if node else entry["status"]
            got[name] = str(place)
    if expected:
        yield Mismatch(key, expected, got)


# -- numbers -------------------------------------------------------------------------------------------------


def _compare_entries(body: Body, done: Round) -> Iterator[Mismatch]:
    """Compare what is said of jobs and tasks beside their states."""
    job_of = {task["name"]: job["name"] for job in body["jobs"] for task in job["tasks"]}
    tasks_of = {job["name"]: [task["name"] for task in job["tasks"]] for job in body["jobs"]}
    for kind in ("jobs", "tasks"):
        for name, entry in (body["expect"].get(kind) or {}).items():
            job, tasks = (name, tasks_of[name]) if kind == "jobs" else (job_of[name], [name])
            for key in entry:
                if key in ENTRY_READERS and (got := ENTRY_READERS[key](entry[key], done, job, tasks)) != entry[key]:
                    yield Mismatch(f"{name}.{key}", entry[key], got)


#: Expected value, round, job and its tasks -> what the product says in the same form.
EntryReader = Callable[[Value, Round, str, list[str]], Value]


def _requested(resource: str, unit: int) -> EntryReader:
    def read(_: Value, done: Round, __: str, tasks: list[str]) -> Value:
        snapshot = done.session.snapshot
        column = snapshot.axis.index.get(resource)
        rows = [row for row, task in enumerate(snapshot.tasks.ids) if task.rpartition("/")[2] in tasks]
        total = 0 if column is None else int(snapshot.classes.requests[snapshot.tasks.cls[rows], 0, column].sum())
        return total / unit

    return read


def _job_row(done: Round, name: str) -> int:
    [row] = [row for row, record in enumerate(done.session.snapshot.jobs.records) if record.name == name]
    return row


def _last_start(wanted: Value, done: Round, job: str, _: list[str]) -> Value:
    """The number itself if the job has run for longer than that."""
    started = done.session.snapshot.jobs.records[_job_row(done, job)].started
    return wanted if started is not None and NOW - started > wanted else started


def _message(wanted: Value, done: Round, job: str, _: list[str]) -> Value:
    """Muster has words of its own for why a job waits; that it has some is what counts."""
    return wanted if not done.acted or _job_row(done, job) in done.session.verdicts else ""


ENTRY_READERS: dict[str, EntryReader] = {
    "gpusRequired": _requested(GPU, _MILLI),
    "milliCpuRequired": _requested("cpu", 1),
    "memoryRequired": _requested("memory", 1),
    "lastStartOlderThanSeconds": _last_start,
    "errorMessage": _message,
}


def _job_counts(body: Body, done: Round) -> Value:
    return {
        job["name"]: dict(Counter(done.states[task["name"]].state for task in job["tasks"])) for job in body["jobs"]
    }


def _gpus_of_nodes(body: Body, done: Round) -> Value:
    nodes, column = done.session.snapshot.nodes, done.session.snapshot.axis.index[GPU]
    got = {}
    for name in body["expect"]["nodes"]:
        state = nodes.state[:, nodes.index[name], column]
        idle, releasing = int(state[ALLOCATABLE] - state[USED]), int(state[RELEASING])
        got[name] = {"idleGpus": idle / _MILLI, "releasingGpus": releasing / _MILLI}
    return got


def _observed(body: Body) -> dict[str, str]:
    """Where KAI had every task in the end, if it was the same in all runs."""
    seen = body.get("observed") or {}
    found: dict[str, str] = seen.get("finalTasks") or seen.get("tasks") or seen.get("tasksSameInAllRuns") or {}
    return found
