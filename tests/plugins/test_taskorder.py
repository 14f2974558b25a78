"""Task order: larger labels first, then older pods, then names as text."""

from __future__ import annotations

import numpy as np
import pytest

from muster.api.names import KAI_TASK_PRIORITY
from muster.framework import Registry
from muster.plugins.jobs.taskorder import TaskOrder, label_rank
from muster.testing import builders
from tests.plugins.queue_stage import Stage

LABELS = {"none": None, "low": "1", "high": "10", "words": "high"}


def opened(arguments: dict[str, str] | None = None, key: str = KAI_TASK_PRIORITY) -> Stage:
    pods = [
        builders.pod(name, group="j", labels={} if value is None else {key: value}) for name, value in LABELS.items()
    ]
    return Stage("taskorder", [builders.queue("default"), builders.pod_group("j"), *pods], arguments=arguments)


def ordered(stage: Stage) -> list[str]:
    return stage.names(stage.session.sort_tasks(stage.snapshot.tasks_of(stage.job("j"))))


def test_larger_labels_go_first_and_pods_without_one_last() -> None:
    assert ordered(opened()) == ["high", "low", "words", "none"]


def test_the_label_can_be_another() -> None:
    assert ordered(opened({"taskOrderLabelKey": "example.com/turn"}, "example.com/turn"))[0] == "high"
    assert ordered(opened({"taskOrderLabelKey": "example.com/turn"}))[0] == "high"  # by name alone


def test_equal_pods_go_by_age_and_then_by_name_as_text() -> None:
    pods = [
        builders.pod("x-2", group="j", created=5.0),
        builders.pod("x-10", group="j", created=5.0),
        builders.pod("y", group="j", created=1.0),
    ]
    stage = Stage("taskorder", [builders.queue("default"), builders.pod_group("j"), *pods])
    assert ordered(stage) == ["y", "x-10", "x-2"]


def test_no_tasks_have_no_keys() -> None:
    assert opened().plugin.task_order(np.empty(0, np.intp)).tolist() == []


@pytest.mark.parametrize("value", ["", "1.5", "1_0", "two"])
def test_what_is_no_number_comes_after_all_numbers_and_before_nothing(value: str) -> None:
    assert label_rank("0") < label_rank(value) < label_rank(None)


def test_it_is_known_by_its_name() -> None:
    assert Registry.of([TaskOrder], []).plugins.keys() == {"taskorder"}
