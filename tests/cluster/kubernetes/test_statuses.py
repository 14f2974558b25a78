from __future__ import annotations

import json
from typing import Any

from muster.api import Condition, ObjectMeta, PodGroup, PodGroupStatus
from muster.cluster.kubernetes.client.kinds import Resource
from muster.cluster.kubernetes.sending.calls import write_group

RESOURCE = Resource(PodGroup, "/apis/scheduling.volcano.sh/v1beta1", "podgroups")
OURS = Condition(type="Unschedulable", status="True", reason="insufficient")
FOREIGN = Condition(type="Checked", status="True", reason="ByAnother")


def group(*conditions: Condition) -> PodGroup:
    meta = ObjectMeta(name="train", namespace="ns", uid="u1")
    return PodGroup(metadata=meta, status=PodGroupStatus(phase="Running", running=8, conditions=list(conditions)))


def written(wanted: PodGroup, seen: PodGroup, assumed: PodGroup) -> dict[str, Any]:  # Any: a document
    body: dict[str, Any] = json.loads(write_group(RESOURCE, wanted, [seen, assumed]).body or b"")
    return body


def test_a_status_is_for_the_object_that_it_was_made_for() -> None:
    assert written(group(), group(), group())["metadata"] == {"uid": "u1"}


def test_conditions_that_stay_as_they_are_are_left_to_those_who_write_them() -> None:
    body = written(group(FOREIGN), group(FOREIGN), group(FOREIGN))
    assert body["status"] == {"phase": "Running", "running": 8, "succeeded": 0, "failed": 0}


def test_conditions_are_written_when_one_changes_or_is_not_known_to_stand_there() -> None:
    for seen, assumed in ((group(FOREIGN), group(OURS, FOREIGN)), (group(OURS, FOREIGN), group(FOREIGN))):
        body = written(group(FOREIGN), seen, assumed)
        assert [each["type"] for each in body["status"]["conditions"]] == ["Checked"]
