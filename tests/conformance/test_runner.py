"""How a case ends: passed, failed, or skipped with the reason named."""

from pathlib import Path
from typing import Any

import pytest

from conformance.disagreements import Disagreements, Entry
from conformance.results import closing_line, failure_line, skipped_lines, table
from conformance.scheduling import config_of
from muster.api import UserError
from tests.conformance.case_files import GANG, cluster_case, function_case, load, run

WRONG = {"bindsNum": 5}
RIGHT = {"bindsNum": 2}


def with_plugin(name: str, **changes: Any) -> dict[str, Any]:
    config = {
        "actions": ["allocate"],
        "registeredPlugins": ["gang", name],
        "tiers": [{"plugins": [GANG, {"name": name}]}],
    }
    return cluster_case(RIGHT, config={**config, **changes})


@pytest.mark.parametrize(
    ("body", "feature"),
    [
        (with_plugin("numa-aware"), "plugin numa-aware"),
        (with_plugin("gang", actions=["allocate", "shuffle"]), "action shuffle"),
        (cluster_case(RIGHT, tags=["custom-plugin"]), "custom-plugin (exists in Volcano's tests only)"),
        (cluster_case({**RIGHT, "moonPhase(full)": 1}), "expectation moonPhase"),
        (function_case("noSuchFunction", {}, {}), "function noSuchFunction"),
        ({**function_case("validateThing", {}, {}), "tags": ["webhook"]}, "function validateThing"),
        ({"id": "k", "nodes": {}, "jobs": [], "expect": {}, "tags": ["mig"]}, "GPU sharing (mig)"),
    ],
)
def test_what_is_not_supported_is_skipped_by_name(tmp_path: Path, body: dict[str, Any], feature: str) -> None:
    result = run(tmp_path, body)
    assert (result.outcome, result.feature) == ("skipped", feature)


def test_a_plugin_that_nobody_knows_is_a_failure(tmp_path: Path) -> None:
    result = run(tmp_path, with_plugin("gnag"))
    assert result.outcome == "failed"
    assert "unknown plugin 'gnag'" in failure_line(result)


def test_a_failure_says_on_one_line_what_was_expected_and_what_came(tmp_path: Path) -> None:
    result = run(tmp_path, cluster_case({"binds": {"ns/a": "n1", "ns/b": "n9"}}))
    assert failure_line(result) == (
        'FAIL cases.json area/Test/01-gang-of-two: binds: expected {"ns/b": "n9"}, got {"ns/b": "n1"}'
    )


def test_a_crash_fails_its_case_alone(tmp_path: Path) -> None:
    body = cluster_case(RIGHT)
    body["objects"]["pods"][0]["spec"]["priority"] = "high"
    result = run(tmp_path, body)
    assert result.outcome == "failed"
    assert "UserError" in str(result.mismatches[0].got)


@pytest.mark.parametrize("config", [{"tiers": [{"plugins": [{}]}]}, {"tiers": 7}, {"actions": [{}]}])
def test_a_malformed_configuration_fails_its_case_alone(tmp_path: Path, config: dict[str, Any]) -> None:
    assert run(tmp_path, cluster_case(RIGHT, config={"actions": ["allocate"], **config})).outcome == "failed"


def test_odd_cases_may_disagree_and_may_agree(tmp_path: Path) -> None:
    disagreeing = run(tmp_path, cluster_case(WRONG, tags=["odd:b", "odd:a", "gang"]))
    assert (disagreeing.outcome, disagreeing.feature) == ("skipped", "odd:a, odd:b")
    assert disagreeing.to_json()["got"] == {"bindsNum": 2}
    assert run(tmp_path, cluster_case(RIGHT, tags=["odd:a"])).outcome == "passed"


@pytest.mark.parametrize("pattern", ["area/Test/01-gang-of-two", "area/Test/*", "volcano:area/*/01-*"])
def test_a_decided_disagreement_is_skipped_with_its_reason(tmp_path: Path, pattern: str) -> None:
    result = run(tmp_path, cluster_case(WRONG), Entry(pattern, "we know better"))
    assert (result.outcome, result.decided) == ("skipped", "we know better")
    assert result.to_json() == {
        "id": "area/Test/01-gang-of-two",
        "file": "cases.json",
        "outcome": "skipped",
        "reason": "we know better",
        "expected": {"bindsNum": 5},
        "got": {"bindsNum": 2},
    }


def test_an_entry_for_another_systems_case_does_not_help(tmp_path: Path) -> None:
    assert run(tmp_path, cluster_case(WRONG), Entry("kai:area/*", "not this one")).outcome == "failed"


def test_the_list_stays_honest(tmp_path: Path) -> None:
    case = load(tmp_path, cluster_case(RIGHT))
    listed = Disagreements(
        [Entry("area/Test/01-*", "agrees"), Entry("area/Test/07-gone", "gone"), Entry("other/Test/1", "not run")]
    )
    listed.note(case)
    assert listed.judge(case, agrees=True) == ""
    assert listed.problems() == [
        "area/Test/01-*: area/Test/01-gang-of-two agrees; remove the entry",
        "area/Test/07-gone: no case has this id; correct or remove the entry",
    ]
    assert len(listed.problems(complete=False)) == 1


def test_an_entry_that_still_disagrees_somewhere_is_honest(tmp_path: Path) -> None:
    case = load(tmp_path, cluster_case(RIGHT))
    listed = Disagreements([Entry("area/*", "some of them")])
    listed.note(case)
    listed.judge(case, agrees=True)
    listed.judge(case, agrees=False)
    assert listed.problems() == []


def test_seeds_of_random_cases_may_be_absent(tmp_path: Path) -> None:
    case = load(tmp_path, cluster_case(RIGHT, id="random/allocate/1", tags=["random"]))
    listed = Disagreements([Entry("random/allocate/2", "another sample has it")])
    listed.note(case)
    assert listed.problems() == []


@pytest.mark.parametrize("text", ["- a list", "id: 7", "id: ''", "{"])
def test_a_malformed_list_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "disagreements.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"disagreements\.yaml"):
        Disagreements.load(path)


def test_the_projects_own_list_can_be_read() -> None:
    assert Disagreements.load().problems() == []


def test_the_summary_counts_every_case_once(tmp_path: Path) -> None:
    results = [
        run(tmp_path, cluster_case(RIGHT)),
        run(tmp_path, cluster_case(WRONG)),
        run(tmp_path, cluster_case(WRONG), Entry("*", "because")),
        run(tmp_path, with_plugin("numa-aware")),
        run(tmp_path, with_plugin("numa-aware")),
    ]
    assert closing_line(results) == "1 passed, 1 failed, 3 skipped"
    assert [line.split() for line in table(results)] == [
        ["file", "passed", "failed", "skipped", "decided"],
        ["cases.json", "1", "1", "3", "1"],
    ]
    assert [line.split(maxsplit=2) for line in skipped_lines(results)] == [
        ["skipped", "2", "plugin numa-aware"],
        ["decided", "area/Test/01-gang-of-two:", "because"],
    ]


@pytest.mark.parametrize("action", ["preempt", "reclaim", "gangpreempt", "gangreclaim"])
def test_room_is_made_for_whose_turn_it_is_unless_the_case_says_otherwise(tmp_path: Path, action: str) -> None:
    given = [{"name": action, "arguments": {"looksAhead": True}}]
    for configurations, expected in (([], False), (given, True)):
        case = load(tmp_path, with_plugin("gang", actions=[action], configurations=configurations))
        assert config_of(case).arguments_of(action)["looksAhead"] is expected
