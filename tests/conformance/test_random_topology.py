"""Random clusters with HyperNodes: Muster places what Volcano places, or something that matters as much."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.cases import Case, read_cases
from conformance.expectations import READERS
from conformance.left_behind import left_behind
from conformance.scheduling import Cycle, read_cycle, run_cycle
from muster.scheduler import builtin_registry
from muster.testing import gang, node, queue
from tests.plugins.networks import open_session

REGISTRY = builtin_registry(third_party=False)


@pytest.fixture(scope="module")
def cycles(shared_conformance: Path) -> list[tuple[Case, Cycle]]:
    recorded = shared_conformance / "volcano-random" / "topology.json.gz"
    if not recorded.is_file():
        return []
    return [(case, run_cycle(case, REGISTRY)) for case in read_cases(recorded)]


def test_nineteen_of_twenty_agree_on_every_job(cycles: list[tuple[Case, Cycle]]) -> None:
    differing = [
        case.id
        for case, cycle in cycles
        if READERS["jobs"](case.body["expect"]["jobs"], cycle) != case.body["expect"]["jobs"]
    ]
    assert len(differing) <= len(cycles) * 0.05, differing


def test_no_job_is_left_behind(cycles: list[tuple[Case, Cycle]]) -> None:
    for case, cycle in cycles:
        expected = case.body["expect"]["jobs"]
        assert left_behind(expected, READERS["jobs"](expected, cycle), cycle) == [], case.id


def test_a_job_is_left_behind_unless_one_of_its_rank_profits() -> None:
    objects = [node("n1", gpu=8), queue("default"), *gang("one", 1, gpu=8), *gang("other", 1, gpu=8)]
    cycle = read_cycle(open_session(objects, {"gang": {}}))
    placed, waiting = {"bound": 1, "pipelined": 0}, {"bound": 0, "pipelined": 0}
    expected = {"default/one": placed, "default/other": waiting}
    assert left_behind(expected, {"default/one": waiting, "default/other": waiting}, cycle) == ["default/one"]
    assert left_behind(expected, {"default/one": waiting, "default/other": placed}, cycle) == []
    assert left_behind(expected, {"default/one": placed, "default/other": waiting}, cycle) == []
