"""KAI's function cases go through the adapters, and answers are compared as a whole or key by key."""

from pathlib import Path
from typing import Any

import pytest

from conformance.kai_functions import KAI_ADAPTERS, compare_kai_function
from tests.conformance.case_files import load, run
from tests.conformance.kai_case_files import Body

CASE: Body = {"id": "area/1", "function": "echo", "input": {"a": 1}, "output": {"a": 1}}


@pytest.fixture(autouse=True)
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that answers with its input."""
    monkeypatch.setitem(KAI_ADAPTERS, "echo", lambda given: given)


@pytest.mark.parametrize(
    ("given", "output", "keys"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1}, True, ["output"]),
    ],
)
def test_an_answer_must_hold_what_was_recorded(tmp_path: Path, given: Body, output: Any, keys: list[str]) -> None:
    case = load(tmp_path, {**CASE, "input": given, "output": output})
    assert [miss.key for miss in compare_kai_function(case)] == keys


def test_steps_beside_the_input_reach_the_adapter(tmp_path: Path) -> None:
    case = load(tmp_path, {**CASE, "steps": ["pop"], "output": {"steps": ["pop"]}})
    assert not list(compare_kai_function(case))


def test_a_function_without_an_adapter_is_skipped_by_its_name(tmp_path: Path) -> None:
    result = run(tmp_path, {**CASE, "function": "noSuchThing"})
    assert (result.outcome, result.feature) == ("skipped", "function noSuchThing")
