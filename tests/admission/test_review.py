"""AdmissionReview: questions and answers as an API server sends and reads them."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest

from muster.admission import HOOKS, BadReviewError, answer
from muster.admission.hooks import Address, configurations
from tests.admission.requests import SETTINGS, Json, create, document, facts, job, question, queue, review, update


def test_an_object_that_is_fine_is_allowed_without_a_word() -> None:
    assert review("Queue", "CREATE", queue("a")) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True},
    }


def test_a_refusal_names_object_field_and_what_is_right() -> None:
    given = document("PodGroup", "train", {"queue": "nobody"})
    response = review("PodGroup", "CREATE", given, namespace="team-a")["response"]
    assert response["allowed"] is False
    message = response["status"].pop("message")
    assert message.startswith('PodGroup team-a/train: spec.queue: expected the name of a queue, got "nobody"')
    assert response["status"] == {"code": 422, "reason": "Invalid"}


def test_what_may_not_be_deleted_is_forbidden() -> None:
    response = review("Queue", "DELETE", None, name="default", oldObject=queue("default"))["response"]
    assert (response["status"]["code"], response["allowed"]) == (403, False)


def test_an_operation_that_nobody_asked_for_is_refused() -> None:
    assert "expected the operation CREATE" in review("Queue", "CONNECT", queue("a"))["response"]["status"]["message"]


def test_warnings_go_with_the_permission_and_are_short() -> None:
    long = document("HyperNode", "a", {"tier": 2, "members": [_inside(f"{'b' * 300}")]})
    response = review("HyperNode", "CREATE", long)["response"]
    assert response["allowed"] is True
    assert [len(warning) for warning in response["warnings"]] == [256]


def _inside(name: str) -> Json:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


def test_defaults_come_as_a_json_patch() -> None:
    response = review("Queue", "CREATE", queue("a"), verb="mutate")["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/spec/weight", "value": 1},
        {"op": "add", "path": "/spec/reclaimable", "value": True},
    ]
    assert "patch" not in review("Queue", "CREATE", queue("a", weight=1, reclaimable=True), verb="mutate")["response"]


def test_a_name_that_the_server_will_make_up_is_none_to_miss() -> None:
    given = job()
    given["metadata"] = {"generateName": "train-"}
    assert review("Job", "CREATE", given)["response"]["allowed"] is True
    given["metadata"] = {"generateName": "t" * 60}
    assert "at most 63" in review("Job", "CREATE", given)["response"]["status"]["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "in JSON"),
        (b"[]", "in JSON"),
        (b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}', "got 'AdmissionReview' of"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "a request with a uid"),
        (msgspec.json.encode(question("Pod", "CREATE", {})), "/queues/validate is about Queue"),
    ],
)
def test_what_is_no_question_is_said_to_be_none(body: bytes, said: str) -> None:
    with pytest.raises(BadReviewError, match=said):
        answer(HOOKS["/queues/validate"], body, facts(), SETTINGS)


# -- configurations ------------------------------------------------------------------------------------------


def webhooks(address: Address) -> list[Json]:
    made = configurations(address, scheduler_names=("volcano", "muster"))
    assert [each["kind"] for each in made] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    return [webhook for each in made for webhook in each["webhooks"]]


def test_every_hook_is_registered_under_its_path() -> None:
    paths = {each["clientConfig"]["service"]["path"] for each in webhooks(Address())}
    assert paths == HOOKS.keys()
    addresses = {each["clientConfig"]["url"] for each in webhooks(Address("https://host/"))}
    assert addresses == {f"https://host{path}" for path in HOOKS}


def test_pods_are_asked_about_by_scheduler_and_never_held_up() -> None:
    policies = {each["name"]: each["failurePolicy"] for each in webhooks(Address())}
    assert {policies.pop(f"{verb}-pods.muster.sh") for verb in ("validate", "mutate")} == {"Ignore"}
    assert set(policies.values()) == {"Fail"}
    ours = "object.spec.schedulerName in ['volcano', 'muster']"
    assert conditions("validate-pods.muster.sh") == [ours]
    [first, second] = conditions("mutate-pods.muster.sh")
    assert first == ours
    assert "queue-allocation-gate" in second, "nobody else waits for an answer"


def test_pod_groups_are_asked_about_again_when_their_spec_changes_and_not_for_their_status() -> None:
    [asked] = [each for each in webhooks(Address()) if each["name"] == "validate-podgroups.muster.sh"]
    [rule] = asked["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE", "UPDATE"], ["podgroups"])
    # A new object has no old one to be compared with.
    [expression] = conditions("validate-podgroups.muster.sh")
    assert expression == "request.operation != 'UPDATE' || object.?spec != oldObject.?spec"


def conditions(name: str) -> list[str]:
    [asked] = [each for each in webhooks(Address()) if each["name"] == name]
    return [condition["expression"] for condition in asked["matchConditions"]]


def test_fields_that_nobody_knows_are_warned_about_by_name() -> None:
    group = document("PodGroup", "g", {"minMembers": 3, "queue": "default"})
    verdict = create(group)
    assert (verdict.is_allowed, verdict.warnings) == (True, ["spec.minMembers: unknown field; did you mean minMember?"])


def test_fields_that_stood_there_before_are_not_warned_about_again() -> None:
    before = document("PodGroup", "g", {"minMembers": 3, "queue": "default"})
    after = document("PodGroup", "g", {"minMembers": 3, "que": "a", "minMember": 1, "queue": "default"})
    assert update(before, after).warnings == ["spec.que: unknown field; did you mean queue?"]


def test_fields_of_pods_are_the_servers_business() -> None:
    assert create(document("Pod", "p", {"containers": [], "fromTheFuture": 1})).warnings == []
