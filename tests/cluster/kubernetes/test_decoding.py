from __future__ import annotations

import msgspec
import pytest

from muster.api import Node, Pod, UserError
from muster.cluster.kubernetes.client.kinds import ObjectDecoder, is_same


def node_json(**status: object) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "n1", "resourceVersion": "7"}, "status": status})


def test_nulls_count_as_absent() -> None:
    decoded = ObjectDecoder(Pod).decode(b'{"metadata": {"name": "p", "labels": null}, "spec": {"nodeName": null}}')
    assert isinstance(decoded, Pod)
    assert (decoded.key, decoded.metadata.labels, decoded.spec.node_name) == ("default/p", {}, "")


def test_a_wrong_field_is_named() -> None:
    with pytest.raises(UserError, match="capacity"):
        ObjectDecoder(Node).decode(node_json(capacity={"cpu": "much"}))


def test_what_is_no_object_at_all_is_said_so() -> None:
    with pytest.raises(UserError, match="Node"):
        ObjectDecoder(Node).decode(b"[1]")


def test_a_heartbeat_changes_nothing_that_is_read() -> None:
    def beat(moment: str, version: str) -> Node:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": moment}
        body = {"metadata": {"name": "n1", "resourceVersion": version}, "status": {"conditions": [condition]}}
        decoded = ObjectDecoder(Node).decode(msgspec.json.encode(body))
        assert isinstance(decoded, Node)
        return decoded

    assert is_same(beat("2026-01-01T00:00:00Z", "1"), beat("2026-01-01T00:00:10Z", "2"))


def test_a_changed_amount_is_a_change() -> None:
    decoder = ObjectDecoder(Node)
    old, new = (decoder.decode(node_json(allocatable={"cpu": amount})) for amount in ("1", "2"))
    assert not is_same(old, new)
