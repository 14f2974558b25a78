"""What the scheduler would put aside is refused before it is there, for the same reason in the same words."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from muster.admission import HOOKS, Facts, Settings, answer
from muster.api import HyperNode, KubeObject, Pod, PodGroup, Queue, decode
from muster.api.kinds import kind_of
from muster.snapshot import Intake, Mirror
from muster.snapshot.messages import Event
from tests.properties.hostile_objects import SCHEDULER, hostile
from tests.properties.test_hostile_objects import decoded

VOLCANO = "scheduling.volcano.sh/v1beta1"
META = {"name": "bad", "namespace": "default"}


def pod(*memory: str) -> dict[str, Any]:
    containers = [
        {"name": f"c{k}", "image": "x", "resources": {"requests": {"memory": m}}} for k, m in enumerate(memory)
    ]
    spec = {"schedulerName": "volcano", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": spec}


BAD = [
    pod("100E"),
    pod("9E", "9E"),
    {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": META, "spec": {"minTaskMember": {"a": 2**31 - 1}}},
    {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "bad"}, "spec": {"capability": {"cpu": "10E"}}},
]


def asked(document: dict[str, Any], old: dict[str, Any] | None = None, known: Facts | None = None) -> tuple[bool, str]:
    """Put the question that an API server puts about a new object, or about one that changes."""
    version, kind = kind_of(document)
    group, _, number = version.rpartition("/")
    request = {
        "uid": "u",
        "kind": {"group": group, "version": number, "kind": kind},
        "name": document["metadata"]["name"],
        "namespace": document["metadata"].get("namespace", ""),
        "operation": "CREATE" if old is None else "UPDATE",
        "object": document,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    text = json.dumps(review) if document.get("spec") != "DEEP" else deep(json.dumps(review))
    hook = HOOKS[f"/{kind.lower()}s/validate"]
    body, verdict = answer(hook, text.encode(), known or Facts(), Settings(scheduler_names=("volcano",)))
    assert json.loads(body)["response"]["allowed"] is verdict.is_allowed
    return verdict.is_allowed, verdict.message


def deep(text: str) -> str:
    return text.replace('"DEEP"', '{"x":' * 5000 + "1" + "}" * 5000)


@pytest.mark.parametrize("document", BAD, ids=lambda document: str(document["kind"]))
def test_what_would_be_put_aside_is_refused_in_the_same_words(document: dict[str, Any]) -> None:
    mirror = Mirror()
    Intake(mirror).take([Event("ADDED", decode(document))], 0.0)
    [held] = mirror.quarantine
    is_allowed, message = asked(document)
    assert not is_allowed
    assert held.reason in message


@pytest.mark.parametrize(
    "document", [each for each in BAD if each["kind"] != "Pod"], ids=lambda each: str(each["kind"])
)
def test_what_would_become_one_that_is_put_aside_is_refused_in_the_same_words(document: dict[str, Any]) -> None:
    mirror = Mirror()
    Intake(mirror).take([Event("ADDED", decode(document))], 0.0)
    [held] = mirror.quarantine
    is_allowed, message = asked(document, {**document, "spec": {}})
    assert not is_allowed
    assert held.reason in message


def test_what_can_be_counted_is_let_in() -> None:
    assert asked(pod("1Gi", "1Gi")) == (True, "")


def test_what_is_nested_too_deep_is_refused_and_breaks_nothing() -> None:
    document = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": META, "spec": "DEEP"}
    assert asked(document) == (False, "expected a document nested at most 100 levels deep")


# -- hostile objects, asked about and taken in ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(150))
def test_whatever_is_put_aside_would_have_been_refused_in_the_same_words(seed: int) -> None:
    """Objects come one by one; each is asked about beside what is there by then, and then taken in all the same."""
    mirror, known = Mirror([SCHEDULER]), Facts()
    intake = Intake(mirror)
    documents = hostile(Random(seed))
    for document, (thing, fault) in zip(documents, decoded(documents), strict=True):
        is_asked_about = is_ours(thing)
        answered = asked(document, known=known) if is_asked_about else (True, "")
        intake.take([Event("UNREADABLE" if fault else "ADDED", thing, fault)], 0.0)
        held = mirror.quarantine.find(thing)
        if is_asked_about and held is not None:
            assert not answered[0], held
            assert held.reason.removesuffix("...") in answered[1]
        known.add(thing)
    for held in mirror.quarantine:  # what came before its PodGroup is judged when that comes
        if isinstance(held.object, Pod) and is_ours(held.object):
            assert held.reason in asked(documents[names(documents).index(held.object.name)], known=known)[1]


@pytest.mark.parametrize("seed", range(150))
def test_what_is_hostile_can_be_corrected(seed: int) -> None:
    """Whatever stands there, a change to something plain is let in; so is taking off the finalizers of it."""
    documents = hostile(Random(seed))
    known = Facts.of(thing for thing, _ in decoded(documents))
    for document in documents:
        if document["kind"] in _PLAIN and document["apiVersion"] in (VOLCANO, HyperNode.api_version):
            plain = {**document, "metadata": {"name": document["metadata"]["name"]}, "spec": _PLAIN[document["kind"]]}
            assert asked(plain, document, known) == (True, "")
            ending = {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            assert asked({**document, "metadata": ending}, document, known) == (True, "")


_PLAIN: dict[str, dict[str, Any]] = {
    "PodGroup": {"minMember": 1},
    "Queue": {"weight": 1},
    "HyperNode": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]},
}


def is_ours(thing: KubeObject) -> bool:
    """Whether the server asks about an object before it is there."""
    return isinstance(thing, PodGroup | Queue | HyperNode) or (
        isinstance(thing, Pod) and thing.spec.scheduler_name == SCHEDULER
    )


def names(documents: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] if each["kind"] == "Pod" else "" for each in documents]


def member(label: str, **spec: Any) -> dict[str, Any]:
    made = pod("1Gi")
    marks = {"labels": {"k": label}, "annotations": {"scheduling.k8s.io/group-name": "g"}}
    return {**made, "metadata": {**META, **marks}, "spec": {**made["spec"], **spec}}


def group(version: str = VOLCANO) -> KubeObject:
    policies = [{"name": "s", "subGroupSize": 1, "matchLabelKeys": ["k"]}] if version == VOLCANO else []
    spec = {"minMember": 1, **({"subGroupPolicy": policies} if policies else {})}
    metadata = {"name": "g", "namespace": "default"}
    return decode({"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec})


def test_a_position_beyond_all_sub_groups_is_refused_once_the_pod_group_is_known() -> None:
    there = Facts.of([group()])
    expected = (
        'metadata.labels["k"]: expected a number below 2147483647, or no number, for the position of a sub-group, '
        'got "9999999999"'
    )
    assert asked(member("9999999999"), known=there) == (False, expected)
    assert asked(member("9999999999"))[0], "it may come before its PodGroup"
    assert asked(member("7"), known=there)[0]
    assert asked(member("9999999999", nodeName="n1"), known=there)[0], "it takes its room whatever its labels say"


def test_a_name_that_the_other_family_has_taken_is_refused() -> None:
    taken = "there is a {} of {} with this name already; rename one of them"
    queue: dict[str, Any] = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    other = decode({**queue, "apiVersion": "scheduling.run.ai/v2"})
    assert asked(queue, known=Facts.of([other])) == (False, taken.format("Queue", "scheduling.run.ai/v2"))
    gang = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}, "spec": {}}
    there = Facts.of([group("scheduling.run.ai/v2alpha2")])
    assert asked(gang, known=there) == (False, taken.format("PodGroup", "scheduling.run.ai/v2alpha2"))
    assert asked(gang, gang, there)[0], "one that stands can be changed"


def test_a_good_queue_is_let_in_beside_one_that_cannot_be_counted() -> None:
    parent: dict[str, Any] = {
        "apiVersion": VOLCANO,
        "kind": "Queue",
        "metadata": {"name": "up"},
        "spec": {"deserved": {"cpu": "4"}},
    }
    sibling = {**parent, "metadata": {"name": "bad"}, "spec": {"parent": "up", "deserved": {"cpu": "10E"}}}
    known = Facts.of([decode(parent), decode(sibling)])
    good = {**parent, "metadata": {"name": "good"}, "spec": {"parent": "up", "deserved": {"cpu": "2"}}}
    assert asked(good, known=known) == (True, "")
    assert asked(good, {**good, "spec": {"parent": 7}}, known) == (True, ""), "an unreadable one is corrected"


def test_an_unreadable_job_can_be_corrected() -> None:
    container = {"name": "c", "image": "x"}
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    meta = {"name": "j", "namespace": "default"}
    good = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta}
    good["spec"] = {"minAvailable": 1, "queue": "default", "tasks": [task]}
    default = decode({"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "default"}})
    for unreadable in (7, {"tasks": 7}, {"minAvailable": "x", "tasks": [task]}):
        assert asked(good, {**good, "spec": unreadable}, Facts.of([default])) == (True, "")
