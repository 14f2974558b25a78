"""The proposer: as good as the full search, with a fraction of its trials, and never in the way of a solution."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from muster.actions.allocate import Allocate
from muster.api import KubeObject
from muster.engine.placing import EVERYWHERE, Options
from muster.engine.placing.runs import Runs, Work
from muster.engine.placing.search import Search
from muster.engine.placing.start_rule import Extent, StartRule
from muster.framework import Session
from muster.snapshot import NO_ROW, TaskStatus
from muster.testing import builders
from muster.testing.conformance import fingerprint
from tests.plugins.networks import GROUP_ID, network, open_session, partitioned_gang, random_cluster

FULL: dict[str, dict[str, int]] = {"gang": {}, "network-topology-aware": {}}
QUICK: dict[str, dict[str, int]] = {**FULL, "propose": {}}


class CountingTrials(StartRule):
    """Keeps the score of every trial that worked."""

    def __init__(self, runs: Runs, search: Search) -> None:
        super().__init__(runs, search)
        self.scores: list[float] = []
        self.trials = 0

    def solve(self, work: Work, domain: int, extent: Extent) -> float | None:
        self.trials += 1
        score = super().solve(work, domain, extent)
        if score is not None:
            self.scores.append(score)
        return score


def search(session: Session) -> CountingTrials:
    """Place the gang `train`; all trials that work are of one gradient, so the best of them is what is kept."""
    job = session.snapshot.jobs.index["default/train"]
    runs = Runs(session, Options(search_steps_per_job=0))
    trials = CountingTrials(runs, Search(runs))
    tasks = session.sort_tasks(session.snapshot.tasks_of(job))
    trials.place(Work(session, job, tasks, session.statement()), EVERYWHERE)
    return trials


def proposed(objects: Iterable[KubeObject], subgroup: int = NO_ROW) -> list[list[str]]:
    session = open_session([*objects, builders.queue("default")], QUICK)
    job = session.snapshot.jobs.index["default/train"]
    before = fingerprint(session.snapshot)
    steps = session.domain_gradients(job, subgroup, 0) or []
    assert fingerprint(session.snapshot) == before
    return [[session.snapshot.topology.names[domain] for domain in step.tolist()] for step in steps]


# -- quality -----------------------------------------------------------------------------------------------------


def test_at_least_95_of_100_random_gangs_get_as_good_a_place() -> None:
    worse, solved, trials = [], 0, {"full": 0, "quick": 0}
    for seed in range(125):
        full, quick = (search(open_session(random_cluster(seed), plugins)) for plugins in (FULL, QUICK))
        assert bool(full.scores) == bool(quick.scores), f"seed {seed}: a solution was lost or made up"
        if full.scores:
            solved += 1
            trials["full"] += full.trials
            trials["quick"] += quick.trials
            if max(quick.scores) < max(full.scores):
                worse.append(seed)
    assert solved >= 100
    assert len(worse) <= solved * 0.05, worse
    assert trials["quick"] < trials["full"] / 2


# -- what is proposed --------------------------------------------------------------------------------------------


def test_the_domain_with_the_best_sum_of_scores_is_tried_alone_and_first() -> None:
    # In s1 two racks are used in part: each sub-group fills one of them.
    old = [builders.pod(f"old-{rack}", gpu=8, cpu=4, node=f"s1-{rack}-n0") for rack in ("r0", "r1")]
    gang = partitioned_gang("train", [2, 2], tier=2, part_tier=1)
    steps = proposed([*network([[3, 3], [3, 3]]), *old, *gang])
    assert [sorted(step) for step in steps] == [["s1"], ["s0", "s1"]]


def test_the_other_gradients_follow_with_every_domain_that_may_hold_the_gang() -> None:
    steps = proposed([*network([[2, 2], [2, 2]]), *partitioned_gang("train", [2, 2], tier=3, part_tier=1)])
    assert [sorted(step) for step in steps] == [["s0"], ["s0", "s1"], ["<cluster-top-hypernode>"]]


def test_a_lower_tier_that_may_have_a_solution_stays_in_front() -> None:
    """Each spine has six nodes for six tasks, but its racks of three hold one pair each."""
    steps = proposed([*network([[3, 3], [3, 3]]), *partitioned_gang("train", [2, 2, 2], tier=3, part_tier=1)])
    assert steps == [["s0", "s1"], ["<cluster-top-hypernode>"]]


def test_domains_without_enough_slots_are_left_out() -> None:
    steps = proposed([*network([[2, 2], [1, 1]]), *partitioned_gang("train", [2, 2], tier=2, part_tier=2)])
    assert steps == [["s0"]]


def test_of_domains_alike_the_one_that_is_left_with_the_least_room_wins() -> None:
    """Scores are off, so that room decides."""
    session = open_session(
        [
            *network([[3, 3], [2, 2], [3, 3]]),
            builders.queue("default"),
            *partitioned_gang("train", [2, 2], tier=2, part_tier=1),
        ],
        {"gang": {}, "propose": {}},
    )
    steps = session.domain_gradients(session.snapshot.jobs.index["default/train"], NO_ROW, 0)
    assert steps is not None
    assert [session.snapshot.topology.names[domain] for domain in steps[0]] == ["s1"]


def test_a_larger_domain_that_is_untouched_is_not_broken_open() -> None:
    """Racks alike in an empty spine and in one that is used already."""
    old = builders.pod("old", gpu=8, cpu=4, node="s1-r2-n0")
    gang = partitioned_gang("train", [1, 1], tier=1, part_tier=1)
    assert proposed([*network([[2, 2, 2], [2, 2, 2]]), old, *gang])[0] == ["s1-r0"]


# -- when it has nothing to say ----------------------------------------------------------------------------------


def test_sub_groups_and_jobs_without_them_are_searched_as_ever() -> None:
    objects = [*network([[2, 2], [2, 2]]), *partitioned_gang("train", [2, 2], tier=2, part_tier=1)]
    assert proposed(objects, subgroup=0) == []
    assert proposed([*network([[2], [2]]), *builders.gang("train", 2, gpu=8)]) == []


def test_a_gang_that_runs_in_part_is_searched_as_ever() -> None:
    group, first, *rest = partitioned_gang("train", [2, 2], tier=2, part_tier=1)
    running = builders.pod(first.metadata.name, group="train", cpu=4, gpu=8, labels={GROUP_ID: "0"}, node="s0-r0-n0")
    assert proposed([*network([[2, 2], [2, 2]]), group, running, *rest]) == []


# -- the whole action ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_allocate_starts_the_same_gangs_with_and_without_it(seed: int) -> None:
    placed = []
    for plugins in (FULL, QUICK):
        session = open_session(random_cluster(seed), plugins)
        Allocate(Allocate.Args()).run(session)
        job = session.snapshot.jobs.index["default/train"]
        placed.append(int(session.snapshot.jobs.counts[job, TaskStatus.ALLOCATED]))
    assert placed[0] == placed[1]
