"""PodGroups and pods: their queues, annotations and defaults."""

from __future__ import annotations

import pytest

from muster.admission import CREATE, HOOKS, Facts, Request, judge
from muster.api import KaiQueue
from tests.admission.requests import SETTINGS, Json, create, document, filled, queue, update


def group(**spec: object) -> Json:
    return document("PodGroup", "train", spec)


def pod(annotations: Json, scheduler: str = "volcano") -> Json:
    return document("Pod", "one", {"schedulerName": scheduler}, annotations=annotations)


def namespace(name: str, own: str) -> Json:
    annotations = {"scheduling.volcano.sh/queue-name": own}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}


def test_a_gang_needs_an_open_queue_that_exists() -> None:
    assert create(group(queue="a"), queue("a")).is_allowed
    assert create(group(queue="a"), queue("a", status={"state": "Open"})).is_allowed
    assert "expected an open queue" in create(group(queue="a"), queue("a", status={"state": "Closed"})).message
    assert "does not exist" in create(group(queue="a")).message
    assert create(group()).is_allowed


def test_a_gang_may_be_in_a_queue_of_kai() -> None:
    kai = KaiQueue()
    kai.metadata.name = "a"
    hook, request = HOOKS["/podgroups/validate"], Request(CREATE, group(queue="a"), {})
    assert judge(hook, request, Facts.of([kai]), SETTINGS).is_allowed


def test_all_that_is_wrong_with_a_gang_is_said() -> None:
    both = {"highestTierAllowed": 1, "highestTierName": "rack"}
    verdict = create(group(minMember=-1, queue="a", networkTopology=both))
    fields = [problem.field for problem in verdict.problems]
    assert fields == ["spec.minMember", "spec.networkTopology", "spec.queue"]


def test_a_change_of_a_gang_is_refused_for_what_it_brings_and_nothing_else() -> None:
    closed = queue("a", status={"state": "Closed"})
    old = group(queue="a", minMember=-1, minTaskMember={"worker": 2})
    assert update(old, group(queue="a", minMember=-1, minTaskMember={"worker": 3}), closed).is_allowed
    assert "spec.minMember" in update(old, group(queue="a", minMember=-2), closed).message
    assert "does not exist" in update(old, group(queue="b", minMember=1), closed).message
    assert "expected an open queue" in update(group(minMember=1), group(queue="a", minMember=1), closed).message


@pytest.mark.parametrize("old", ["text", {"minMember": "many"}, {"minResources": {"cpu": "much"}}])
def test_a_gang_that_could_not_be_read_can_be_corrected(old: object) -> None:
    before = {**group(), "spec": old}
    assert update(before, group(minMember=1)).is_allowed
    assert not update(before, group(minMember=-1)).is_allowed


@pytest.mark.parametrize(
    ("written", "queue"), [("", "team-a"), ("default", "team-a"), ("own", "own"), (None, "team-a")]
)
def test_a_gang_without_a_queue_gets_that_of_its_namespace(written: str | None, queue: str) -> None:
    given = group() if written is None else group(queue=written)
    assert filled(given, namespace("a", "team-a"), namespace=("a"))["spec"]["queue"] == queue


def test_the_default_queue_is_for_everybody_else() -> None:
    bare = {key: value for key, value in group().items() if key != "spec"}
    assert filled(bare)["spec"] == {"queue": "default"}


@pytest.mark.parametrize("value", ["0", "-1", "0%", "100%", "half", "", "1.5"])
def test_budgets_of_pods_are_numbers_or_parts(value: str) -> None:
    key = "volcano.sh/jdb-min-available"
    assert f'metadata.annotations["{key}"]: expected a number of pods' in create(pod({key: value})).message
    assert create(pod({key: value}, "default-scheduler")).is_allowed


def test_a_pod_has_one_budget_at_most() -> None:
    both = {"volcano.sh/jdb-min-available": "2", "volcano.sh/jdb-max-unavailable": "25%"}
    assert "got both; drop one" in create(pod(both)).message
    assert create(pod({"volcano.sh/jdb-max-unavailable": "25%"})).is_allowed


def test_the_queue_of_a_pod_alone_must_exist() -> None:
    key = "scheduling.volcano.sh/queue-name"
    assert "does not exist" in create(pod({key: "a"})).message
    assert create(pod({key: "a"}), queue("a")).is_allowed
    assert create(pod({key: "a", "scheduling.k8s.io/group-name": "train"})).is_allowed


@pytest.mark.parametrize("gates", [[], [{"name": "example.com/other"}]])
def test_a_pod_that_asks_for_it_waits_at_the_gate_of_its_queue(gates: list[Json]) -> None:
    key = "scheduling.volcano.sh/queue-allocation-gate"
    given = pod({key: "true"})
    if gates:
        given["spec"]["schedulingGates"] = gates
    held = filled(given)
    assert held["spec"]["schedulingGates"] == [*gates, {"name": key}]
    assert filled(held) == held, "asked again, nothing is added"
    for other in (pod({key: "false"}), pod({}), pod({key: "true"}, scheduler="default-scheduler")):
        assert filled(other) == other
