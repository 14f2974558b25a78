"""Rounds of the real scheduler over a KAI cluster case: one action in one session, or all of them several times.

A round opens a session on the objects of the case (see `kai_objects`) and runs the actions; its outcome is read in
KAI's words. Between rounds nothing is simulated but KAI's own table: what was bound runs, what was evicted waits
again, promises are forgotten. A pause between rounds changes nothing, as ages are counted from each round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.cases import Body, Case
from conformance.kai_config import config_of
from conformance.kai_objects import Place, States, first_states, objects_of
from conformance.scheduling import NOW
from muster.framework import Registry, Session
from muster.snapshot import NO_ROW, Mirror, OperationKind, TaskStatus

#: What the scheduler tells the cluster, in KAI's words: calls that its tests count.
_CALLS = {
    OperationKind.ALLOCATE: "binds",
    OperationKind.EVICT: "evictions",
    OperationKind.PIPELINE: "pipelines",
    OperationKind.MOVE: "pipelines",
}
#: A task that a session has allocated is on its way to its node.
_STATES = {TaskStatus.ALLOCATED: "Binding"}
_WITHOUT_NODE = frozenset({"Pending", "Gated"})


@dataclass(frozen=True, slots=True)
class Round:
    """How things stand after a round."""

    session: Session
    states: States
    #: How many binds, evictions and pipelines there were.
    calls: dict[str, int]
    #: Whether actions were run, or the cluster was only looked at.
    acted: bool


def run_round(case: Case, registry: Registry, states: States, *, again: bool = False, act: bool = True) -> Round:
    """Open a session on the case with its tasks in the given states, and run the case's actions."""
    mirror = Mirror()
    for item in objects_of(case.body, states, again=again):
        mirror.upsert(item)
    session = Session(mirror.snapshot(), config_of(case), registry, now=NOW)
    for name in session.config.actions if act else ():
        registry.make_action(name, session.config.arguments_of(name)).run(session)
    return Round(session, _read_states(session), _count_calls(session), act)


def run_once(case: Case, registry: Registry) -> Round:
    """Run a case of a single action."""
    return run_round(case, registry, first_states(case.body))


def run_rounds(case: Case, registry: Registry) -> Iterator[Round]:
    """Run a case of several rounds: those until things should have settled, a look, and those that must not change.

    Rounds that repeat the one before are left out: the same input gives the same outcome.
    """
    plan, states = case.body["rounds"], first_states(case.body)
    for number in range(plan["untilMatch"]):
        done = run_round(case, registry, states, again=number > 0)
        yield done
        states = carry_over(case.body, done.states)
    yield run_round(case, registry, states, again=True, act=False)
    for _ in range(plan["afterMatch"]):
        done = run_round(case, registry, states, again=True)
        yield done
        before, states = states, carry_over(case.body, done.states)
        if states == before:
            return


def carry_over(body: Body, states: States) -> dict[str, Place]:
    """What the next round finds: bound tasks run, evicted ones wait again, promised places are forgotten."""
    staying = {task["name"] for job in body["jobs"] if job.get("staysReleasing") for task in job["tasks"]}
    return {name: _next(place, stays=name in staying) for name, place in states.items()}


def _next(place: Place, *, stays: bool) -> Place:
    match place.state:
        case "Binding":
            return Place("Running", place.node)
        case "Releasing" if not stays:
            return Place("Pending")
        case "Pipelined":
            return Place("Pending")
    return place


def _read_states(session: Session) -> dict[str, Place]:
    tasks, nodes = session.snapshot.tasks, session.snapshot.nodes
    states = {}
    for row, task_id in enumerate(tasks.ids):
        status = TaskStatus(int(tasks.status[row]))
        state = _STATES.get(status, status.label)
        node = int(tasks.node[row])
        place = "" if node == NO_ROW or state in _WITHOUT_NODE else nodes.names[node]
        states[task_id.rpartition("/")[2]] = Place(state, place)
    return states


def _count_calls(session: Session) -> dict[str, int]:
    calls = dict.fromkeys(_CALLS.values(), 0)
    for committed in session.committed:
        for operation in committed.operations:
            if operation.kind in _CALLS:
                calls[_CALLS[operation.kind]] += len(operation.tasks)
    return calls
