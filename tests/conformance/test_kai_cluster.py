"""Rounds of a KAI case: actions run on its objects, and the outcome is read in KAI's words."""

from pathlib import Path
from typing import Any

import pytest

from conformance.cases import Case
from conformance.disagreements import Disagreements
from conformance.kai_cluster import carry_over, run_once, run_rounds
from conformance.kai_config import config_of
from conformance.kai_objects import Place, first_states
from conformance.kai_picture import picture
from conformance.results import FAILED, PASSED, SKIPPED, Result, agreement_lines
from conformance.runner import Runner
from muster.framework import Action
from tests.conformance.case_files import load
from tests.conformance.kai_case_files import (
    Body,
    EvictEverything,
    PlaceEverything,
    PromiseEverything,
    kai_case,
    kai_job,
    kai_task,
    registry_with,
)

WAITING = kai_job("new", kai_task("new-0"))
RUNNING = kai_job("old", kai_task("old-0", "Running", "n1"), lastStartSecondsAgo=60)
ROUNDS = {"untilMatch": 1, "afterMatch": 5}


def judge(tmp_path: Path, body: Body, action: type[Action] = PlaceEverything, *, strict: bool = False) -> Result:
    return Runner(registry_with(action), Disagreements([]), strict=strict).run(load(tmp_path, body))


def options(case: Case) -> dict[str, dict[str, Any]]:
    return {option.name: dict(option.arguments) for option in config_of(case).plugin_options()}


# -- one action ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "states", "calls"),
    [
        (PlaceEverything, {"new-0": "Binding@n2", "old-0": "Running@n1"}, (1, 0, 0)),
        (PromiseEverything, {"new-0": "Pipelined@n2", "old-0": "Running@n1"}, (0, 0, 1)),
        (EvictEverything, {"new-0": "Pending", "old-0": "Releasing@n1"}, (0, 1, 0)),
    ],
)
def test_an_outcome_is_read_in_the_words_of_kai(
    tmp_path: Path, action: type[Action], states: dict[str, str], calls: tuple[int, int, int]
) -> None:
    done = run_once(load(tmp_path, kai_case(WAITING, RUNNING)), registry_with(action))
    assert {name: str(place) for name, place in done.states.items()} == states
    assert (done.calls["binds"], done.calls["evictions"], done.calls["pipelines"]) == calls


@pytest.mark.parametrize(
    ("expect", "keys"),
    [
        ({"jobs": {"new": {"status": "Binding", "node": "n2", "gpusRequired": 1}}}, []),
        ({"jobs": {"new": {"status": "Binding", "node": "n1"}}}, ["jobs"]),
        ({"jobs": {"new": {"status": "Binding", "gpusRequired": 3}}}, ["new.gpusRequired"]),
        ({"jobs": {"new": {"status": "Binding", "milliCpuRequired": 1000, "memoryRequired": 1_000_000_000}}}, []),
        ({"tasks": {"old-0": {"status": "Pending"}}}, ["tasks"]),
        ({"tasks": {"old-0": {"status": "Running", "lastStartOlderThanSeconds": 30}}}, []),
        ({"tasks": {"old-0": {"status": "Running", "lastStartOlderThanSeconds": 90}}}, ["old-0.lastStart"]),
        ({"jobs": {"new": {"status": "Binding", "errorMessage": "words"}}}, ["new.errorMessage"]),
        ({"mocks": {"maxBinds": 1, "maxEvictions": 0}}, []),
        ({"mocks": {"maxBinds": 0}}, ["maxBinds"]),
        ({"nodes": {"n2": {"idleGpus": 1, "releasingGpus": 0}}}, []),
        ({"nodes": {"n2": {"idleGpus": 2, "releasingGpus": 0}}}, ["nodes"]),
        ({"jobCounts": {"new": {"Binding": 1}, "old": {"Running": 1}}}, []),
        ({"jobCounts": {"new": {"Pending": 1}, "old": {"Running": 1}}}, ["jobCounts"]),
    ],
)
def test_each_expectation_is_compared(tmp_path: Path, expect: Body, keys: list[str]) -> None:
    result = judge(tmp_path, kai_case(WAITING, RUNNING, expect=expect))
    assert result.outcome == (FAILED if keys else PASSED), result.mismatches
    assert all(miss.key.startswith(key) for miss, key in zip(result.mismatches, keys, strict=True))


@pytest.mark.parametrize("expect", [{"mood": 1}, {"jobs": {"new": {"status": "Binding", "mood": 1}}}])
def test_an_expectation_that_nobody_understands_is_not_passed(tmp_path: Path, expect: Body) -> None:
    result = judge(tmp_path, kai_case(WAITING, expect=expect))
    assert (result.outcome, result.feature) == (SKIPPED, "expectation mood")


def test_places_of_random_cases_are_compared_only_when_asked(tmp_path: Path) -> None:
    counts = {"jobCounts": {"new": {"Binding": 1}}}
    seen = {"tasks": {"new-0": "Binding@n1"}}
    body = kai_case(WAITING, expect=counts, package="random", observed=seen)
    assert judge(tmp_path, body).outcome == PASSED
    assert [miss.key for miss in judge(tmp_path, body, strict=True).mismatches] == ["observed"]


def test_agreement_of_random_cases_is_summed_up_by_area(tmp_path: Path) -> None:
    bodies = [
        kai_case(WAITING, expect={"jobCounts": {"new": {state: 1}}}, package="random", id=f"random/area/{seed}")
        for seed, state in enumerate(("Binding", "Pending"))
    ]
    results = [judge(tmp_path, body) for body in bodies]
    assert agreement_lines(results) == ["kai random/area: 1 of 2 agree (50%)"]


def test_shared_gpus_are_named_as_the_missing_feature(tmp_path: Path) -> None:
    result = judge(tmp_path, kai_case(WAITING, tags=["gpu-sharing", "mig"]))
    assert (result.outcome, result.feature) == (SKIPPED, "GPU sharing (mig)")


# -- rounds --------------------------------------------------------------------------------------------------


def test_between_rounds_bound_tasks_start_and_evicted_or_promised_ones_wait_again() -> None:
    job = kai_job("a", kai_task("a-0"), kai_task("a-1"), kai_task("a-2"), kai_task("a-3"))
    stays = kai_job("b", kai_task("b-0"), staysReleasing=True)
    states = {
        "a-0": Place("Binding", "n1"),
        "a-1": Place("Releasing", "n1"),
        "a-2": Place("Pipelined", "n1"),
        "a-3": Place("Failed", "n1"),
        "b-0": Place("Releasing", "n1"),
    }
    after = carry_over(kai_case(job, stays), states)
    assert {name: str(place) for name, place in after.items()} == {
        "a-0": "Running@n1",
        "a-1": "Pending",
        "a-2": "Pending",
        "a-3": "Failed@n1",
        "b-0": "Releasing@n1",
    }


def test_rounds_end_early_when_nothing_changes_any_more(tmp_path: Path) -> None:
    case = load(tmp_path, kai_case(WAITING, rounds=ROUNDS))
    rounds = list(run_rounds(case, registry_with(PlaceEverything)))
    assert [(str(one.states["new-0"]), one.acted) for one in rounds] == [
        ("Binding@n2", True),
        ("Running@n2", False),
        ("Running@n2", True),
    ]


def test_a_state_that_does_not_last_fails_with_the_round_named(tmp_path: Path) -> None:
    expect = {"jobs": {"old": {"status": "Pending"}}}
    body = kai_case(RUNNING, expect=expect, rounds=ROUNDS)
    assert judge(tmp_path, body, EvictEverything).outcome == PASSED
    result = judge(tmp_path, body, PlaceEverything)
    assert [miss.key for miss in result.mismatches] == ["round 2: jobs"]


def test_calls_are_bounded_in_every_round(tmp_path: Path) -> None:
    expect = {"jobs": {"new": {"status": "Running"}}, "mocks": {"maxBinds": 0}}
    result = judge(tmp_path, kai_case(WAITING, expect=expect, rounds=ROUNDS))
    assert [miss.key for miss in result.mismatches] == ["round 1: maxBinds"]


# -- configuration -------------------------------------------------------------------------------------------


def test_a_case_runs_with_the_profile_and_its_own_actions(tmp_path: Path) -> None:
    case = load(tmp_path, kai_case(WAITING, actions=["reclaim"]))
    assert config_of(case).actions == ("reclaim",)
    assert options(case)["fairshare"] == {"chargeMovedVictims": False, "countUnrequested": True}


def test_minimum_runtimes_and_the_grace_of_broken_gangs_are_arguments(tmp_path: Path) -> None:
    runtimes = {"defaultPreemptSeconds": 60, "defaultReclaimSeconds": 0, "reclaimResolveMethod": "queue"}
    case = load(tmp_path, kai_case(WAITING, config={"minRuntime": runtimes, "stalenessGraceSeconds": 7}))
    assert options(case)["minruntime"] == {
        "defaultPreemptMinRuntime": "60s",
        "defaultReclaimMinRuntime": "0s",
        "reclaimResolveMethod": "queue",
    }
    assert config_of(case).arguments_of("stalegangeviction") == {"gracePeriod": "7s"}


def test_predicates_can_be_off(tmp_path: Path) -> None:
    case = load(tmp_path, kai_case(WAITING, config={"predicatesPluginDisabled": True}))
    assert "predicates" not in options(case)


def test_a_list_of_plugins_replaces_those_that_kai_has_too(tmp_path: Path) -> None:
    listed = [{"name": "nodeplacement", "arguments": {"gpu": "spread"}}, {"name": "proportion"}]
    case = load(tmp_path, kai_case(WAITING, config={"schedulerConf": {"tiers": [{"plugins": listed}]}}))
    found = options(case)
    assert found["nodeplacement"]["gpu"] == "spread"
    assert {"fairshare", "gang"} <= found.keys()
    assert not {"elastic", "minruntime", "predicates"} & found.keys()


# -- pictures ------------------------------------------------------------------------------------------------


def test_a_picture_shows_where_muster_and_kai_part(tmp_path: Path) -> None:
    expect = {"jobs": {"new": {"status": "Binding", "node": "n1"}}}
    seen = {"tasks": {"new-0": "Binding@n1", "old-0": "Running@n1"}, "calls": {"binds": 1}}
    case = load(tmp_path, kai_case(WAITING, RUNNING, expect=expect, observed=seen))
    lines = list(picture(case, registry_with(PlaceEverything)))
    assert "expect new: Binding n1" in lines
    assert "  new-0: Muster Binding@n2, KAI Binding@n1  <--" in lines
    assert not any(line.startswith("  old-0") for line in lines)


def test_a_case_starts_as_it_was_recorded() -> None:
    assert first_states(kai_case(WAITING, RUNNING)) == {"new-0": Place("Pending"), "old-0": Place("Running", "n1")}
