"""Why a victim was chosen, in one form for every strategy: a word that metrics count, a line for people, and facts.

Who chose attaches to the operation that evicts something that can be asked for the record of a task; nothing is made
unless somebody asks. Records hold names and plain numbers: the same input gives the same record, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class VictimRecord:
    """Why one pod was evicted."""

    #: One of few words.
    reason: str
    text: str
    #: The same for programs, ready for JSON.
    facts: Mapping[str, object]

    def of_task(self, _task: int) -> VictimRecord:
        """Where all tasks of an operation go for one reason, the record itself is attached."""
        return self


@runtime_checkable
class VictimRecords(Protocol):
    """What an operation that evicts may carry: a record of each of its tasks."""

    def of_task(self, task: int, /) -> VictimRecord: ...


class RunnerUp(NamedTuple):
    """Who would have been next (a job, a pod, a domain), and why it lost."""

    name: str
    reason: str


def facts_of(runner_up: RunnerUp | None) -> dict[str, str] | None:
    """As a report has it."""
    return None if runner_up is None else runner_up._asdict()
