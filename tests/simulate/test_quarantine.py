"""Saved clusters with one bad object beside a good gang: the gang starts, the object is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.api import UserError, load_files
from muster.simulate import SimulationResult, simulate

Json = dict[str, Any]
VOLCANO = "scheduling.volcano.sh/v1beta1"


def made(kind: str, name: str, api_version: str = "v1", **parts: Any) -> Json:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def pod(name: str, *, group: str = "", cpu: str = "1", created: str = "2026-01-01T00:00:00Z") -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    document = made("Pod", name, spec={"schedulerName": "volcano", "containers": [container]})
    document["metadata"]["creationTimestamp"] = created
    if group:
        document["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}
    return document


HEAD = made("ClusterSnapshot", "x", "muster.sh/v1alpha1", spec={"takenAt": "2026-01-02T00:00:00Z"})
GOOD = [
    made("Node", "n1", status={"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}),
    made("Queue", "default", VOLCANO, spec={}),
    made("PodGroup", "good", VOLCANO, spec={"minMember": 2, "queue": "default"}),
    pod("good-0", group="good"),
    pod("good-1", group="good"),
]
CLAIM = '{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"evil"},"spec":'
DEEP = CLAIM + '{"x":' * 5000 + "1" + "}" * 5001


def run(folder: Path, bad: Sequence[str | Json], *, saved: bool = True) -> SimulationResult:
    documents = [*([HEAD] if saved else ()), *GOOD[:2], *bad, *GOOD[2:]]
    file = folder / "cluster.jsonl"
    file.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents))
    return simulate(load_files([file]), cycles=4)


def bound(result: SimulationResult) -> set[str]:
    return {made.pod for cycle in result.cycles for made in cycle.decisions}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (DEEP, "nested at most 100 levels deep"),
        (made("Pod", "evil", spec={"containers": "what"}), "spec.containers: expected a list"),
        (pod("evil", cpu="1e17"), "fits 64 bits"),
        (made("Node", "evil", status={"allocatable": {"cpu": "10E"}}), "status.allocatable.cpu"),
        (made("PodGroup", "evil", VOLCANO, spec={"minMember": 2**31 - 1}), "at most 1000000000 pods"),
        (made("PersistentVolumeClaim", "evil", spec={"resources": {"requests": {"storage": "10E"}}}), "storage"),
    ],
    ids=["deep", "odd", "pod", "node", "group", "claim"],
)
def test_the_gang_starts_and_the_bad_object_is_named(tmp_path: Path, bad: str | Json, said: str) -> None:
    result = run(tmp_path, [bad])
    assert bound(result) == {"default/good-0", "default/good-1"}
    [held] = result.to_json()["quarantined"]
    assert held["name"] == "evil"
    assert said in held["reason"]
    with pytest.raises(UserError, match=r"evil|not JSON"):
        run(tmp_path, [bad], saved=False)


def test_a_long_chain_of_hypernodes_is_a_topology_like_any_other(tmp_path: Path) -> None:
    chain = []
    for tier in range(1, 1501):
        kind, name = ("Node", "n1") if tier == 1 else ("HyperNode", f"h{tier - 1}")
        members = [{"type": kind, "selector": {"exactMatch": {"name": name}}}]
        spec = {"tier": tier, "members": members}
        chain.append(made("HyperNode", f"h{tier}", "topology.volcano.sh/v1alpha1", spec=spec))
    result = run(tmp_path, chain)
    assert bound(result) == {"default/good-0", "default/good-1"}
    assert result.to_json()["quarantined"] == []


@pytest.mark.parametrize("saved", [True, False])
def test_objects_may_be_as_old_or_new_as_years_go(tmp_path: Path, *, saved: bool) -> None:
    odd = [pod("old", created="0001-01-01T00:00:00Z"), pod("new", created="9999-12-31T23:59:59Z")]
    result = run(tmp_path, odd, saved=saved)
    assert bound(result) == {"default/good-0", "default/good-1", "default/old", "default/new"}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("[]", "expected a mapping with apiVersion and kind, got a list"),
        ('{"apiVersion": "v1", "metadata": {"name": "evil"}}', "kind: expected a string"),
        (made("Pod", "", spec={"containers": []}), "metadata.name: expected a name"),
        (GOOD[3], "the same object already stands in"),
        ({"apiVersion": "v1", "kind": "List", "items": [None]}, "item 1: expected a mapping"),
    ],
    ids=["list", "no kind", "no name", "twice", "nothing in a list"],
)
def test_what_is_no_object_costs_nothing_but_itself(tmp_path: Path, bad: str | Json, said: str) -> None:
    result = run(tmp_path, [bad])
    assert bound(result) == {"default/good-0", "default/good-1"}
    [held] = result.to_json()["quarantined"]
    assert said in held["reason"]
    with pytest.raises(UserError):
        run(tmp_path, [bad], saved=False)


def test_half_a_character_in_a_name_is_read_as_others_read_it(tmp_path: Path) -> None:
    result = run(tmp_path, [json.dumps(pod("evil")).replace('"evil"', r'"ev\ud800il-\\ud800-\ud83d\ude00"')])
    assert bound(result) == {"default/good-0", "default/good-1", "default/ev\ufffdil-\\ud800-\U0001f600"}


def test_a_gang_starts_beside_thirty_thousand_roles(tmp_path: Path) -> None:
    """Each added to what was there by writing all of it again took minutes."""
    roles = {f"role-{number}": 1 for number in range(30_000)}
    result = run(tmp_path, [made("PodGroup", "evil", VOLCANO, spec={"minMember": 1, "minTaskMember": roles})])
    assert bound(result) == {"default/good-0", "default/good-1"}
