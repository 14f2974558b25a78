"""Why the solver evicted or moved a task: for whom, after how long a search, and where the task goes.

One `SolverReasons` is attached to the operation that evicts; reports ask it for the record of a task, as they ask
`muster.engine.evictions.records.Reasons` for those of gangs.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.snapshot import Snapshot, TaskStatus


@dataclass(frozen=True, slots=True)
class SolverRecord:
    """Why one pod has to go."""

    beneficiary: str
    #: The node that the pod moves to, "" if it has none.
    moves_to: str
    #: Pods that go, and how many of them move; dry runs and victims that the search looked at.
    victims: int
    moved: int
    trials: int
    offered: int

    @property
    def reason(self) -> str:
        return "moved" if self.moves_to else "scenario"

    def to_json(self) -> dict[str, object]:
        """The record for programs."""
        return {
            "beneficiary": self.beneficiary,
            "movesTo": self.moves_to or None,
            "victims": self.victims,
            "moved": self.moved,
            "trials": self.trials,
            "offered": self.offered,
        }

    def as_text(self) -> str:
        """One line for people."""
        where = f" and moves to {self.moves_to}" if self.moves_to else ""
        pods = "1 pod goes" if self.victims == 1 else f"{self.victims} pods go"
        moved = ""
        if self.moved:
            moved = ", to another node" if self.moved == self.victims == 1 else f", {self.moved} of them to other nodes"
        runs = "1 dry run" if self.trials == 1 else f"{self.trials} dry runs"
        return f"makes room for {self.beneficiary}{where}: {pods}{moved} (found by {runs})"


@dataclass(frozen=True, slots=True)
class SolverReasons:
    """Records of all victims of one operation."""

    snapshot: Snapshot
    beneficiary: int
    victims: int
    moved: int
    trials: int
    offered: int

    def of_task(self, task: int) -> SolverRecord:
        """The record of one of the victims, by its row."""
        snapshot = self.snapshot
        moves = snapshot.tasks.status[task] == TaskStatus.PIPELINED
        return SolverRecord(
            beneficiary=snapshot.jobs.records[self.beneficiary].id,
            moves_to=snapshot.nodes.names[int(snapshot.tasks.node[task])] if moves else "",
            victims=self.victims,
            moved=self.moved,
            trials=self.trials,
            offered=self.offered,
        )
