"""The chart and the plain manifests: current, complete, and with no more rights than the scheduler uses."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.core import TyperGroup

from muster import __version__
from muster.api import KINDS
from muster.cli.commands import app
from muster.framework import parse_config
from tests.deploy import sbom
from tests.deploy.manifests import CHART, DEPLOY, made_files
from tests.deploy.rendering import Chart, Values
from tests.deploy.sbom import ROOT, locked

Json = dict[str, Any]

#: Plurals that do not end in a mere "s".
_PLURALS = {"Topology": "topologies"} | {
    kind: f"{kind.lower()}es" for kind in ("PriorityClass", "StorageClass", "DeviceClass")
}


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(CHART)


def rendered(chart: Chart, values: Values | None = None) -> dict[str, Json]:
    """What the scheduler alone is made of, by kind, or whatever else the values want."""
    values = {"controllers": {"enabled": False}, **(values or {})}
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
        *("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "NetworkPolicy"),
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
    assert ([*read["scheduler_name"]], [*read["node_selector"]], read["period"]) == (["muster"], ["pool=training"], 2)
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
    assert [*read["scheduler_name"]] == ["volcano"]
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
    *ours, base = images
    assert len(ours) == 2
    for image in ours:
        assert re.fullmatch(r"[\w./-]+:[\w.-]+", image)
        assert not image.endswith(":latest")
    assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", base), "tags move"


def test_an_image_can_be_named_by_its_digest(chart: Chart) -> None:
    digest = f"sha256:{'0' * 64}"
    text = chart.render({"image": {"repository": "example/muster", "digest": digest}, "webhooks": {"enabled": True}})
    assert set(re.findall(r"image: (\S+)", text)) == {f"example/muster@{digest}"}


def test_the_image_is_built_of_what_runs_and_of_no_tool() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert set(re.findall(r"requirements[\w-]*\.lock", dockerfile)) == {
        "requirements-run.lock",
        "requirements-build.lock",
    }
    names = {each.name for each in locked((ROOT / "requirements-run.lock").read_text())}
    assert {"aiohttp", "numba", "typer"} <= names
    assert names.isdisjoint({"pytest", "ruff", "mypy", "hypothesis", "ortools", "hatchling", "uv"})


@pytest.mark.parametrize("part", ["run", "build"])
def test_what_runs_was_tested_in_that_version(part: str) -> None:
    tested = {(each.name, each.version) for each in locked((ROOT / "requirements.lock").read_text())}
    apart = list(locked((ROOT / f"requirements-{part}.lock").read_text()))
    assert apart
    assert {(each.name, each.version) for each in apart} <= tested, "run: make lock"
    assert all(each.hashes for each in apart)


def test_every_dependency_is_locked_for_the_image() -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {canonicalize_name(Requirement(text).name) for text in about["project"]["dependencies"]}
    assert wanted <= {each.name for each in locked((ROOT / "requirements-run.lock").read_text())}


def test_the_bill_of_materials_names_what_is_in_the_image(tmp_path: Path) -> None:
    for name in ("first.json", "second.json"):
        assert sbom.main([str(tmp_path / name)]) == 0
    text = (tmp_path / "first.json").read_text()
    assert text == (tmp_path / "second.json").read_text(), "the same lock, the same bill"
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    found = [each["name"] for each in bill["components"]]
    assert len(set(found)) == len(found), "one version of each"
    assert {"aiohttp", "numpy", "python"} <= set(found)
    assert "colorama" not in found, "the image is no Windows"
    known = {each["bom-ref"] for each in bill["components"]} | {"muster"}
    for each in bill["dependencies"]:
        assert {each["ref"], *each["dependsOn"]} <= known
    told = next(each for each in bill["components"] if each["name"] == "aiohttp")
    assert told["licenses"]
    assert re.fullmatch(r"pkg:pypi/aiohttp@[\d.]+", told["purl"])


def test_metrics_over_tls_with_tokens(chart: Chart) -> None:
    values: Values = {
        "metrics": {"secretName": "muster-tls", "authentication": True},
        "serviceMonitor": {"enabled": True},
        "controllers": {"enabled": False},
    }
    documents = list(yaml.safe_load_all(chart.render(values)))
    found = {document["kind"]: document for document in documents if "reader" not in document["metadata"]["name"]}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    scheduler = pod["containers"][0]
    read = run_options(scheduler["args"])
    folder = next(each["mountPath"] for each in scheduler["volumeMounts"] if each["name"] == "certificate")
    assert (str(read["cert"]), str(read["key"])) == (f"{folder}/tls.crt", f"{folder}/tls.key")
    assert read["metrics_auth"] is True
    assert {"name": "certificate", "secret": {"secretName": "muster-tls"}} in pod["volumes"]
    assert {scheduler[f"{each}Probe"]["httpGet"]["scheme"] for each in ("liveness", "readiness", "startup")} == {
        "HTTPS"
    }
    added = set(rules(found["ClusterRole"])) - set(rules(rendered(chart)["ClusterRole"]))
    assert added == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    endpoint = found["ServiceMonitor"]["spec"]["endpoints"][0]
    assert (endpoint["scheme"], endpoint["tlsConfig"]["serverName"]) == ("https", "muster.muster-system.svc")
    assert endpoint["bearerTokenFile"]
    reader = next(document for document in documents if document["metadata"]["name"] == "muster-metrics-reader")
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


def test_pods_are_reached_on_their_port_alone(chart: Chart) -> None:
    found = rendered(chart)
    policy, pod = found["NetworkPolicy"]["spec"], found["Deployment"]["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"]
    ports = [each["name"] for each in pod["spec"]["containers"][0]["ports"]]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": ports[0]}]}]
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    away = [{"ports": [{"protocol": "TCP", "port": 6443}]}]
    strict = rendered(chart, {"networkPolicy": {"metricsFrom": peers, "egress": away}})["NetworkPolicy"]["spec"]
    assert strict["ingress"][0]["from"] == peers
    assert (strict["policyTypes"], strict["egress"]) == (["Ingress", "Egress"], away)
    assert "NetworkPolicy" not in rendered(chart, {"networkPolicy": {"enabled": False}})


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
    assert {group for group, _, _ in granted} == followed | {"shard.volcano.sh"}
    assert {resource for _, resource, _ in granted}.isdisjoint({"secrets", "configmaps", "serviceaccounts"})
    assert sorted(rule for rule in granted if rule[2] not in {"list", "watch"}) == [
        ("", "events", "create"),
        ("", "events", "patch"),
        ("", "nodes/status", "patch"),
        ("", "persistentvolumeclaims", "patch"),
        ("", "persistentvolumes", "patch"),
        ("", "pods", "get"),
        ("", "pods", "patch"),
        ("", "pods/binding", "create"),
        ("", "pods/eviction", "create"),
        ("", "pods/status", "patch"),
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


def controllers_of(chart: Chart) -> dict[str, Json]:
    """What belongs to the controllers alone, by kind."""
    documents = [document for document in yaml.safe_load_all(chart.render()) if document]
    return {each["kind"]: each for each in documents if each["metadata"]["name"].endswith("-controllers")}


def test_controllers_have_an_account_of_their_own(chart: Chart) -> None:
    found = controllers_of(chart)
    assert set(found) == {
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Deployment"),
    }
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert run_options(pod["containers"][0]["args"])["components"] == "controllers"
    scheduler = rendered(chart)["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert run_options(scheduler["args"])["components"] == "scheduler"
    names = [each.get("resourceNames") for each in found["Role"]["rules"]]
    assert names == [None, ["muster-controllers"]]


def test_one_process_has_all_parts_and_the_rights_of_all_of_them(chart: Chart) -> None:
    values = {"oneProcess": True, "webhooks": {"enabled": True}, "controllers": {"takeOverJobs": True}}
    documents = [document for document in yaml.safe_load_all(chart.render(values)) if document]
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    (account,) = [each["metadata"]["name"] for each in documents if each["kind"] == "ServiceAccount"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account
    options = run_options(pod["containers"][0]["args"])
    assert options["components"] == "scheduler,controllers,admission"
    assert (options["take_over_jobs"], str(options["webhook_cert"])) == (True, "/etc/muster-webhooks/tls.crt")
    assert [port["name"] for port in pod["containers"][0]["ports"]] == ["http", "https"]
    mounted = {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    bindings = [each for each in documents if each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert len(bindings) == 5
    assert {subject["name"] for each in bindings for subject in each["subjects"]} == {account}
    # A pod under two budgets could never be evicted.
    assert len([each for each in documents if each["kind"] == "PodDisruptionBudget"]) == 1
    (service,) = [each for each in documents if each["kind"] == "Service" and each["spec"]["ports"][0]["port"] == 443]
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_rights_to_follow_the_network_come_with_its_description(chart: Chart) -> None:
    text = "networkTopologyDiscovery:\n  - {source: label, enabled: true}\n"
    values = {"controllers": {"discovery": {"config": text, "secretNames": ["ufm"]}}}
    documents = [document for document in yaml.safe_load_all(chart.render(values)) if document]
    found = {each["kind"]: each for each in documents if each["metadata"]["name"].endswith("-controllers")}
    granted = set(rules(found["ClusterRole"])) - set(rules(controllers_of(chart)["ClusterRole"]))
    assert granted == {
        *(("", "nodes", verb) for verb in ("list", "watch")),
        *(
            ("topology.volcano.sh", "hypernodes", verb)
            for verb in ("get", "list", "watch", "create", "patch", "delete")
        ),
    }
    named = {(rule["resources"][0], *rule.get("resourceNames", ())): rule["verbs"] for rule in found["Role"]["rules"]}
    assert named["configmaps", "muster-discovery"] == named["secrets", "ufm"] == ["get"]
    arguments = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert run_options(arguments)["discovery"] == "muster-system/muster-discovery"
    (config,) = [each for each in documents if each["metadata"]["name"] == "muster-discovery"]
    assert yaml.safe_load(config["data"]["volcano-controller.conf"]) == yaml.safe_load(text)


def test_controllers_may_do_what_they_have_to_and_no_more(chart: Chart) -> None:
    granted = set(rules(controllers_of(chart)["ClusterRole"]))
    assert not any("*" in part for rule in granted for part in rule)
    changes = {rule for rule in granted if rule[2] not in {"get", "list", "watch"} and "/finalizers" not in rule[1]}
    assert sorted(changes) == [
        ("", "configmaps", "create"),
        ("", "configmaps", "delete"),
        ("", "configmaps", "patch"),
        ("", "events", "create"),
        ("", "persistentvolumeclaims", "create"),
        ("", "pods", "create"),
        ("", "pods", "delete"),
        ("", "pods", "patch"),
        ("", "secrets", "create"),
        ("", "secrets", "delete"),
        ("", "services", "create"),
        ("", "services", "delete"),
        ("batch.volcano.sh", "cronjobs/status", "patch"),
        ("batch.volcano.sh", "jobs", "create"),
        ("batch.volcano.sh", "jobs", "delete"),
        ("batch.volcano.sh", "jobs/status", "patch"),
        ("bus.volcano.sh", "commands", "delete"),
        ("flow.volcano.sh", "jobflows/status", "patch"),
        ("kai.scheduler", "topologies", "create"),
        ("networking.k8s.io", "networkpolicies", "create"),
        ("networking.k8s.io", "networkpolicies", "delete"),
        ("scheduling.k8s.io", "podgroups/status", "patch"),
        ("scheduling.run.ai", "podgroups", "create"),
        ("scheduling.run.ai", "podgroups", "patch"),
        ("scheduling.volcano.sh", "podgroups", "create"),
        ("scheduling.volcano.sh", "podgroups", "delete"),
        ("scheduling.volcano.sh", "podgroups", "patch"),
        ("scheduling.volcano.sh", "queues", "patch"),
        ("scheduling.volcano.sh", "queues/status", "patch"),
    ]


def test_the_lease_is_the_only_thing_of_its_own_namespace(chart: Chart) -> None:
    role = rendered(chart)["Role"]
    assert sorted(rules(role)) == [("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")]
    named = [rule for rule in role["rules"] if "create" not in rule["verbs"]]
    assert all(rule["resourceNames"] == ["muster"] for rule in named)
