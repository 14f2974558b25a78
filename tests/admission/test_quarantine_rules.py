"""What the scheduler would put aside is refused before it is there, for the same reason in the same words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.admission import HOOKS, Facts, Settings, answer
from muster.api import decode
from muster.api.kinds import kind_of
from muster.snapshot import Intake, Mirror
from muster.snapshot.messages import Event

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


def asked(document: dict[str, Any], old: dict[str, Any] | None = None) -> tuple[bool, str]:
    """Put the question that an API server puts about a new object, or about one that changes."""
    version, kind = kind_of(document)
    group, _, number = version.rpartition("/")
    request = {
        "uid": "u",
        "kind": {"group": group, "version": number, "kind": kind},
        "name": document["metadata"]["name"],
        "operation": "CREATE" if old is None else "UPDATE",
        "object": document,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    text = json.dumps(review) if document.get("spec") != "DEEP" else deep(json.dumps(review))
    hook = HOOKS[f"/{kind.lower()}s/validate"]
    body, verdict = answer(hook, text.encode(), Facts(), Settings(scheduler_names=("volcano",)))
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
