"""Fair shares for a tree of queues: quotas are guaranteed, the rest is divided by priority and weight.

The shares are made once in a session, of what was held and wanted when it opened (`tree`), when somebody first asks
for them. Queues take turns by them (`rules`), are kept within limits and quotas (`tree`), and take back from queues
that have more (`rules`). What queues hold is read from the snapshot, except while victims are looked for: then
validators compare with what it was when the search began, as the dry run has taken the victims already.
Differences from KAI: fair shares never exceed demand; moved victims are charged unless `chargeMovedVictims` is off; a
queue gives nothing for having much of what is not asked for, unless `countUnrequested` is on.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec
import numpy as np

from muster.api import UserError, format_amount
from muster.engine.gangs import next_tasks, requests_of
from muster.framework.plugin import (
    Arguments,
    Eviction,
    Evictor,
    OrderKey,
    Plugin,
    Rejection,
    Scenario,
    ScenarioFilter,
    UsageHistory,
    Vote,
)
from muster.framework.reasons import OVER_FAIR_SHARE, OVER_QUOTA, QUEUE_CLOSED, QUEUE_FULL, QUEUE_MISSING, Reason
from muster.plugins.queues.fairshare.rules import Charges, QueueTurns, ReclaimRules, gang_units, victim_units
from muster.plugins.queues.fairshare.tree import Excess, FairShares, fair_shares, layout_of, past_usage
from muster.plugins.queues.queue_books import QueueBooks
from muster.snapshot import GATED, NO_ROW, Amounts, Rows, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.framework.session import Session


#: Members of an enum are slow to look up, and these are asked for with every turn of a queue.
_PENDING, _RELEASING = int(TaskStatus.PENDING), int(TaskStatus.RELEASING)


class FairShareArgs(Arguments, frozen=True, kw_only=True):
    """Arguments of the fairshare plugin."""

    multiplier: Annotated[
        float,
        msgspec.Meta(
            description="How much less beyond its fair share than its sibling a queue must be to take from it, once it "
            "is beyond at all: 1.2 means by a fifth. At least 1."
        ),
    ] = msgspec.field(default=1.0, name="reclaimerUtilizationMultiplier")
    charge_moved: Annotated[
        bool,
        msgspec.Meta(
            description="Whether victims that find another node count as taken from their queue; false is KAI's way."
        ),
    ] = msgspec.field(default=True, name="chargeMovedVictims")
    count_unrequested: Annotated[
        bool,
        msgspec.Meta(
            description="Whether a queue gives also for having too much of a resource that the job which takes does "
            "not ask for; true is KAI's way."
        ),
    ] = msgspec.field(default=False, name="countUnrequested")
    k: Annotated[
        float,
        msgspec.Meta(
            description="How strongly what a queue has had in the past counts against its weight; 0: not at all. "
            "Without a record of the past it has no effect."
        ),
    ] = msgspec.field(default=1.0, name="kValue")
    window: Annotated[
        float, msgspec.Meta(description="For how many seconds back what queues have had counts; 0: no record is kept.")
    ] = msgspec.field(default=0.0, name="windowSeconds")
    half_life: Annotated[
        float,
        msgspec.Meta(description="After how many seconds what a queue has had counts half; 0: it all counts alike."),
    ] = msgspec.field(default=0.0, name="halfLifeSeconds")


#: So often shares that move by themselves are looked at while a window, or a half-life, passes.
_LOOKS: Final = 32
#: What a queue has had and what it holds are the same, in parts of the cluster.
_NO_MORE_CHANGE: Final = 1e-6


class FairShare(Plugin):
    """Queues with quotas, limits and weights, as a tree."""

    name = "fairshare"
    summary = "Guarantee quotas, divide the rest by weight down the queue tree, and let queues take back their share."
    Args: ClassVar[type[Arguments]] = FairShareArgs
    victim_kinds = frozenset({Eviction.RECLAIM})
    protects = True
    steady_victims = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, FairShareArgs)
        if not 1 <= arguments.multiplier < math.inf:
            raise _refuse("reclaimerUtilizationMultiplier", "1 or more, such as 1.2", arguments.multiplier)
        spans = {"kValue": arguments.k, "windowSeconds": arguments.window, "halfLifeSeconds": arguments.half_life}
        for name, given in spans.items():
            if not 0 <= given < math.inf:
                raise _refuse(name, "0 or more", given)
        self._arguments = arguments
        if arguments.window:
            self.history = UsageHistory(arguments.window, arguments.half_life or None)

    def open(self, session: Session) -> None:
        super().open(session)
        snapshot = session.snapshot
        self._queues = snapshot.queues
        self._jobs = snapshot.jobs
        self._layout = layout_of(snapshot)
        #: Shares are divided when somebody first asks for them, by what was held and wanted at the beginning.
        self._held_by_jobs = snapshot.jobs.allocated.copy()
        if self.history is not None and self._arguments.k and snapshot.jobs.pending.any():
            self._wake_when_shares_move(session, self.history)
        self._nothing = [0] * len(snapshot.axis)
        #: By job, as of the states of its tasks; by class, what one task asks for. Both are asked for all the time.
        self._next_requests: dict[int, tuple[bytes, Sequence[int]]] = {}
        self._requests: dict[int, list[int]] = {}
        self._rejections: dict[tuple[Reason, Excess], Rejection] = {}
        self._held_at_start: Amounts = snapshot.queues.tree_allocated
        self._firm_at_start: Amounts = snapshot.queues.tree_firm

    @cached_property
    def shares(self) -> FairShares:
        """Every queue's entitlements and its fair share."""
        session = self.session
        return fair_shares(session, self._arguments.k if session.usage else 0.0, held=self._held_by_jobs)

    @cached_property
    def _turns(self) -> QueueTurns:
        return QueueTurns(self.shares, [record.priority for record in self._queues.records])

    @cached_property
    def _rules(self) -> ReclaimRules:
        return ReclaimRules(self.shares, self._arguments.multiplier, unrequested=self._arguments.count_unrequested)

    @cached_property
    def _books(self) -> QueueBooks:
        return QueueBooks(self.session)

    def _wake_when_shares_move(self, session: Session, history: UsageHistory) -> None:
        """Look again if shares will be others although nothing happens: past usage comes near to what is held now."""
        snapshot = session.snapshot
        held = snapshot.queues.tree_allocated / np.maximum(snapshot.total(), 1)
        if np.abs(held - past_usage(session)).max(initial=0.0) < _NO_MORE_CHANGE:
            return
        if (fair_shares(session, self._arguments.k, held).fair != self.shares.fair).any():
            session.look_again(session.now + min(history.window_s, history.half_life_s or math.inf) / _LOOKS)

    # -- what queues are entitled to ---------------------------------------------------------------------------

    def queue_deserved(self, queue: int) -> Amounts:
        """The quota: what reclaim never takes."""
        row: Amounts = self.shares.quota[queue]
        return row

    def queue_fair_share(self, queue: int) -> Amounts:
        row: Amounts = self.shares.fair[queue]
        return row

    # -- order -------------------------------------------------------------------------------------------------

    def queue_turn(self, queue: int, job: int, leaving: Amounts | None) -> OrderKey:
        # Victims are put in order as of the beginning of their search, whatever its dry runs have taken already.
        held = (self._queues.tree_allocated if leaving is None else self._held_at_start)[queue].tolist()
        wanted = self._nothing if job == NO_ROW else self._next_request(job)
        gone = self._nothing if leaving is None else leaving.tolist()
        return self._turns.key(queue, held, wanted, gone)

    def queue_order(self, queue: int) -> OrderKey:
        """Leaves in one line: compared from the top down, as if queues took turns."""
        return [self._standing(row) for row in reversed(self._layout.lines[queue])]

    def _standing(self, queue: int) -> tuple[OrderKey, float, str]:
        record = self._queues.records[queue]
        held = self._queues.tree_allocated[queue].tolist()
        return self._turns.key(queue, held, self._nothing, self._nothing), record.created, record.name

    def victim_queue_order(self, queue: int, reclaimer: int) -> OrderKey:
        """Queues that have most of what they may keep give first, compared from where they part from the reclaimer."""
        held, shared = self._queues.tree_allocated, set(self.shares.lines[reclaimer]) - {queue}
        line = [row for row in reversed(self.shares.lines[queue]) if row not in shared]
        return [-self._turns.dominant_share(row, held[row].tolist()) for row in line]

    def _next_request(self, job: int) -> Sequence[int]:
        """What the next chunk of a job asks for: its pending tasks, and those that a dry run has evicted."""
        snapshot = self.session.snapshot
        rows = snapshot.tasks_of(job)
        states = snapshot.tasks.status[rows]
        seen = states.tobytes()
        known = self._next_requests.get(job)
        if known is None or known[0] != seen:
            waiting = self._waiting(rows, states.tolist())
            chunk = next_tasks(self.session, job, self.session.sort_tasks(waiting) if len(waiting) > 1 else waiting)
            known = self._next_requests[job] = seen, self._sum(chunk)
        return known[1]

    def _waiting(self, tasks: Rows, states: Sequence[int]) -> Rows:
        table = self.session.snapshot.tasks
        # One by one: nearly all jobs have so few tasks that columns would only cost more.
        waiting = [
            task
            for task, state in zip(tasks.tolist(), states, strict=True)
            if (state == _PENDING and not table.flags[task] & GATED)
            or (state == _RELEASING and table.pods[task].metadata.deletion_timestamp is None)
        ]
        return tasks if len(waiting) == len(tasks) else np.array(waiting, np.intp)

    # -- limits ------------------------------------------------------------------------------------------------

    def over_capacity(self, job: int, tasks: Rows) -> Rejection | None:
        queue, wanted = int(self._jobs.queue[job]), self._sum(tasks)
        if queue == NO_ROW:
            return Rejection(QUEUE_MISSING)
        excess = self._layout.limits.excess(queue, wanted, self._queues.tree_allocated)
        if excess is not None:
            return self._rejection(QUEUE_FULL, excess)
        return self._over_quota(job, queue, wanted)

    def over_quota(self, job: int, tasks: Rows) -> Rejection | None:
        return self._over_quota(job, int(self._jobs.queue[job]), self._sum(tasks))

    def _over_quota(self, job: int, queue: int, wanted: Sequence[int]) -> Rejection | None:
        if self._jobs.preemptible[job] or queue == NO_ROW:
            return None
        excess = self._layout.firm_limits.excess(queue, wanted, self._queues.tree_firm)
        return None if excess is None else self._rejection(OVER_QUOTA, excess)

    def _rejection(self, reason: Reason, excess: Excess) -> Rejection:
        """In words; many jobs in a row run into the same."""
        known = self._rejections.get((reason, excess))
        if known is None:
            known = self._rejections[reason, excess] = Rejection(reason, self._told(excess))
        return known

    def _told(self, excess: Excess) -> str:
        name = self.session.snapshot.axis.names[excess.column]
        held, limit, wanted = (format_amount(name, amount) for amount in (excess.held, excess.limit, excess.wanted))
        queue = self._queues.records[excess.queue].name
        return f"queue {queue}: {name}: {held} of {limit} taken, {wanted} wanted"

    def queue_allocatable(self, queue: int, request: Amounts) -> int:
        if not self._queues.records[queue].open:
            return 0
        return self._layout.limits.slots(queue, request.tolist(), self._queues.tree_allocated)

    def job_enqueueable(self, job: int) -> Vote | Rejection:
        """Nobody is admitted whose minimum the limits do not allow now."""
        queue = int(self._jobs.queue[job])
        if queue == NO_ROW or not self._queues.records[queue].open:
            return Rejection(QUEUE_CLOSED, self._jobs.records[job].queue)
        excess = self._layout.limits.excess(queue, self._books.minimum(job), self._queues.tree_allocated)
        return Vote.ABSTAIN if excess is None else self._rejection(QUEUE_FULL, excess)

    def _sum(self, tasks: Rows | list[int]) -> Sequence[int]:
        """What tasks ask for together; to be read only."""
        if len(tasks) != 1:
            amounts: list[int] = requests_of(self.session.snapshot, np.asarray(tasks, np.intp)).tolist()
            return amounts
        cls = int(self.session.snapshot.tasks.cls[tasks[0]])
        known = self._requests.get(cls)
        if known is None:
            known = self._requests[cls] = self.session.snapshot.classes.requests[cls, 0].tolist()
        return known

    # -- taking back: who may ----------------------------------------------------------------------------------

    def can_reclaim(self, job: int, tasks: Rows) -> Rejection | None:
        queue = int(self._jobs.queue[job])
        if queue == NO_ROW:
            return Rejection(QUEUE_MISSING)
        wanted = self._sum(tasks)
        reason = self._why_not_take(queue, wanted, is_firm=not self._jobs.preemptible[job])
        return None if reason is None else self._beyond(reason, queue, wanted)

    def preemptive(self, queue: int, tasks: Rows) -> bool:
        """May the queue take from others: does it stay within its fair share?"""
        snapshot = self.session.snapshot
        is_firm = False in snapshot.jobs.preemptible[snapshot.tasks.job[tasks]].tolist()
        return self._why_not_take(queue, self._sum(tasks), is_firm=is_firm) is None

    def _why_not_take(self, queue: int, wanted: Sequence[int], *, is_firm: bool) -> Reason | None:
        if not self._rules.within_share(queue, self._queues.tree_allocated[queue].tolist(), wanted):
            return OVER_FAIR_SHARE
        if is_firm and not self._rules.within_firm_limit(queue, self._queues.tree_firm[queue].tolist(), wanted):
            return OVER_QUOTA
        return None

    def _beyond(self, reason: Reason, queue: int, wanted: Sequence[int]) -> Rejection:
        """Of the resources that the queue would have too much of, the first that is asked for, if any is."""
        by_share = reason is OVER_FAIR_SHARE
        held = (self._queues.tree_allocated if by_share else self._queues.tree_firm)[queue].tolist()
        bound = (self.shares.fair if by_share else self.shares.firm_limits)[queue].tolist()
        over = [column for column in self.shares.columns if held[column] + wanted[column] > bound[column]]
        column = next((column for column in over if wanted[column] > 0), over[0])
        return self._rejection(reason, Excess(queue, column, held[column], bound[column], wanted[column]))

    # -- taking back: scenarios of the solver ------------------------------------------------------------------

    def solution_start(self, kind: Eviction, job: int) -> None:
        self._held_at_start = self._queues.tree_allocated.copy()
        self._firm_at_start = self._queues.tree_firm.copy()

    def scenario_filters(self, kind: Eviction, job: int) -> Sequence[ScenarioFilter]:
        """Where the cluster has no room to move anybody, somebody must give: a scenario without a giver is no use."""
        if kind is not Eviction.RECLAIM:
            return ()
        free = self.session.snapshot.nodes.future_total()
        charges = Charges(self._rules, int(self._jobs.queue[job]), self._nothing, self._held_at_start)
        gives: dict[int, bool] = {NO_ROW: False}

        def somebody_gives(scenario: Scenario) -> bool:
            tasks = self.session.snapshot.tasks
            for queue in dict.fromkeys(self._jobs.queue[tasks.job[scenario.evicted]].tolist()):
                if queue not in gives:
                    gives[queue] = charges.may_give(queue)
                if gives[queue]:
                    return True
            wanted = requests_of(self.session.snapshot, scenario.pending)
            return bool((wanted <= free).all())

        return (somebody_gives,)

    def scenario_validator(self, kind: Eviction, scenario: Scenario) -> bool:
        if kind is not Eviction.RECLAIM:
            return True
        queue, wanted = int(self._jobs.queue[scenario.evictor]), self._sum(scenario.pending)
        if not self._jobs.preemptible[scenario.evictor] and not self._fits_firmly(queue, wanted):
            return False
        charges = Charges(self._rules, queue, wanted, self._held_at_start)
        taken = set(scenario.evicted.tolist())
        if self._arguments.charge_moved:
            taken.update(scenario.moved.tolist())
        for job, units in victim_units(self.session.snapshot, scenario.victims):
            giver = int(self._jobs.queue[job])
            for unit in units:
                charged = [task for task in unit if task in taken]
                if charged and not charges.may_give(giver):
                    return False
                if charged:
                    charges.take(giver, self._sum(charged))
        return charges.stays_in_bounds()

    def _fits_firmly(self, queue: int, wanted: Sequence[int]) -> bool:
        """Would a job that is not preemptible stay within the quota of every queue above it?"""
        return all(
            self._rules.within_firm_limit(row, self._firm_at_start[row].tolist(), wanted)
            for row in self.shares.lines[queue]
        )

    # -- taking back: the other strategies ---------------------------------------------------------------------

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Between queues: what their queues must give, unit by unit as they come.

        Each alone: whatever belongs to a queue that gives something; all of it, where moving costs nothing.
        """
        if kind is not Eviction.RECLAIM:
            return None
        taker, owners = int(self._jobs.queue[evictor.job]), self.session.snapshot.tasks.job[candidates]
        if evictor.each_alone:
            return candidates if not self._arguments.charge_moved else self._from_givers(taker, owners, candidates)
        if evictor.breaks_gangs:
            units = gang_units(self.session.snapshot, candidates)
        else:
            units = [(job, [task]) for job, task in zip(owners.tolist(), candidates.tolist(), strict=True)]
        return self._given(taker, self._sum(evictor.tasks), units, candidates)

    def _from_givers(self, taker: int, owners: Rows, candidates: Rows) -> Rows:
        """Those whose queues have something to give, to a taker that wants as little as can be."""
        charges = Charges(self._rules, taker, self._nothing, self._queues.tree_allocated)
        queues = self._jobs.queue[owners]
        givers = [queue for queue in np.unique(queues).tolist() if queue != NO_ROW and charges.may_give(queue)]
        victims: Rows = candidates[np.isin(queues, givers)]
        return victims

    def _given(
        self, taker: int, wanted: Sequence[int], units: Sequence[tuple[int, list[int]]], candidates: Rows
    ) -> Rows:
        """Which candidates go, while the rules allow it; what their queue may not give is passed over."""
        if taker == NO_ROW:
            return np.empty(0, np.intp)
        charges = Charges(self._rules, taker, wanted, self._queues.tree_allocated)
        taken: set[int] = set()
        spent: set[int] = set()
        for job, unit in units:
            giver = int(self._jobs.queue[job])
            if giver == NO_ROW or giver in spent:
                continue
            if not charges.may_give(giver):
                spent.add(giver)
                continue
            amounts = self._sum(unit)
            charges.take(giver, amounts)
            if charges.stays_in_bounds():
                taken.update(unit)
            else:
                charges.give_back(giver, amounts)
        victims: Rows = candidates[np.isin(candidates, list(taken))]
        return victims


def _refuse(argument: str, expected: str, given: float) -> UserError:
    return UserError(f"plugin fairshare: arguments: {argument}: expected {expected}, got {given}")
