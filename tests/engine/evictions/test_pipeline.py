"""The search for the shortest prefix, and giving back: few trials, and nothing needless is kept."""

from __future__ import annotations

import ast
import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from muster.engine.evictions import pipeline
from muster.engine.evictions.simulation import shortest_prefix, trim
from muster.engine.placing import promise
from muster.kernels.placement import FUTURE, IDLE
from muster.snapshot import OperationKind, TaskStatus
from muster.testing import node
from tests.engine.evictions.eviction_stage import configured, open_session, waiting


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_shortest_prefix_is_found_in_few_trials(count: int, needed: int) -> None:
    trials: list[int] = []

    def works(k: int) -> bool:
        trials.append(k)
        return k >= needed

    assert shortest_prefix(count, works) == (needed if needed <= count else None)
    assert len(trials) <= 2 * math.log2(count + 2) + 3
    assert max(trials) <= count


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(0, 40))
def test_what_is_kept_cannot_be_done_without(sizes: list[int], needed: int) -> None:
    units = [size for size in sizes if size]
    if sum(units) < needed:
        return
    kept = trim(units, lambda victims: sum(victims) >= needed)
    assert sum(kept) >= needed
    assert all(sum(kept) - unit < needed for unit in kept)


def test_the_last_units_go_back_first() -> None:
    assert trim(range(6), lambda victims: len(victims) >= 2) == [0, 1]


def test_many_needless_units_cost_few_trials() -> None:
    trials = []

    def works(victims: list[int]) -> bool:
        trials.append(len(victims))
        return 0 in victims

    assert trim(range(1024), works) == [0]
    assert len(trials) <= 32


def test_a_gang_that_waits_for_a_part_is_promised_all_of_it() -> None:
    session = open_session([node("n", gpu=8), *waiting("new", 2, gpu=4)], configured("gangpreempt"))
    statement = session.statement()
    statement.place(0, 0, IDLE)
    statement.place(1, 0, FUTURE)
    operations = statement.operations[:]
    statement.rollback()
    statement.redo(promise(operations))
    assert {operation.kind for operation in statement.operations} == {OperationKind.PIPELINE}
    assert set(session.snapshot.tasks.status[:2].tolist()) == {TaskStatus.PIPELINED}


# -- who may evict -------------------------------------------------------------------------------------------------

SOURCE = Path(pipeline.__file__).parents[2]


def calls(method: str) -> set[str]:
    """Modules in which a method of this name is called on a statement."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == method:
                owner = ast.unparse(part.func.value)
                if "statement" in owner:
                    found.add(str(path.relative_to(SOURCE)))
    return found


def test_strategies_evict_through_the_simulation_that_the_pipeline_hands_out() -> None:
    assert calls("evict") == {"engine/evictions/pipeline.py", "engine/evictions/simulation.py"}


def test_only_the_pipeline_commits_an_eviction() -> None:
    assert {path for path in calls("commit") if "evictions" in path} == {"engine/evictions/pipeline.py"}
