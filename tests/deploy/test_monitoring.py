"""Dashboard and alerts: of metrics that exist, with labels that they have, in PromQL that Prometheus reads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.server.metric_table import ALERTS, FAMILIES, VOLCANO, Family
from muster.server.metrics import Metrics
from tests.deploy.manifests import CHART
from tests.deploy.monitoring import ROWS, dashboard, panels
from tests.deploy.rendering import Chart
from tests.server.test_metrics import session

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="there is no promtool here (Debian: apt install prometheus)"
)
#: What Grafana puts in the place of its variables.
_FILLED = {"$__rate_interval": "5m", "$job": ".*", "$queue": ".*", "$resource": ".*"}


def queries() -> list[str]:
    return [query for panel in panels() for query, _ in panel.queries]


def family_of(name: str) -> Family:
    return FAMILIES.get(name) or FAMILIES[re.sub("_(bucket|sum|count)$", "", name)]


def promtool(*arguments: str, text: str | None = None) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_metric_of_ours_has_a_panel_in_its_row() -> None:
    shown = {row: {name for panel in panels() if panel.row == row for name in _names(panel.queries)} for row in ROWS}
    for family in FAMILIES.values():
        assert family.row == VOLCANO or family.name in shown[family.row]


def _names(of: tuple[tuple[str, str], ...]) -> set[str]:
    return {family_of(name).name for query, _ in of for name in re.findall(r"\b(?:muster|volcano)_\w+", query)}


@pytest.mark.parametrize("text", [*queries(), *(alert.when for alert in ALERTS)])
def test_queries_name_metrics_and_labels_that_exist(text: str) -> None:
    families = [family_of(name) for name in re.findall(r"\b(?:muster|volcano)_\w+", text)]
    assert families
    known = {"job", "instance", "namespace", "le"}.union(*(family.labels for family in families))
    named = [name for group in re.findall(r"\b(?:by|on|ignoring) \(([^)]*)\)", text) for name in group.split(", ")]
    assert set(named) | set(re.findall(r'(\w+)=~?"', text)) <= known


def test_legends_and_annotations_name_labels_of_their_query() -> None:
    for panel in panels():
        for query, legend in panel.queries:
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= set(re.findall(r"\w+", query)), panel.title
    for alert in ALERTS:
        of = set(re.findall(r"\$labels\.(\w+)", alert.summary))
        kept = {label for name in re.findall(r"\bmuster_\w+", alert.when) for label in family_of(name).labels}
        assert of <= kept, alert.name


def test_the_dashboard_has_its_panels_side_by_side() -> None:
    read = json.loads(dashboard())
    taken: set[tuple[int, int]] = set()
    for panel in read["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert taken.isdisjoint(cells)
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in read["panels"]}) == len(read["panels"])
    titles = [panel["title"] for panel in read["panels"] if panel["type"] != "row"]
    assert len(titles) == len(list(panels()))
    known = {variable["name"] for variable in read["templating"]["list"]}
    assert set(re.findall(r"\$(\w+)", " ".join(queries()))) - {"__rate_interval"} <= known


@needs_promtool
def test_promtool_reads_every_query(tmp_path: Path) -> None:
    rules = []
    for place, query in enumerate(queries()):
        for variable, value in _FILLED.items():
            query = query.replace(variable, value)  # noqa: PLW2901  # step by step
        assert "$" not in query
        rules.append({"record": f"query:number_{place}", "expr": query})
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))


@needs_promtool
def test_promtool_reads_the_alert_rules_and_what_we_serve() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(CHART / "files" / "alerts.yaml"))
    metrics = Metrics()
    metrics.record_leadership(is_leader=True)
    metrics.record_waiting(1.0)
    metrics.record_request("GET", 0.1)
    metrics.record_session(session("fairshare"))
    # Volcano's own names are not as promtool would have them.
    ours = [line for line in metrics.text().splitlines() if "volcano_" not in line]
    promtool("check", "metrics", text="\n".join(ours) + "\n")


#: Series of a sick scheduler, a minute between values; whoever leads has instance "a" and job "m".
_SICK: dict[str, dict[str, str]] = {
    "MusterHasNoLeader": {"muster_leader": "0x120"},
    "MusterIsGone": {"muster_jobs": "0x120"},
    "MusterPodsUndecided": {"muster_oldest_undecided_pod_seconds": "90x120"},
    "MusterCyclesBreakOff": {"muster_cycle_errors_total": "0+1x120"},
    "MusterCyclesSlow": {
        'muster_cycle_seconds_bucket{le="5.0"}': "0+1x120",
        'muster_cycle_seconds_bucket{le="10.0"}': "0+9x120",
        'muster_cycle_seconds_bucket{le="+Inf"}': "0+9x120",
    },
    "MusterConfigurationRefused": {'muster_config_reloads_total{result="failed"}': "0+1x120"},
    "MusterObjectsAside": {"muster_leader": "1x120", 'muster_quarantined{kind="Pod"}': "2x120"},
    "MusterPluginDropped": {"muster_plugins_dropped_total": "0+1x120"},
    "MusterEvictionsInVain": {"muster_evictions_in_vain_total": "0+1x120"},
    "MusterApiServerSlow": {
        'muster_api_request_seconds_bucket{method="POST",le="1.0"}': "0+1x120",
        'muster_api_request_seconds_bucket{method="POST",le="2.5"}': "0+9x120",
        'muster_api_request_seconds_bucket{method="POST",le="+Inf"}': "0+9x120",
    },
    "MusterApiServerRefuses": {
        'muster_api_refusals_total{kind="bind"}': "0+6x120",
        'muster_api_request_seconds_count{method="POST"}': "0+9x120",
    },
    "MusterQueueBelowQuota": {
        "muster_leader": "1x120",
        'muster_queue_held{queue="a",resource="cpu"}': "2x120",
        'muster_queue_quota{queue="a",resource="cpu"}': "4x120",
        'muster_queue_asked{queue="a",resource="cpu"}': "8x120",
    },
}


@needs_promtool
@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_goes_off_when_it_should(alert: Any, tmp_path: Path) -> None:
    sick = {"muster_leader": "1x120", **_SICK[alert.name]}
    if alert.name == "MusterIsGone":
        del sick["muster_leader"]
    series = [{"series": _at_home(name), "values": values} for name, values in sick.items()]
    told = claim_of_silence(tmp_path, series, alert.name, expects=False)
    assert f"alertname: {alert.name}" in told or f'alertname="{alert.name}"' in told, "it did not go off"
    well = [{"series": _at_home("muster_leader"), "values": "1x120"}]
    assert "SUCCESS" in claim_of_silence(tmp_path, well, alert.name, expects=True)


def claim_of_silence(tmp_path: Path, series: list[dict[str, str]], alert: str, *, expects: bool) -> str:
    """What promtool says to the claim that an alert is silent."""
    file = tmp_path / "test.yaml"
    test = {
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": [{"eval_time": "100m", "alertname": alert, "exp_alerts": []}],
    }
    rules = str(CHART / "files" / "alerts.yaml")
    file.write_text(yaml.safe_dump({"rule_files": [rules], "evaluation_interval": "1m", "tests": [test]}))
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is expects, done.stdout + done.stderr
    return done.stdout + done.stderr


def _at_home(name: str) -> str:
    bare, _, labels = name.removesuffix("}").partition("{")
    return f'{bare}{{job="m",instance="a",namespace="n"{"," if labels else ""}{labels}}}'


def test_rules_are_left_out_where_the_cluster_does_not_know_them() -> None:
    chart = Chart(CHART)
    wanted = {"alerts": {"enabled": True, "labels": {"release": "stack"}}, "dashboard": {"enabled": True}}
    found = {each["kind"]: each for each in yaml.safe_load_all(chart.render(wanted)) if each}
    assert found["PrometheusRule"]["metadata"]["labels"]["release"] == "stack"
    rules = found["PrometheusRule"]["spec"]["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [alert.name for alert in ALERTS]
    maps = [each for each in yaml.safe_load_all(chart.render(wanted)) if each["kind"] == "ConfigMap"]
    shown = next(each for each in maps if each["metadata"]["name"] == "muster-dashboard")
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(shown["data"]["muster.json"])["uid"] == "muster"
    chart.api_versions.clear()
    assert "PrometheusRule" not in chart.render(wanted)
    assert "muster-dashboard" not in chart.render()
