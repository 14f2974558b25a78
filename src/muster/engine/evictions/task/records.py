"""Why a task was chosen as a victim by the task strategy: for whom, on which node, and who would have been next.

One `TaskReasons` is attached to each operation that evicts; reports ask it for the record of a task, as they ask
`records.Reasons` for those of gangs. It holds arrays that exist anyway, so that nothing is made unless somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.evictions.records import RunnerUp
from muster.snapshot import Mask, Rows, Snapshot


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """Why one pod was evicted."""

    beneficiary: str
    node: str
    #: Pods on the node that could have been evicted, and how many of them were.
    candidates: int
    victims: int
    next_victim: RunnerUp | None = None

    @property
    def reason(self) -> str:
        return "node"

    def to_json(self) -> dict[str, object]:
        """The record for programs."""
        runner_up = self.next_victim
        return {
            "beneficiary": self.beneficiary,
            "node": self.node,
            "candidates": self.candidates,
            "victims": self.victims,
            "nextVictim": None if runner_up is None else {"name": runner_up.name, "reason": runner_up.reason},
        }

    def as_text(self) -> str:
        """One line for people."""
        goes = "goes" if self.victims == 1 else "go"
        how_many = f"{self.victims} of {self.candidates} candidates {goes}"
        text = f"makes room for {self.beneficiary} on {self.node}: {how_many}"
        if self.next_victim is not None:
            text += f"; {self.next_victim.name} stays: {self.next_victim.reason}"
        return text


@dataclass(frozen=True, slots=True)
class TaskReasons:
    """Records of all victims of one operation."""

    snapshot: Snapshot
    beneficiary: int
    #: Candidates of the nodes looked at, each node's in the order in which they go, and which of them were chosen.
    candidates: Rows
    chosen: Mask

    def of_task(self, task: int) -> TaskRecord:
        """The record of one of the victims, by its row."""
        snapshot = self.snapshot
        table = snapshot.tasks
        node = int(table.node[task])
        mine = table.node[self.candidates] == node
        return TaskRecord(
            beneficiary=snapshot.jobs.records[self.beneficiary].id,
            node=snapshot.nodes.names[node],
            candidates=int(mine.sum()),
            victims=int((mine & self.chosen).sum()),
            next_victim=self._next(task, mine),
        )

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
