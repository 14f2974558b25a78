"""All queues as numbers: what each was promised, may have, holds and asks for; who borrows; who waits, and why.

Reads a session after its actions have run, and changes nothing. Amounts are in base units; everything is sorted by
name, so two overviews of equal sessions are equal.

Who borrows from whom: the part of a queue's use above its quota that idle quotas of siblings cover. What nobody was
promised goes first, to the largest borrower; then idle quotas are lent, the largest first. Ties go by name. So the
amounts are as small as they can be: a queue borrows from a sibling only what the sibling could not have any more if it
asked for its quota now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.api import format_amount
from muster.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from muster.explain.model import JobState, Json, amounts_json
from muster.explain.why import Whys
from muster.framework import Reason, Session, points, reason_of
from muster.snapshot import GATED, NO_ROW, UNLIMITED, Amounts, QueueRecord, TaskStatus


@dataclass(frozen=True, slots=True)
class Loan:
    """One queue holds what another was promised and does not use."""

    borrower: str
    lender: str
    resource: str
    amount: int

    def to_json(self) -> Json:
        amount = format_amount(self.resource, self.amount)
        return {"borrower": self.borrower, "lender": self.lender, "resource": self.resource, "amount": amount}


@dataclass(frozen=True, slots=True)
class QueueAmounts:
    """One resource of a queue, with everything below it. None: not set, or nobody says."""

    #: Promised to the queue; `UNLIMITED`: whatever it asks for.
    quota: int | None
    limit: int | None
    #: Its part of what is left over.
    weight: float
    fair_share: int | None
    held: int
    #: Held, and asked for by pending tasks.
    asked: int

    @property
    def over(self) -> int:
        """How much more it holds than its fair share; negative: less."""
        return 0 if self.fair_share is None else self.held - self.fair_share

    def to_json(self, resource: str) -> Json:
        return {
            "quota": _quantity(resource, self.quota),
            "limit": _quantity(resource, self.limit),
            "weight": self.weight,
            "fairShare": _quantity(resource, self.fair_share),
            "held": format_amount(resource, self.held),
            "asked": format_amount(resource, self.asked),
        }


def _quantity(name: str, amount: int | None) -> str | None:
    if amount is None:
        return None
    return "unlimited" if amount >= UNLIMITED else format_amount(name, amount)


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue and the queues below it."""

    name: str
    parent: str
    priority: int
    is_open: bool
    reclaimable: bool
    preempt_min_runtime: float | None
    reclaim_min_runtime: float | None
    resources: Mapping[str, QueueAmounts]
    #: Of the queue itself: jobs that have their minimum, those that wait for it, and pods of either that wait.
    running: int
    waiting: int
    pending_pods: int
    #: Why pods wait: the reason, and of how many jobs; the most frequent first.
    reasons: tuple[tuple[Reason, int], ...]
    #: What is wrong with its place in the tree; "" if nothing is.
    fault: str = ""
    inner: tuple[QueueView, ...] = ()

    def walk(self) -> Iterator[QueueView]:
        """Yield the queue and all below it, parents first."""
        yield self
        for queue in self.inner:
            yield from queue.walk()

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "parent": self.parent,
            "priority": self.priority,
            "open": self.is_open,
            "reclaimable": self.reclaimable,
            "preemptMinRuntime": self.preempt_min_runtime,
            "reclaimMinRuntime": self.reclaim_min_runtime,
            "fault": self.fault,
            "jobs": {"running": self.running, "waiting": self.waiting, "pendingPods": self.pending_pods},
            "reasons": [{"code": reason.code, "text": reason.text, "jobs": n} for reason, n in self.reasons],
            "resources": {name: part.to_json(name) for name, part in self.resources.items() if name != "pods"},
        }


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """All queues: the top ones, those that hang in the air, and queues that jobs name but nobody made."""

    total: Mapping[str, int]
    #: Of that, what pods of other schedulers hold: it is not shared out.
    held_by_others: Mapping[str, int]
    #: And what lies on nodes whose taints no pod of this scheduler tolerates.
    behind_taints: Mapping[str, int]
    top: tuple[QueueView, ...]
    broken: tuple[QueueView, ...]
    #: Name of the queue, and how many jobs wait for it.
    missing: tuple[tuple[str, int], ...]
    loans: tuple[Loan, ...]

    def walk(self) -> Iterator[QueueView]:
        """Yield every queue, parents first, the broken ones at the end."""
        for queue in (*self.top, *self.broken):
            yield from queue.walk()

    def to_json(self) -> Json:
        """Return the documented JSON form."""
        return {
            "total": amounts_json(self.total),
            "heldByOthers": amounts_json(self.held_by_others),
            "behindTaints": amounts_json(self.behind_taints),
            "queues": [queue.to_json() for queue in self.walk()],
            "loans": [loan.to_json() for loan in self.loans],
            "missing": [{"queue": name, "jobs": n} for name, n in self.missing],
        }


def queue_loans(session: Session) -> tuple[Loan, ...]:
    """Who borrows from whom, without looking at jobs: what can be asked for after every cycle."""
    reader = _Reader(session)
    table = session.snapshot.queues
    tops = [row for row in range(len(table)) if row not in table.broken and table.parent[row] == NO_ROW]
    return tuple(reader.loans(tops, None))


def queue_overview(session: Session) -> QueueOverview:
    """Describe the queues of a session."""
    reader = _Reader(session)
    reader.count_jobs()
    table = session.snapshot.queues
    rows = [row for row in range(len(table)) if row not in table.broken]
    tops = [row for row in rows if table.parent[row] == NO_ROW and not reader.is_idle_standard(row)]
    return QueueOverview(
        total=session.snapshot.axis.amounts(session.total),
        held_by_others=session.snapshot.axis.amounts(session.snapshot.held_by_others()),
        behind_taints=session.snapshot.axis.amounts(session.behind_taints),
        top=tuple(reader.view(row) for row in tops),
        broken=tuple(reader.view(row) for row in sorted(table.broken)),
        missing=tuple(sorted(reader.missing.items())),
        loans=tuple(reader.loans(tops, None)),
    )


@dataclass(slots=True)
class _Jobs:
    """Jobs of one queue."""

    running: int = 0
    waiting: int = 0
    pending_pods: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class _Reader:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._table = session.snapshot.queues
        self._axis = session.snapshot.axis
        self._inner: dict[int, list[int]] = {}
        for row, parent in enumerate(self._table.parent.tolist()):
            if parent != NO_ROW and row not in self._table.broken:
                self._inner.setdefault(parent, []).append(row)
        self._asked = self._table.tree_allocated
        self._jobs: dict[int, _Jobs] = {}
        #: Queues that do not exist, and how many jobs name them.
        self.missing: Counter[str] = Counter()

    def is_idle_standard(self, row: int) -> bool:
        """Is it a queue that every installation has, and that nobody uses?"""
        name = self._table.records[row].name
        unused = row not in self._inner and row not in self._jobs
        return name in (ROOT_QUEUE, DEFAULT_QUEUE) and unused

    def view(self, row: int) -> QueueView:
        record = self._table.records[row]
        jobs = self._jobs.get(row, _Jobs())
        fault = self._table.broken.get(row, "")
        counted = sorted(jobs.reasons.items(), key=lambda known: (-known[1], known[0]))
        return QueueView(
            name=record.name,
            parent=record.parent,
            priority=record.priority,
            is_open=record.open,
            reclaimable=record.reclaimable,
            preempt_min_runtime=record.preempt_min_runtime,
            reclaim_min_runtime=record.reclaim_min_runtime,
            resources=self._resources(row, record),
            running=jobs.running,
            waiting=jobs.waiting,
            pending_pods=jobs.pending_pods,
            reasons=tuple((reason_of(code), n) for code, n in counted),
            fault=fault.removeprefix(f"queue {record.name}: "),
            inner=() if fault else tuple(self.view(child) for child in self._inner.get(row, ())),
        )

    def loans(self, siblings: list[int], parent: int | None) -> Iterator[Loan]:
        """Loans among siblings, resource by resource, then those further down."""
        for column, name in enumerate(self._axis.names):
            if name != "pods":
                budget = self._budget(parent, column, name)
                accounts = [self._account(row, column, name, budget) for row in siblings]
                yield from find_loans(name, budget, accounts)
        for row in siblings:
            yield from self.loans(self._inner.get(row, []), row)

    def _budget(self, parent: int | None, column: int, name: str) -> int:
        """What siblings have between them: the cluster, or what their parent was promised or got beyond that."""
        total = int(self._session.shared_total[column])
        if parent is None:
            return total
        promised = min(total, _quota(self._table.records[parent], name) or 0)
        return max(promised, int(self._table.tree_allocated[parent, column]))

    def _account(self, row: int, column: int, name: str, budget: int) -> Account:
        record = self._table.records[row]
        quota = _quota(record, name) or 0
        held = int(self._table.tree_allocated[row, column])
        return Account(record.name, budget if quota >= UNLIMITED else quota, held)

    def _resources(self, row: int, record: QueueRecord) -> dict[str, QueueAmounts]:
        shares = self._shares(row)
        weights = record.over_quota_weights
        return {
            name: QueueAmounts(
                quota=_quota(record, name),
                limit=record.capability.get(name),
                weight=float(record.weight) if weights is None else float(weights.get(name, 0.0)),
                fair_share=None if shares is None or shares[column] >= UNLIMITED else int(shares[column]),
                held=int(self._table.tree_allocated[row, column]),
                asked=int(self._asked[row, column]),
            )
            for column, name in enumerate(self._axis.names)
        }

    def _shares(self, row: int) -> Amounts | None:
        """The fair share; for the parent of a tree that the plugin does not look at, what is below it."""
        own = fair_share(self._session, row)
        inner = self._inner.get(row)
        if own is None or own.any() or not inner:
            return own
        below = [shares for child in inner if (shares := self._shares(child)) is not None]
        total: Amounts = np.minimum(sum(below, start=np.zeros_like(own)), UNLIMITED)
        return total

    # -- jobs ------------------------------------------------------------------------------------------------

    def count_jobs(self) -> None:
        """Look at all jobs; before `view`."""
        session = self._session
        self._asked = self._table.tree_allocated + _pending(session)
        jobs, tasks = session.snapshot.jobs, session.snapshot.tasks
        pending = np.flatnonzero(tasks.status == TaskStatus.PENDING)
        waits = Counter(tasks.job[pending[tasks.job[pending] != NO_ROW]].tolist())
        whys = Whys(session)
        for job in np.flatnonzero(jobs.live).tolist():
            is_waiting = session.job_deficit(job) > 0 and (
                job in waits
                # One that was not let in has no pods yet, and waits all the same.
                or (not jobs.allocated_count(job) and whys.state(job) is JobState.WAITING)
            )
            if not is_waiting and not jobs.allocated_count(job):
                continue
            queue = int(jobs.queue[job])
            if queue == NO_ROW:
                self.missing[jobs.records[job].queue] += 1
                continue
            books = self._jobs.setdefault(queue, _Jobs())
            books.running += not is_waiting
            books.waiting += is_waiting
            books.pending_pods += waits[job]
            if job in waits or is_waiting:
                books.reasons[whys.of(job).code] += 1


def _quota(record: QueueRecord, name: str) -> int | None:
    """What a queue was promised of a resource: the larger of deserved and guarantee; None where it has neither."""
    return max((said[name] for said in (record.deserved, record.guarantee) if name in said), default=None)


def _pending(session: Session) -> Amounts:
    """int64[queues, resources]: what pending tasks ask for, summed up the tree; gated ones ask for nothing yet."""
    snapshot = session.snapshot
    tasks, queues = snapshot.tasks, snapshot.queues
    rows = np.flatnonzero((tasks.status == TaskStatus.PENDING) & ((tasks.flags & GATED) == 0) & (tasks.job != NO_ROW))
    rows = rows[snapshot.jobs.queue[tasks.job[rows]] != NO_ROW]
    own: Amounts = np.zeros_like(queues.tree_allocated)
    np.add.at(own, snapshot.jobs.queue[tasks.job[rows]], snapshot.classes.requests[tasks.cls[rows], 0])
    total: Amounts = np.zeros_like(own)
    for row, path in enumerate(queues.paths):
        total[path] += own[row]
    return total


def fair_share(session: Session, queue: int) -> Amounts | None:
    """The first plugin's word on what a queue may have now; else on what it deserves."""
    fair = session.ask(points.QUEUE_FAIR_SHARE, queue)
    return session.ask(points.QUEUE_DESERVED, queue) if fair is None else fair


@dataclass(frozen=True, slots=True)
class Account:
    """One queue among its siblings, for one resource."""

    name: str
    quota: int
    held: int


def find_loans(resource: str, budget: int, siblings: Sequence[Account]) -> list[Loan]:
    """Return the loans among siblings that have `budget` to share."""
    borrowers = _sorted({known.name: known.held - known.quota for known in siblings})
    lenders = _sorted({known.name: known.quota - known.held for known in siblings})
    unpromised = max(0, budget - sum(known.quota for known in siblings))
    loans = []
    for borrower, over in borrowers.items():
        free = min(over, unpromised)
        unpromised -= free
        missing = over - free
        for lender in lenders:
            amount = min(missing, lenders[lender])
            if amount:
                lenders[lender] -= amount
                missing -= amount
                loans.append(Loan(borrower, lender, resource, amount))
    return loans


def _sorted(amounts: dict[str, int]) -> dict[str, int]:
    """Positive amounts, largest first."""
    ordered = sorted(amounts.items(), key=lambda known: (-known[1], known[0]))
    return {name: amount for name, amount in ordered if amount > 0}
