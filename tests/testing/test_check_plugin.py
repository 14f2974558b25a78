from typing import ClassVar

import numpy as np
import pytest

from muster.framework import Eviction, Evictor, NodeScores, Plugin, Verdicts
from muster.plugins import BUILTIN
from muster.snapshot import JobPhase, Rows
from muster.testing import check_plugin


@pytest.mark.parametrize("plugin", BUILTIN, ids=lambda plugin: plugin.name)
def test_every_builtin_plugin_keeps_its_contract(plugin: type[Plugin]) -> None:
    check_plugin(plugin)


class Base(Plugin):
    name: ClassVar[str] = "bad"


class Idle(Base):
    pass


class Meddler(Base):
    def job_ready(self, job: int) -> int:
        self.session.snapshot.jobs.phase[job] = JobPhase.UNKNOWN
        return 0


class Fickle(Base):
    asked: ClassVar[int] = 0

    def queue_order(self, queue: int) -> int:
        Fickle.asked += 1
        return Fickle.asked


class RowReader(Base):
    def job_order(self, job: int) -> int:
        return job


class Short(Base):
    def node_mask(self, cls: int) -> Verdicts:
        return np.zeros(1, np.int16)


class WrongType(Base):
    def node_mask(self, cls: int) -> Verdicts:
        return np.zeros(len(self.session.snapshot.nodes))  # type: ignore[return-value]  # that is the mistake


class Undeclared(Base):
    def node_mask(self, cls: int) -> Verdicts:
        return np.full(len(self.session.snapshot.nodes), 30000, np.int16)


class Infinite(Base):
    def node_score(self, cls: int) -> NodeScores:
        return NodeScores(fixed=np.full(len(self.session.snapshot.nodes), np.inf))


class Narrow(Base):
    def node_score(self, cls: int) -> NodeScores:
        return NodeScores(terms=[[1.0, 1.0]])


class Mixed(Base):
    def job_order(self, job: int) -> object:
        return "a" if self.session.snapshot.jobs.records[job].name == "train" else 1


class Negative(Base):
    def queue_allocatable(self, queue: int, request: object) -> int:
        return -1


class Overreach(Base):
    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows:
        return evictor.tasks


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Idle, "implements no extension point"),
        (Meddler, "changed the snapshot"),
        (Fickle, "another answer when asked twice"),
        (RowReader, "arrive in another order"),
        (Short, r"node_mask.*: expected int16 per node.*, got an array of int16 with the shape \(1,\)"),
        (WrongType, "expected int16 per node.*, got an array of float64"),
        (Undeclared, "the number of a declared reason, got .*30000"),
        (Infinite, "expected NodeScores: `fixed` finite float64 per node.*inf"),
        (Narrow, "`terms` of 2 . as many numbers as resources"),
        (Mixed, "keys cannot be compared"),
        (Negative, "zero or more"),
        (Overreach, "expected int64 rows out of the candidates"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_plugin_that_breaks_its_contract_is_told_how(plugin: type[Plugin], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_plugin(plugin)
