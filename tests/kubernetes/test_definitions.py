from __future__ import annotations

import pytest
from typer.testing import CliRunner

from muster.api.definitions import definitions
from muster.cli.commands import app
from muster.cluster.kubernetes.client.commands import install
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError, gang, queue

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def hyper_node(*members: Json) -> Json:
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "rack"}}
    return {**head, "spec": {"tier": 1, "members": list(members)}}


def test_the_command_leaves_current_definitions_alone(control_plane: ControlPlane) -> None:
    result = CliRunner().invoke(app, ["crds", "install", "--kubeconfig", str(control_plane.kubeconfig)])
    assert result.exit_code == 0
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["unchanged"] * len(definitions())


def test_a_definition_of_somebody_else_is_kept(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    path = f"{DEFINITIONS}/hypernodes.topology.volcano.sh"
    merge = "application/merge-patch+json"
    kubectl.request("PATCH", path, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}, merge)
    done = {each.name: each.outcome for each in install(definitions(), control_plane.kubeconfig)}
    kubectl.request("PATCH", path, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "muster"}}}, merge)
    assert done["hypernodes.topology.volcano.sh"] == "kept"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (gang("g", 1, group={"minMember": -1})[0], "spec.minMember"),
        (gang("g", 1, group={"minResources": {"cpu": "much"}})[0], "spec.minResources"),
        (gang("g", 1, group={"networkTopology": {"mode": "firm"}})[0], "spec.networkTopology.mode"),
        (
            gang("g", 1, group={"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}})[0],
            "not both",
        ),
        (queue("q", weight="heavy"), "spec.weight"),
        (queue("q", weight=0), "spec.weight in body should be greater than or equal to 1"),
        (queue("q", weight=65536), "spec.weight in body should be less than or equal to 65535"),
        (hyper_node({"type": "Node", "selector": {"exactMatch": {"name": "Node_1"}}}), "name in body should match"),
        (hyper_node({"type": "Node", "selector": {"exactMatch": {"name": ""}}}), "should be at least 1 chars long"),
        (hyper_node({"type": "Switch", "selector": {"exactMatch": {"name": "n1"}}}), "spec.members"),
        (hyper_node({"type": "Node", "selector": {}}), "exactly one"),
        (
            hyper_node({"type": "Node", "selector": {"exactMatch": {"name": "n1"}, "regexMatch": {"pattern": "n"}}}),
            "exactly one",
        ),
        (hyper_node({"type": "HyperNode", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}}), "labels select"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_makes_no_sense_is_refused(kubectl: Kubectl, document: Json, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as refused:
        kubectl.create(document)
    assert refused.value.status == 422


def test_fields_of_other_tools_survive_and_defaults_are_filled_in(kubectl: Kubectl) -> None:
    made = kubectl.create(gang("g", 1, group={"networkTopology": {"highestTierAllowed": 2, "newer": "kept"}})[0])
    assert made["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2, "newer": "kept"}
    assert made["spec"]["queue"] == "default"
