"""The table of extension points: complete, and in agreement with the contract."""

from __future__ import annotations

import inspect

from muster.framework import Plugin
from muster.framework.points import POINTS, implemented


def test_every_method_of_the_contract_stands_in_the_table_once() -> None:
    methods = [name for name, value in vars(Plugin).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert [point.name for point in POINTS] == [name for name in methods if name not in ("open", "close")]


def test_every_point_says_what_it_asks_how_answers_combine_and_what_they_are() -> None:
    for point in POINTS:
        assert point.question, point.name
        assert point.rule.words, point.name
        assert point.contract.startswith(f"{point.name}(self"), point.name
        assert point.answer.words, point.name


def test_a_plugin_answers_what_it_overrides_and_nothing_else() -> None:
    class Some(Plugin):
        name = "some"

        def job_ready(self, job: int) -> int:
            return 0

        def helper(self) -> int:
            return 1

    assert [point.name for point in implemented(Some)] == ["job_ready"]
    assert implemented(Plugin) == ()
