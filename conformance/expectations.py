"""What a Volcano cluster case asserts about a cycle, compared by the exact meaning of each key.

A key that nothing here understands makes the case skipped, not passed. Keys about answers of plugins are in
`questions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.cases import Body, Case
from conformance.results import Mismatch, Value
from conformance.scheduling import Cycle
from conformance.topology_questions import binds_per_domain
from muster.snapshot import OperationKind

#: Expected value and cycle -> what the product says in the same form; equal: the expectation holds.
Reader = Callable[[Value, Cycle], Value]

#: Keys that say how to read others, or assert nothing about Muster.
_NO_ASSERTION = frozenset(
    {
        "minimalBindCheck",
        "expectedAllocated (NOT really asserted by the Go test)",
        # That a nominated domain is cleared after use; Muster keeps none from one cycle to the next.
        "nominatedHyperNodeAfterwards",
    }
)
_EXACT_ONLY = frozenset({"binds", "evicted"})


def unknown_key(expect: Body, known: frozenset[str]) -> str:
    """Return the first key that neither this module nor the caller understands, "" if there is none."""
    return next((key for key in expect if not (key in READERS or key in _NO_ASSERTION or key in known)), "")


def compare_cycle(case: Case, cycle: Cycle, *, strict: bool) -> Iterator[Mismatch]:
    """Yield the expectations on the cycle that do not hold.

    Cases that count per job (`jobs`) name exact pods and nodes for information: only `strict` looks at them.
    """
    expect = case.body["expect"]
    for key, wanted in expect.items():
        if key not in READERS or not _is_asserted(key, expect, strict=strict):
            continue
        got = READERS[key](wanted, cycle)
        if got != _normal(key, wanted):
            yield Mismatch(key, _normal(key, wanted), got)


def _is_asserted(key: str, expect: Body, *, strict: bool) -> bool:
    if key == "binds" and expect.get("minimalBindCheck"):
        return False
    return strict or key not in _EXACT_ONLY or "jobs" not in expect


def _normal(key: str, wanted: Value) -> Value:
    """Bring an expected value into the form that readers give."""
    if key == "evicted":
        return sorted(wanted)
    if key == "pipelined":
        return {job: "pipelined, all on " + " ".join(sorted(nodes)) for job, nodes in wanted.items()}
    return wanted


def _pipelined(wanted: Value, cycle: Cycle) -> Value:
    """At least one task of the job, and all of them on the named nodes."""
    got = {}
    for job, nodes in wanted.items():
        places = cycle.pipelined.get(job, ())
        if places and set(places) <= set(nodes):
            got[job] = "pipelined, all on " + " ".join(sorted(nodes))
        else:
            got[job] = "on " + " ".join(sorted(places)) if places else "none pipelined"
    return got


def _status_numbers(wanted: Value, cycle: Cycle) -> Value:
    return {
        job: {status: cycle.statuses.get(job, {}).get(status, 0) for status in numbers}
        for job, numbers in wanted.items()
    }


def _phases(wanted: Value, cycle: Cycle) -> Value:
    phases = cycle.phases()
    return {job: phases.get(job) for job in wanted}


def _job_numbers(wanted: Value, cycle: Cycle) -> Value:
    """Bound, pipelined and evicted pods of every job."""
    snapshot = cycle.session.snapshot
    got = {job: {"bound": 0, "pipelined": len(cycle.pipelined.get(job, ())), "evicted": 0} for job in wanted}
    for committed in cycle.session.committed:
        for operation in committed.operations:
            if operation.kind not in (OperationKind.ALLOCATE, OperationKind.EVICT):
                continue
            what = "bound" if operation.kind is OperationKind.ALLOCATE else "evicted"
            for task in operation.tasks.tolist():
                job = snapshot.jobs.records[int(snapshot.tasks.job[task])].id
                got.setdefault(job, {"bound": 0, "pipelined": 0, "evicted": 0})[what] += 1
    return got


def _allocated(wanted: Value, cycle: Cycle) -> Value:
    """What each job holds, in Volcano's words; the case names jobs without their namespace."""
    snapshot = cycle.session.snapshot
    got = {}
    for row, record in enumerate(snapshot.jobs.records):
        if record.name in wanted:
            held = snapshot.axis.amounts(snapshot.jobs.allocated[row])
            got[record.name] = {
                "MilliCPU": held.pop("cpu", 0),
                "Memory": held.pop("memory", 0),
                "MaxTaskNum": 0,
                "ScalarResources": held,
            }
    return got


READERS: dict[str, Reader] = {
    "binds": lambda _, cycle: dict(cycle.binds),
    "bindsNum": lambda _, cycle: len(cycle.binds),
    "evicted": lambda _, cycle: list(cycle.evicted),
    "evictNum": lambda _, cycle: len(cycle.evicted),
    "pipelined": _pipelined,
    "podGroupPhases": _phases,
    "taskStatusNums": _status_numbers,
    "jobs": _job_numbers,
    "observedAllocated": _allocated,
    "bindNumsInHyperNode": binds_per_domain,
}
