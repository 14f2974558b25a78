"""Committed operations become decisions: the only place where row numbers become names that leave the process.

Decisions keep the order in which actions committed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from muster.engine.evictions.simulation import VictimRecords
from muster.framework import Committed, JobVerdict, Session
from muster.framework.reasons import PROMISED
from muster.scheduler.job_statuses import verdict_text
from muster.snapshot import NO_ROW, Amounts, Operation, OperationKind, Snapshot, TaskStatus
from muster.snapshot.messages import Bind, Decision, Evict, Nominate, Ungate

_PROMISED = verdict_text(JobVerdict(PROMISED))


def decisions_of(session: Session) -> list[Decision]:
    """Turn what the session's actions committed into decisions, in order; stale nominations are taken back last."""
    heirs = _heirs(session)
    someone_leaves = bool((session.snapshot.tasks.status == TaskStatus.RELEASING).any())
    made = _last_promises(
        _without_taken_back(
            decision
            for committed in session.committed
            for operation in committed.operations
            if operation.kind is not OperationKind.PIPELINE or _is_promise(committed, someone_leaves=someone_leaves)
            for decision in _decisions(session.snapshot, committed, operation, heirs)
        )
    )
    promised = {decision.pod for decision in made}
    return [*made, *(lapsed for lapsed in stale_nominations(session) if lapsed.pod not in promised)]


def _heirs(session: Session) -> dict[int, str]:
    """Tasks that were to move and lost the new place in the same cycle, with the job that it was taken for."""
    tasks, records = session.snapshot.tasks, session.snapshot.jobs.records
    return {
        task: records[operation.beneficiary].id
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is OperationKind.RECALL and operation.beneficiary != NO_ROW
        for task in operation.tasks.tolist()
        if tasks.status[task] != TaskStatus.PIPELINED
    }


def _decisions(
    snapshot: Snapshot, committed: Committed, operation: Operation, heirs: Mapping[int, str]
) -> Iterator[Decision]:
    tasks = snapshot.tasks
    if operation.kind in (OperationKind.RELEASE, OperationKind.RECALL):
        return
    why = f"{committed.action}: {operation.note or _default_note(snapshot, operation)}"
    beneficiary = "" if operation.beneficiary == NO_ROW else snapshot.jobs.records[operation.beneficiary].id
    for task, row in zip(operation.tasks.tolist(), operation.nodes.tolist(), strict=True):
        pod, job = tasks.ids[task], snapshot.jobs.records[tasks.job[task]].id
        node = snapshot.nodes.names[row] if row != NO_ROW else ""
        if operation.kind is OperationKind.ALLOCATE:
            yield Bind(pod, node, job, why)
        elif operation.kind is OperationKind.EVICT:
            yield _evict(Evict(pod, node, job, beneficiary, why), committed, operation, task, heirs.get(task, ""))
        elif operation.kind is OperationKind.MOVE and tasks.pods[task].spec.node_name:
            continue  # it is evicted, and placed when it has been made anew
        elif tasks.nominated[task] != row:
            # A promise that stands already is not made again.
            yield Nominate(pod, node, job, why, beneficiary, _PROMISED)


def _evict(plain: Evict, committed: Committed, operation: Operation, task: int, heir: str) -> Evict:
    """Add the record of why this task was chosen, where the strategy kept one, and who has got its new place."""
    if not isinstance(operation.record, VictimRecords):
        return plain
    record = operation.record.of_task(task)
    why, facts = f"{committed.action}: {record.text}", dict(record.facts)
    if heir:
        why, facts = f"{why}; its new place goes to {heir}", facts | {"placeTakenBy": heir}
    return replace(plain, why=why, record=facts, reason=record.reason)


def _without_taken_back(decisions: Iterable[Decision]) -> list[Decision]:
    """Without binds of pods whose places a later action gave to others: nobody needs to hear of either."""
    made = list(decisions)
    bound = {decision.pod for decision in made if isinstance(decision, Bind)}
    taken_back = {decision.pod for decision in made if isinstance(decision, Evict) and decision.pod in bound}
    if not taken_back:
        return made
    return [decision for decision in made if decision.pod not in taken_back or not isinstance(decision, (Bind, Evict))]


def _last_promises(decisions: Iterable[Decision]) -> list[Decision]:
    """Of several promises to one pod only the last."""
    made = list(decisions)
    last = {decision.pod: at for at, decision in enumerate(made) if isinstance(decision, Nominate)}
    return [
        decision for at, decision in enumerate(made) if not isinstance(decision, Nominate) or last[decision.pod] == at
    ]


def ungates_of(session: Session) -> list[Ungate]:
    """The pods that may lose the gate which waits for their queue."""
    tasks, records = session.snapshot.tasks, session.snapshot.jobs.records
    return [Ungate(tasks.ids[task], records[int(tasks.job[task])].id) for task in session.ungated]


def stale_nominations(session: Session) -> Iterator[Nominate]:
    """Nominations to take back: their node cannot have the pod any more, and the pod found no other place."""
    tasks, jobs = session.snapshot.tasks, session.snapshot.jobs
    for task in (*session.snapshot.stale_nominations.tolist(), *_given_away(session)):
        if tasks.status[task] == TaskStatus.PENDING and tasks.job[task] != NO_ROW:
            job = jobs.records[int(tasks.job[task])].id
            yield Nominate(tasks.ids[task], "", job, "the nominated node will not have room for it")


def _given_away(session: Session) -> Iterator[int]:
    """Tasks that wait and whose promised room others have got in this cycle, also of their own gang."""
    tasks, nodes = session.snapshot.tasks, session.snapshot.nodes
    done = (operation for committed in session.committed for operation in committed.operations)
    released = {
        task
        for one in done
        if one.kind is OperationKind.RELEASE
        for task in one.tasks.tolist()
        if not tasks.reserved[task]
    }
    free: dict[int, Amounts] = {}
    for task in sorted(released, key=lambda task: (-int(tasks.priority[task]), tasks.ids[task])):
        if tasks.status[task] != TaskStatus.PENDING:
            continue
        node, request = int(tasks.nominated[task]), session.snapshot.classes.requests[tasks.cls[task], 0]
        left = free.get(node, nodes.future_idle(slice(node, node + 1))[0]) - request
        if (left[request > 0] < 0).any():
            yield task
        else:
            free[node] = left


def _is_promise(committed: Committed, *, someone_leaves: bool) -> bool:
    """Whether places that were set aside are kept for whom they are for, or were a plan of this cycle."""
    evicts = any(operation.kind is OperationKind.EVICT for operation in committed.operations)
    return evicts or (committed.promises and someone_leaves)


def _default_note(snapshot: Snapshot, operation: Operation) -> str:
    """Say what holds for every placement: how far the gang is."""
    jobs = snapshot.jobs
    job = int(snapshot.tasks.job[operation.tasks[0]])
    if operation.kind is OperationKind.PIPELINE:
        return "waits for evicted pods to leave the node"
    if operation.kind is OperationKind.EVICT:
        return "makes room"
    if jobs.task_count(job) == 1:
        return "best of the nodes that fit"
    where = _domain_of(snapshot, job)
    return f"{jobs.ready_count(job)} of {jobs.task_count(job)} tasks placed{where}, {int(jobs.min_member[job])} needed"


def _domain_of(snapshot: Snapshot, job: int) -> str:
    """Name the domain that holds a job with a topology constraint; nothing for other jobs."""
    record = snapshot.jobs.records[job]
    if record.topology is None and not record.sub_groups:
        return ""
    nodes = snapshot.tasks.node[snapshot.tasks_of(job)]
    domain = snapshot.topology.domain_of_nodes(nodes[nodes != NO_ROW])
    return f" in {snapshot.topology.names[domain]}"
