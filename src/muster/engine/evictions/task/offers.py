"""What nodes could offer to a task: whom they could lose, in which order, the fewest that have to go, and why these.

Of those who may go the first in order do, and the dearest come back while the tasks still fit without them: no single
victim could stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.simulation import RunnerUp, VictimRecord
from muster.engine.evictions.supply import sums_by_node
from muster.framework import Session
from muster.snapshot import Amounts, Mask, Rows, Snapshot, slots_in


@dataclass(frozen=True, slots=True)
class NodeOffers:
    """What nodes have free and whom they could lose; candidates are sorted by node, each node's in victim order."""

    #: int64[nodes, resources]: free in the future.
    free: Amounts
    candidates: Rows
    #: int64[candidates, resources]
    held: Amounts
    #: Position of each candidate's node.
    where: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.free)

    def slots(self, request: Amounts) -> NDArray[np.int64]:
        """How many tasks with this request each node could hold without its candidates."""
        return slots_in(self.free + sums_by_node(self.held, self.where, len(self)), request)

    def keep(self, mask: Mask) -> NodeOffers:
        """The same nodes with fewer candidates."""
        if mask.all():
            return self
        return NodeOffers(self.free, self.candidates[mask], self.held[mask], self.where[mask])


def victim_order(session: Session, tasks: Rows, where: NDArray[np.int64], evictor: int) -> Rows:
    """Order tasks of each node, given with its position, as victims for the job `evictor`, the first to go first.

    That is the reverse of the order of service: the queue that gives first, as plugins say, else the last served; then
    the job that would be served last, then the job's last task.
    """
    snapshot = session.snapshot
    home, owners = int(snapshot.jobs.queue[evictor]), snapshot.tasks.job[tasks]
    place = np.zeros(len(snapshot.jobs), np.int64)
    if not (owners[1:] == owners[:-1])[where[1:] == where[:-1]].all():
        # Somewhere there is more than one job: it matters how they stand to each other.
        ranked = sorted(np.unique(owners).tolist(), key=session.job_key, reverse=True)
        queues = {int(snapshot.jobs.queue[job]) for job in ranked}
        if queues - {home}:
            givers = sorted(queues, key=session.queue_key, reverse=True)
            givers.sort(key=lambda queue: session.victim_queue_key(queue, home))
            ranked.sort(key=lambda job: givers.index(int(snapshot.jobs.queue[job])))
        place[ranked] = np.arange(len(ranked))
    node = np.empty(len(snapshot.tasks), np.int64)
    node[tasks] = where
    last_first = session.sort_tasks(tasks)[::-1]
    ordered: Rows = last_first[np.lexsort((place[snapshot.tasks.job[last_first]], node[last_first]))]
    return ordered


def share_out(slots: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Give `count` tasks to nodes in order, each as many as it can hold."""
    before = np.cumsum(slots) - slots
    given: NDArray[np.int64] = np.clip(count - before, 0, slots)
    return given


def fewest_victims(offers: NodeOffers, request: Amounts, counts: NDArray[np.int64]) -> Mask:
    """Which candidates go so that each node can hold its number of tasks; all of them must be able to (`slots`)."""
    columns = np.flatnonzero(request > 0)
    needed = counts[:, None] * request[columns] - offers.free[:, columns]
    needed[counts == 0] = 0
    held = offers.held[:, columns]
    # A candidate goes unless those before it on its node free enough already.
    before = np.cumsum(held, axis=0) - held
    freed = before - before[np.searchsorted(offers.where, offers.where)]
    chosen: Mask = np.logical_not(np.all(freed >= needed[offers.where], axis=1))
    spare = sums_by_node(np.where(chosen[:, None], held, 0), offers.where, len(offers)) - needed
    # The dearest of a node come back first, as long as what is left over allows it.
    for victim in np.flatnonzero(chosen & (held <= spare[offers.where]).all(axis=1))[::-1].tolist():
        if (held[victim] <= spare[offers.where[victim]]).all():
            chosen[victim] = False
            spare[offers.where[victim]] -= held[victim]
    return chosen


@dataclass(frozen=True, slots=True)
class NodeRecords:
    """Why victims on nodes were chosen: for whom, of how many, and who would have been next."""

    snapshot: Snapshot
    beneficiary: int
    #: Candidates of the nodes looked at, each node's in the order in which they go, and which of them were chosen.
    candidates: Rows
    chosen: Mask

    def of_task(self, task: int) -> VictimRecord:
        snapshot = self.snapshot
        mine = snapshot.tasks.node[self.candidates] == snapshot.tasks.node[task]
        job, node = snapshot.jobs.records[self.beneficiary].id, snapshot.nodes.names[int(snapshot.tasks.node[task])]
        count, victims = int(mine.sum()), int((mine & self.chosen).sum())
        goes = "goes" if victims == 1 else "go"
        text = f"makes room for {job} on {node}: {victims} of {count} candidates {goes}"
        following = self._next(task, mine)
        if following is not None:
            text += f"; {following.name} stays: {following.reason}"
        facts = {"beneficiary": job, "node": node, "candidates": count, "victims": victims}
        return VictimRecord("node", text, facts | {"nextVictim": following and following._asdict()})

    def _next(self, task: int, mine: Mask) -> RunnerUp | None:
        """The first candidate of the node that was left alone."""
        left = np.flatnonzero(mine & ~self.chosen)
        if len(left) == 0:
            return None
        other = int(self.candidates[left[0]])
        before = int(left[0]) < int(np.flatnonzero(self.candidates == task)[0])
        return RunnerUp(self.snapshot.tasks.ids[other], self._why_not(task, other, before=before))

    def _why_not(self, task: int, other: int, *, before: bool) -> str:
        jobs, table = self.snapshot.jobs, self.snapshot.tasks
        if before:
            return "it comes first in order, but what it holds is not needed"
        mine, theirs = int(table.job[task]), int(table.job[other])
        if jobs.priority[theirs] > jobs.priority[mine]:
            return f"its job has the priority {int(jobs.priority[theirs])}, above {int(jobs.priority[mine])}"
        if mine == theirs and table.priority[other] > table.priority[task]:
            return f"its priority {int(table.priority[other])} is above {int(table.priority[task])}"
        return "it is served before this one"
