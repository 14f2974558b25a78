"""The webhooks in the chart: off unless asked for, found by the API server, and with rights to read alone."""

from __future__ import annotations

from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from muster.admission.hooks import Address, configurations
from muster.admission.live import FOLLOWED, LOOKED_UP
from muster.cli.commands import app
from tests.deploy.manifests import CHART
from tests.deploy.rendering import Chart, Values

Json = dict[str, Any]


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(CHART)


def rendered(chart: Chart, **webhooks: Any) -> dict[str, Json]:
    """The objects of the webhooks, by kind."""
    values: Values = {"webhooks": {"enabled": True, **webhooks}}
    documents = yaml.safe_load_all(chart.render(values, name="left", namespace="shards"))
    family = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {
        each["kind"]: each
        for each in documents
        if each["kind"] in family or each["metadata"]["name"] == "left-webhooks"
    }


def test_webhooks_are_off_unless_asked_for(chart: Chart) -> None:
    assert "ebhook" not in chart.render()


def test_the_configurations_are_those_that_the_command_prints(chart: Chart) -> None:
    found = rendered(chart, caBundle="QUJD", failurePolicy="Ignore")
    address = Address(namespace="shards", service="left-webhooks", ca_bundle="QUJD")
    for wanted in configurations(address, failure_policy="Ignore", scheduler_names=("volcano",)):
        assert found[wanted["kind"]]["webhooks"] == wanted["webhooks"]


def test_somebody_else_may_fill_in_whom_to_trust(chart: Chart) -> None:
    note = {"cert-manager.io/inject-ca-from": "shards/left-webhooks"}
    found = rendered(chart, annotations=note)["ValidatingWebhookConfiguration"]
    assert found["metadata"]["annotations"] == note
    assert all("caBundle" not in webhook["clientConfig"] for webhook in found["webhooks"])


def test_the_api_server_finds_the_pods_and_only_those(chart: Chart) -> None:
    found = rendered(chart)
    pod = found["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    for selector in (
        found["Service"]["spec"]["selector"],
        found["Deployment"]["spec"]["selector"]["matchLabels"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    scheduler = next(each for each in yaml.safe_load_all(chart.render()) if each["kind"] == "Service")
    assert not scheduler["spec"]["selector"].items() <= labels.items()
    called = found["ValidatingWebhookConfiguration"]["webhooks"][0]["clientConfig"]["service"]
    ports = {port["port"]: port["targetPort"] for port in found["Service"]["spec"]["ports"]}
    container = pod["spec"]["containers"][0]
    assert ports[called["port"]] == container["ports"][0]["name"]
    assert called["name"] == found["Service"]["metadata"]["name"]


def test_the_command_takes_the_arguments_of_the_container(chart: Chart) -> None:
    found = rendered(chart, extraArguments=["--max-queue-depth", "3"], secretName="tls")
    pod = found["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    family, command, *arguments = container["args"]
    inner = group.commands[family]
    assert isinstance(inner, TyperGroup)
    read = inner.commands[command].make_context(command, list(arguments)).params
    folder = container["volumeMounts"][0]["mountPath"]
    assert (str(read["cert"]), str(read["key"])) == (f"{folder}/tls.crt", f"{folder}/tls.key")
    assert read["listen"] == f":{container['ports'][0]['containerPort']}"
    assert ([*read["scheduler_name"]], read["max_queue_depth"]) == (["volcano"], 3)
    assert pod["volumes"][0]["secret"] == {"secretName": "tls"}


def test_rules_may_read_what_they_look_up_and_nothing_else(chart: Chart) -> None:
    rules = rendered(chart)["ClusterRole"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    for kinds, verbs in ((FOLLOWED, {"list", "watch"}), (LOOKED_UP, {"get"})):
        granted = {
            (group, name)
            for rule in rules
            for group in rule["apiGroups"]
            for name in rule["resources"]
            if verbs & set(rule["verbs"])
        }
        assert granted == {(kind.api_version.rpartition("/")[0], f"{kind.kind.lower()}s") for kind in kinds}


def test_the_container_is_as_safe_as_the_scheduler_s(chart: Chart) -> None:
    pod = rendered(chart)["Deployment"]["spec"]["template"]["spec"]
    documents = {each["kind"]: each for each in yaml.safe_load_all(chart.render())}
    scheduler = documents["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == scheduler["securityContext"]
    assert pod["containers"][0]["securityContext"] == scheduler["containers"][0]["securityContext"]
    assert {"requests", "limits"} <= pod["containers"][0]["resources"].keys()
