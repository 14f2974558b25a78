"""Objects as Volcano's users write them, against the definitions on a real API server, which only checks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from muster.api import UserError, decode, problems
from muster.api.definitions import definitions
from muster.cli.main import run
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_PLACES = {
    (f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]): (
        spec["scope"] == "Namespaced",
        spec["names"]["plural"],
    )
    for spec in (definition["spec"] for definition in definitions())
}


def check(kubectl: Kubectl, document: Json) -> Json:
    """What the server would make of an object; it knows no field that the definition does not."""
    namespaced, plural = _PLACES[document["apiVersion"], document["kind"]]
    namespace = "namespaces/default/" if namespaced else ""
    path = f"/apis/{document['apiVersion']}/{namespace}{plural}?dryRun=All&fieldValidation=Strict"
    metadata = {name: value for name, value in document["metadata"].items() if name != "namespace"}
    return kubectl.request("POST", path, {**document, "metadata": metadata})


def pod_group(**spec: object) -> Json:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "train"}}
    return {**head, "spec": spec}


def queue(**spec: object) -> Json:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}
    return {**head, "spec": spec}


def hyper_node(*members: Json, **spec: object) -> Json:
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "rack-1"}}
    return {**head, "spec": {"tier": 1, "members": list(members), **spec}}


def job(task: Json | None = None, **spec: object) -> Json:
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
    return {
        **head,
        "spec": {"tasks": [{"replicas": 8, "name": "worker", "template": _TEMPLATE, **(task or {})}], **spec},
    }


_TEMPLATE = {
    "metadata": {"creationTimestamp": None, "labels": {"app": "train"}},
    "spec": {
        "restartPolicy": "OnFailure",
        "containers": [
            {
                "name": "main",
                "image": "train:1",
                "command": ["torchrun"],
                "env": [{"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
                "resources": {"limits": {"nvidia.com/gpu": 8, "memory": "64Gi"}},
            }
        ],
    },
}

GOOD = {
    "a gang with roles and amounts": pod_group(
        minMember=4, minTaskMember={"master": 1, "worker": 3}, minResources={"cpu": 4, "memory": "8Gi", "x/y": "1500m"}
    ),
    "a gang of sub-groups close together": pod_group(
        minMember=8,
        queue="research",
        networkTopology={"mode": "soft", "highestTierName": "spine"},
        subGroupPolicy=[
            {
                "name": "ring",
                "subGroupSize": 4,
                "minSubGroups": 2,
                "labelSelector": {"matchExpressions": [{"key": "role", "operator": "In", "values": ["worker"]}]},
                "matchLabelKeys": ["volcano.sh/partition-id"],
                "networkTopology": {"highestTierAllowed": 1},
            }
        ],
    ),
    "an empty gang": pod_group(),
    "a queue with all that Volcano's queues have": queue(
        weight=4,
        reclaimable=False,
        parent="root",
        priority=10,
        type="x",
        capability={"cpu": "100"},
        deserved={"nvidia.com/gpu": 8},
        guarantee={"resource": {"cpu": "1.5"}},
        affinity={"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}},
        extendClusters=[{"name": "west", "weight": 2, "capacity": {"cpu": 8}}],
    ),
    "members by name, by pattern, by label": hyper_node(
        {"type": "Node", "selector": {"exactMatch": {"name": "node-1"}}},
        {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^rack-[0-9]+$"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "1"}}}},
        tierName="rack",
    ),
    "a job with partitions, policies, plugins and volumes": job(
        {
            "minAvailable": 4,
            "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
            "partitionPolicy": {
                "totalPartitions": 2,
                "partitionSize": 4,
                "minPartitions": 1,
                "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
            },
            "dependsOn": {"name": ["data"], "iteration": "any"},
        },
        schedulerName="volcano",
        minAvailable=4,
        queue="research",
        policies=[{"event": "PodEvicted", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
        plugins={"ssh": [], "svc": ["--publish-not-ready-addresses=true"]},
        volumes=[{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}],
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
        ttlSecondsAfterFinished=60,
        maxRetry=5,
    ),
}


def examples() -> Iterator[tuple[str, Json]]:
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if isinstance(document, dict) and (document.get("apiVersion"), document.get("kind")) in _PLACES:
                yield f"{path.relative_to(EXAMPLES)}: {document['kind']} {document['metadata']['name']}", document


@pytest.mark.parametrize("document", GOOD.values(), ids=GOOD.keys())
def test_objects_of_volcano_apply_unchanged(kubectl: Kubectl, document: Json) -> None:
    made = check(kubectl, document)
    assert _without_defaults(made["spec"], document["spec"]) == document["spec"]


def test_every_example_applies(kubectl: Kubectl) -> None:
    seen = list(examples())
    assert len(seen) > 20
    refused = []
    for name, document in seen:
        if _is_wrong_on_purpose(document):
            continue
        try:
            check(kubectl, document)
        except RefusedError as fault:
            refused.append(f"{name}: {fault}")
    assert refused == []


def _is_wrong_on_purpose(document: Json) -> bool:
    return next(iter(problems(decode(document))), None) is not None


def _without_defaults(made: object, given: object) -> object:
    """What the server returned of what was sent, wherever that stands."""
    if isinstance(made, dict) and isinstance(given, dict):
        return {key: _without_defaults(made.get(key), value) for key, value in given.items()}
    if isinstance(made, list) and isinstance(given, list) and len(made) == len(given):
        return [_without_defaults(*pair) for pair in zip(made, given, strict=True)]
    return made


NODE = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
BAD = {
    "a negative minimum": (pod_group(minMember=-1), "spec.minMember"),
    "a negative minimum of a role": (pod_group(minTaskMember={"worker": -1}), "spec.minTaskMember.worker"),
    "a negative amount": (pod_group(minResources={"cpu": "-1"}), "spec.minResources.cpu"),
    "a negative amount without quotes": (pod_group(minResources={"cpu": -1}), "spec.minResources.cpu"),
    "no amount": (queue(capability={"cpu": "much"}), "spec.capability.cpu"),
    "an unknown mode": (pod_group(networkTopology={"mode": "firm"}), "spec.networkTopology.mode"),
    "a tier given twice": (
        pod_group(networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
        "give highestTierAllowed or highestTierName, not both",
    ),
    "a tier given twice for a sub-group": (
        pod_group(subGroupPolicy=[{"name": "a", "networkTopology": {"highestTierAllowed": 1, "highestTierName": "b"}}]),
        "give highestTierAllowed or highestTierName, not both",
    ),
    "two policies of one name": (pod_group(subGroupPolicy=[{"name": "a"}, {"name": "a"}]), "Duplicate value"),
    "a policy without a name": (pod_group(subGroupPolicy=[{"subGroupSize": 1}]), "name"),
    "sub-groups of nobody": (pod_group(subGroupPolicy=[{"name": "a", "subGroupSize": 0}]), "subGroupSize"),
    "a queue below itself": (queue(parent="research"), "a queue cannot be its own parent"),
    "an unknown strategy": (queue(dequeueStrategy="random"), "spec.dequeueStrategy"),
    "a member of no known type": (hyper_node({**NODE, "type": "Switch"}), "spec.members"),
    "a member that nothing selects": (hyper_node({"type": "Node"}), "selector"),
    "a member that is selected in no way": (hyper_node({"type": "Node", "selector": {}}), "give exactly one of"),
    "a member that is selected in two ways": (
        hyper_node({"type": "Node", "selector": {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}}}),
        "give exactly one of",
    ),
    "a member without a name": (hyper_node({"type": "Node", "selector": {"exactMatch": {"name": ""}}}), "exactMatch"),
    "HyperNodes by label": (
        hyper_node({"type": "HyperNode", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}}),
        "labels select nodes, not HyperNodes",
    ),
    "a tier below zero": (hyper_node(NODE, tier=-1), "spec.tier"),
    "partitions that do not add up": (
        job({"partitionPolicy": {"totalPartitions": 3, "partitionSize": 4}}),
        "replicas must be totalPartitions times partitionSize",
    ),
    "a minimum that is no number of partitions": (
        job({"minAvailable": 6, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 4, "minPartitions": 1}}),
        "minAvailable must be minPartitions times partitionSize",
    ),
    "a minimum that is too large": (job({"minAvailable": 9}), "minAvailable must not be more than replicas"),
    "a policy on an event and an exit code": (
        job(policies=[{"event": "PodFailed", "exitCode": 1, "action": "RestartJob"}]),
        "give events or exitCode, not both",
    ),
    "a policy on nothing": (job(policies=[{"action": "RestartJob"}]), "give an event, events or an exitCode"),
    "a policy on success": (job(policies=[{"exitCode": 0, "action": "RestartJob"}]), "0 is not the exit code"),
}


@pytest.mark.parametrize(("document", "message"), BAD.values(), ids=BAD.keys())
def test_the_server_refuses(kubectl: Kubectl, document: Json, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as refused:
        check(kubectl, document)
    assert refused.value.status == 422


@pytest.mark.parametrize("document", [bad for bad, _ in BAD.values() if bad["kind"] != "Job"], ids=lambda _: "")
def test_what_the_server_refuses_is_refused_in_files(document: Json) -> None:
    try:
        found = list(problems(decode(document)))
    except UserError:
        return
    assert found


# -- installing -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kubectl")
def test_installing_again_changes_nothing(control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "install", "--kubeconfig", str(control_plane.kubeconfig)]) == 0
    told = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert told == ["unchanged"] * len(definitions())


def test_a_definition_of_volcano_is_left_alone_and_must_serve_the_version(
    control_plane: ControlPlane, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    install = ["crds", "install", "--dry-run", "--kubeconfig", str(control_plane.kubeconfig)]
    path = f"{DEFINITIONS}/jobs.batch.volcano.sh"
    ours = kubectl.request("GET", path)
    (version,) = ours["spec"]["versions"]
    try:
        kubectl.request("PATCH", path, {"metadata": {"labels": None}}, MERGE)
        assert run(install) == 0
        assert "jobs.batch.volcano.sh exists, left alone\n" in capsys.readouterr().out
        newer = {**version, "name": "v1", "storage": False}
        kubectl.request("PATCH", path, {"spec": {"versions": [{**version, "served": False}, newer]}}, MERGE)
        assert run(install) == 1
        assert "left alone; it does not serve v1alpha1, which Muster needs\n" in capsys.readouterr().out
    finally:
        patch = {"metadata": {"labels": ours["metadata"]["labels"]}, "spec": {"versions": [version]}}
        kubectl.request("PATCH", path, patch, MERGE)


def test_a_dry_run_installs_nothing(
    control_plane: ControlPlane, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    install = ["crds", "install", "--kubeconfig", str(control_plane.kubeconfig)]
    path = f"{DEFINITIONS}/jobs.batch.volcano.sh"
    kubectl.request("DELETE", path)
    kubectl.wait(lambda: _is_gone(kubectl, path))
    assert run([*install, "--dry-run"]) == 0
    assert "jobs.batch.volcano.sh would be installed\n" in capsys.readouterr().out
    assert _is_gone(kubectl, path)
    assert run(install) == 0
    assert "jobs.batch.volcano.sh installed\n" in capsys.readouterr().out
    conditions = {known["type"]: known["status"] for known in kubectl.request("GET", path)["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


def _is_gone(kubectl: Kubectl, path: str) -> bool:
    try:
        kubectl.request("GET", path)
    except RefusedError as fault:
        return fault.status == 404
    return False


def test_a_cluster_that_does_not_answer_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "install", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "no such kubeconfig" in capsys.readouterr().err
