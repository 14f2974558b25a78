"""Pods name their gang, role and index by annotation, label and name."""

import pytest

from muster.api import ObjectMeta, Pod, group_of, is_preemptable, pod_index, role_of


def pod(name: str = "p", *, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, annotations=annotations or {}, labels=labels or {}))


@pytest.mark.parametrize(
    ("annotations", "group"),
    [
        ({}, None),
        ({"scheduling.k8s.io/group-name": ""}, None),
        ({"scheduling.k8s.io/group-name": "a"}, "a"),
        ({"scheduling.volcano.sh/group-name": "b"}, "b"),
        ({"pod-group-name": "c"}, "c"),
        ({"pod-group-name": "c", "scheduling.volcano.sh/group-name": "b"}, "b"),
        ({"scheduling.volcano.sh/group-name": "b", "scheduling.k8s.io/group-name": "a"}, "a"),
    ],
)
def test_group(annotations: dict[str, str], group: str | None) -> None:
    assert group_of(pod(annotations=annotations)) == group


def test_a_group_is_not_read_from_labels() -> None:
    assert group_of(pod(labels={"scheduling.k8s.io/group-name": "a"})) is None


def test_role_is_the_annotation_then_the_label_then_nothing() -> None:
    key = "volcano.sh/task-spec"
    assert role_of(pod(annotations={key: "worker"}, labels={key: "master"})) == "worker"
    assert role_of(pod(labels={key: "master"})) == "master"
    assert role_of(pod()) == ""


def test_a_pod_set_of_kai_is_a_role() -> None:
    subgroup = {"kai.scheduler/subgroup-name": "workers"}
    assert role_of(pod(labels=subgroup)) == "workers"
    assert role_of(pod(labels={**subgroup, "volcano.sh/task-spec": "master"})) == "master"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("true", True),
        ("1", True),
        ("True", True),
        ("false", False),
        ("0", False),
        ("perhaps", False),
        ("", False),
    ],
)
def test_preemptable_reads_truth_values(value: str, expected: bool) -> None:
    assert is_preemptable(pod(annotations={"volcano.sh/preemptable": value})) is expected
    assert is_preemptable(pod(labels={"volcano.sh/preemptable": value})) is expected


def test_preemptable_by_default_and_the_annotation_wins() -> None:
    key = "volcano.sh/preemptable"
    assert is_preemptable(pod())
    assert not is_preemptable(pod(annotations={key: "false"}, labels={key: "true"}))


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("train-worker-3", 3),
        ("train-10", 10),
        ("train", -1),
        ("train-", -1),
        ("train-x7", -1),
        ("7", -1),
        ("a-٣", -1),
    ],
)
def test_index(name: str, index: int) -> None:
    assert pod_index(pod(name)) == index


def test_the_task_index_comes_before_the_name() -> None:
    key = "volcano.sh/task-index"
    assert pod_index(pod("train-3", labels={key: "7"})) == 7
    assert pod_index(pod("train-3", labels={key: "7"}, annotations={key: "8"})) == 8
    assert pod_index(pod("train-3", annotations={key: "first"})) == 3
    assert pod_index(pod("train-3", annotations={key: "1" * 5000})) == 3
