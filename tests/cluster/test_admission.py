import pytest

from muster.api import Node, ObjectMeta, Pod, UserError
from muster.cluster.embedded_server import DEFAULT_START, admit, standard_queues, start_of
from muster.snapshot.records import created_seconds
from muster.testing import gang, pod, priority_class, queue


def test_missing_stamps_follow_the_order_of_the_documents() -> None:
    admitted = admit([pod("b"), pod("a", created=5.0), pod("c")], 1000.0, {})
    first, second, third = (created_seconds(thing.metadata) for thing in admitted)
    assert second == 5.0
    assert 999.0 < first < third < 1000.0


def test_given_objects_are_not_changed() -> None:
    given = pod("a")
    admit([given], 0.0, {})
    assert given.metadata.uid == ""
    assert given.metadata.creation_timestamp is None


def test_the_clock_starts_after_the_newest_object() -> None:
    assert start_of([]) == DEFAULT_START
    assert start_of(gang("g", 2, created=1234.5)) == 1235.0


def test_standard_queues_are_made_only_where_absent() -> None:
    assert [made.name for made in standard_queues([])] == ["root", "default"]
    assert [made.name for made in standard_queues([queue("default")])] == ["root"]


def test_a_node_without_a_pod_limit_gets_the_kubelets() -> None:
    bare = Node(metadata=ObjectMeta(name="n"))
    (admitted,) = admit([bare], 0.0, {})
    assert isinstance(admitted, Node)
    assert str(admitted.status.allocatable["pods"]) == "110"


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [("high", 1000), ("", 7), ("system-node-critical", 2_000_001_000), ("unknown", None)],
)
def test_priority_comes_from_the_class(class_name: str, expected: int | None) -> None:
    classes = [priority_class("high", 1000), priority_class("usual", 7, default=True)]
    admitted = admit([pod("p", priority_class=class_name), *classes], 0.0, {})[0]
    assert isinstance(admitted, Pod)
    assert admitted.spec.priority == expected


def test_of_several_default_classes_the_lowest_counts_as_on_an_api_server() -> None:
    classes = [priority_class(name, value, default=True) for name, value in (("a", 7), ("b", 3), ("c", 9))]
    (admitted,) = admit([pod("p")], 0.0, {known.name: known for known in classes})
    assert isinstance(admitted, Pod)
    assert (admitted.spec.priority, admitted.spec.priority_class_name) == (3, "b")


def test_a_priority_that_is_given_stays() -> None:
    (admitted,) = admit([pod("p", priority=3, priority_class="high")], 0.0, {"high": priority_class("high", 9)})
    assert isinstance(admitted, Pod)
    assert admitted.spec.priority == 3


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_run_seconds_must_be_seconds(text: str) -> None:
    with pytest.raises(UserError, match=r"Pod default/p.*run-seconds.*number of seconds"):
        admit([pod("p", annotations={"muster.sh/run-seconds": text})], 0.0, {})


def test_an_unknown_exit_is_an_error() -> None:
    with pytest.raises(UserError, match=r'muster.sh/exit.*"succeeded" or "failed", got "crash"'):
        admit([pod("p", exit_as="crash")], 0.0, {})
