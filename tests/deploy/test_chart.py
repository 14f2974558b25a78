"""The chart and the plain manifests: current, complete, and with no more rights than the scheduler uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from muster import __version__
from muster.api import KINDS
from muster.cli.commands import app
from muster.framework import parse_config
from tests.deploy.manifests import CHART, DEPLOY, made_files
from tests.deploy.rendering import Chart, Values

Json = dict[str, Any]

#: Plurals that do not end in a mere "s".
_PLURALS = {"Topology": "topologies"} | {
    kind: f"{kind.lower()}es" for kind in ("PriorityClass", "StorageClass", "DeviceClass")
}


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(CHART)


def rendered(chart: Chart, values: Values | None = None) -> dict[str, Json]:
    documents = [document for document in yaml.safe_load_all(chart.render(values)) if document]
    found = {document["kind"]: document for document in documents}
    assert len(found) == len(documents)
    return found


def containers(chart: Chart) -> list[Json]:
    pod = rendered(chart)["Deployment"]["spec"]["template"]["spec"]
    return [*pod["initContainers"], *pod["containers"]]


def run_options(arguments: Sequence[str]) -> Json:
    """What `muster` understands the arguments to say."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    command, *options = arguments
    read: Json = group.commands[command].make_context(command, list(options)).params
    return read


def rules(document: Json) -> Iterator[tuple[str, str, str]]:
    for rule in document["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def test_files_that_are_made_from_others_are_current() -> None:
    behind = [path.name for path, text in made_files() if not path.exists() or path.read_text() != text]
    assert behind == [], "run: make manifests"


def test_the_chart_is_of_this_version(chart: Chart) -> None:
    assert chart.about["appVersion"] == __version__


def test_the_chart_has_all_its_parts(chart: Chart) -> None:
    assert set(rendered(chart)) == {
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"),
        *("ConfigMap", "Deployment", "PodDisruptionBudget", "Service"),
    }
    assert rendered(chart)["Deployment"]["spec"]["replicas"] == 2


def test_objects_have_names_of_the_release_and_lie_in_its_namespace(chart: Chart) -> None:
    text = chart.render({"serviceMonitor": {"enabled": True}}, name="left", namespace="shards")
    for document in yaml.safe_load_all(text):
        assert document["metadata"]["name"].startswith("left")
        if not document["kind"].startswith("Cluster"):
            assert document["metadata"]["namespace"] == "shards"
    assert "muster-system" not in text


def test_selectors_find_the_pods(chart: Chart) -> None:
    found = rendered(chart, {"serviceMonitor": {"enabled": True}})
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert found["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert found["Service"]["spec"]["selector"].items() <= labels
    monitored = found["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
    assert monitored <= found["Service"]["metadata"]["labels"].items()


# -- values --------------------------------------------------------------------------------------------------


def test_every_value_is_read_by_a_template(chart: Chart) -> None:
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())

    def unread(values: Values, path: str) -> Iterator[str]:
        for key, value in values.items():
            here = f"{path}.{key}"
            if re.search(rf"{re.escape(here)}\b(?!\.)", text) is None:
                if not isinstance(value, dict) or not value:
                    yield here
                else:
                    yield from unread(value, here)

    assert list(unread(chart.values, ".Values")) == []


def test_values_reach_the_objects(chart: Chart) -> None:
    found = rendered(
        chart,
        {
            "image": {"repository": "example/muster", "tag": "v1"},
            "nodeSelector": "pool=training",
            "schedulerName": "muster",
            "config": "actions: allocate\ntiers: []\n",
            "extraArguments": ["--period", "2"],
            "imagePullSecrets": [{"name": "registry"}],
            "podDisruptionBudget": {"enabled": False},
            "pods": {"nodeSelector": {"role": "system"}, "annotations": {"a": "b"}},
            "priorityClassName": "",
        },
    )
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert {each["image"] for each in [*pod["initContainers"], *pod["containers"]]} == {"example/muster:v1"}
    read = run_options(pod["containers"][0]["args"])
    assert (read["scheduler_name"], read["node_selector"], read["period"]) == (["muster"], "pool=training", 2)
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"role": "system"}
    assert "priorityClassName" not in pod
    assert found["Deployment"]["spec"]["template"]["metadata"]["annotations"] == {"a": "b"}
    assert found["ConfigMap"]["data"] == {"scheduler.yaml": "actions: allocate\ntiers: []\n"}
    assert "PodDisruptionBudget" not in found


def test_the_command_takes_the_arguments_of_the_container(chart: Chart) -> None:
    scheduler = containers(chart)[-1]
    read = run_options(scheduler["args"])
    folder = next(mount["mountPath"] for mount in scheduler["volumeMounts"] if mount["name"] == "configuration")
    assert read["config"] == f"{folder}/{next(iter(rendered(chart)['ConfigMap']['data']))}"
    assert read["listen"] == f":{scheduler['ports'][0]['containerPort']}"
    assert read["scheduler_name"] == ["volcano"]
    assert read["lease_name"] == rendered(chart)["Role"]["rules"][1]["resourceNames"][0]


def test_the_configuration_in_the_chart_is_one_that_muster_reads(chart: Chart) -> None:
    text = rendered(chart)["ConfigMap"]["data"]["scheduler.yaml"]
    assert parse_config(text, "the chart").actions


# -- safety ---------------------------------------------------------------------------------------------------


def test_containers_have_no_root_no_capabilities_and_nothing_to_write_to(chart: Chart) -> None:
    pod = rendered(chart)["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in containers(chart):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= each["resources"].keys()


def test_images_have_tags_that_do_not_move(chart: Chart) -> None:
    images = [each["image"] for each in containers(chart)]
    images += re.findall(r"^(?:FROM|ARG PYTHON_IMAGE=)\s*([^\s$]+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 3
    for image in images:
        assert re.fullmatch(r"[\w./-]+:[\w.-]+", image)
        assert not image.endswith(":latest")


def test_the_image_and_the_deployment_agree(chart: Chart) -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    pod = rendered(chart)["Deployment"]["spec"]["template"]["spec"]
    user = pod["securityContext"]
    assert f"\nUSER {user['runAsUser']}:{user['runAsGroup']}\n" in dockerfile
    cache = re.findall(r"NUMBA_CACHE_DIR=(\S+)", dockerfile)
    seed, target = pod["initContainers"][0]["command"][-2:]
    assert [f"{cache[0]}/.", cache[1]] == [seed, target]
    assert all(target in [mount["mountPath"] for mount in each["volumeMounts"]] for each in containers(chart))


# -- rights ---------------------------------------------------------------------------------------------------


def test_every_kind_that_muster_follows_may_be_listed_and_watched(chart: Chart) -> None:
    granted = set(rules(rendered(chart)["ClusterRole"]))
    for api_version, kind in KINDS:
        group = api_version.rpartition("/")[0]
        plural = _PLURALS.get(kind, f"{kind.lower()}s")
        assert {(group, plural, "list"), (group, plural, "watch")} <= granted, kind


def test_nothing_else_may_be_read_or_written(chart: Chart) -> None:
    granted = set(rules(rendered(chart)["ClusterRole"]))
    assert not any("*" in part for rule in granted for part in rule)
    followed = {api_version.rpartition("/")[0] for api_version, _ in KINDS} | {"kai.scheduler", "kueue.x-k8s.io"}
    assert {group for group, _, _ in granted} == followed | {"events.k8s.io", "shard.volcano.sh"}
    assert {resource for _, resource, _ in granted}.isdisjoint({"secrets", "configmaps", "serviceaccounts"})
    assert sorted(rule for rule in granted if rule[2] not in {"list", "watch"}) == [
        ("", "persistentvolumeclaims", "patch"),
        ("", "persistentvolumes", "patch"),
        ("", "pods", "get"),
        ("", "pods/binding", "create"),
        ("", "pods/eviction", "create"),
        ("", "pods/status", "patch"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
        ("scheduling.run.ai", "podgroups", "patch"),
        ("scheduling.run.ai", "podgroups/status", "patch"),
        ("scheduling.run.ai", "queues/status", "patch"),
        ("scheduling.volcano.sh", "podgroups", "patch"),
        ("scheduling.volcano.sh", "podgroups/status", "patch"),
        ("scheduling.volcano.sh", "queues", "create"),
        ("scheduling.volcano.sh", "queues/status", "patch"),
        ("shard.volcano.sh", "nodeshards", "patch"),
        ("shard.volcano.sh", "nodeshards/status", "patch"),
        ("topology.volcano.sh", "hypernodes/status", "patch"),
    ]


def test_the_lease_is_the_only_thing_of_its_own_namespace(chart: Chart) -> None:
    role = rendered(chart)["Role"]
    assert sorted(rules(role)) == [("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")]
    named = [rule for rule in role["rules"] if "create" not in rule["verbs"]]
    assert all(rule["resourceNames"] == ["muster"] for rule in named)
