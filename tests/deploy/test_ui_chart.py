"""The dashboard in the chart: off unless asked for, in pods of its own, with rights to read and to ask who reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from muster.api import KINDS
from muster.cli.commands import app
from tests.deploy.manifests import CHART
from tests.deploy.rendering import Chart

Json = dict[str, Any]


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(CHART)


def rendered(chart: Chart, values: Json | None = None, **ui: Any) -> dict[str, Json]:
    """The objects of the dashboard, by kind."""
    text = chart.render({"ui": {"enabled": True, **ui}, **(values or {})}, name="left", namespace="shards")
    return {each["kind"]: each for each in yaml.safe_load_all(text) if each["metadata"]["name"] == "left-ui"}


def rules(document: Json) -> Iterator[tuple[str, str, str]]:
    for rule in document["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def test_it_is_off_unless_asked_for(chart: Chart) -> None:
    assert "8330" not in chart.render()
    assert set(rendered(chart)) == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        *("Deployment", "Service", "NetworkPolicy"),
    }


def test_it_may_read_and_ask_who_reads_and_nothing_else(chart: Chart) -> None:
    granted = set(rules(rendered(chart)["ClusterRole"]))
    assert {rule for rule in granted if rule[2] not in ("list", "watch")} == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    groups = {api_version.rpartition("/")[0] for api_version, _ in KINDS}
    read = {group for group, _, verb in granted if verb in ("list", "watch")}
    assert read == groups | {"kai.scheduler", "kueue.x-k8s.io", "shard.volcano.sh"}
    assert {resource for _, resource, _ in granted}.isdisjoint({"secrets", "configmaps", "events"})
    assert set(rules(rendered(chart)["Role"])) == {("coordination.k8s.io", "leases", "list")}


def test_the_command_takes_the_arguments_of_the_container(chart: Chart) -> None:
    pod = rendered(chart, {"nodeSelector": "pool=a"}, secretName="ui-tls")["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    command, *options = container["args"]
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    read = group.commands[command].make_context(command, list(options)).params
    assert (read["components"], read["ui_listen"]) == ("ui", f":{container['ports'][0]['containerPort']}")
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert read["config"] == f"{mounts['configuration']}/scheduler.yaml"
    assert (str(read["cert"]), str(read["key"])) == tuple(
        f"{mounts['certificate']}/tls.{end}" for end in ("crt", "key")
    )
    assert [*read["node_selector"]] == ["pool=a"]
    probes = [container[f"{each}Probe"]["httpGet"] for each in ("liveness", "readiness", "startup")]
    assert {each["scheme"] for each in probes} == {"HTTPS"}
    assert all(each["securityContext"]["readOnlyRootFilesystem"] for each in [*pod["initContainers"], container])


def test_nobody_in_the_cluster_reaches_it_unless_named(chart: Chart) -> None:
    found = rendered(chart)
    policy, labels = found["NetworkPolicy"]["spec"], found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress"]
    assert "ingress" not in policy
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]
    opened = rendered(chart, {"ui": {"enabled": True, "from": peers}})["NetworkPolicy"]["spec"]["ingress"]
    assert opened == [{"ports": [{"protocol": "TCP", "port": "ui"}], "from": peers}]
    assert "NetworkPolicy" not in rendered(chart, {"networkPolicy": {"enabled": False}})
