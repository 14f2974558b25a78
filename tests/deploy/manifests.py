"""Writes the files under deploy/ that are made from others: `python -m tests.deploy.manifests`, or `make manifests`.

Into the chart go the definitions of `muster crds print`, the configuration of `muster config show`, and a dashboard and
alert rules of the table of metrics; beside it, plain manifests for kubectl, rendered from the chart with its default
values. A test fails when one of them is behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from muster.admission.hooks import Address, configurations
from muster.api.definitions import MANAGED_BY, definitions
from muster.cli.manifests import as_yaml
from muster.framework.config import DEFAULT_YAML
from tests.deploy.monitoring import alert_rules, dashboard
from tests.deploy.rendering import Chart

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "chart" / "muster"
NAMESPACE = "muster-system"

_NOTE = "# Made by `make manifests` from {}; change that instead.\n"
_NAMESPACE = f"""apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    app.kubernetes.io/name: muster
    pod-security.kubernetes.io/enforce: restricted
"""

_LABELS = "".join(f"    {key}: {value}\n" for key, value in MANAGED_BY.items())
#: Parts of the configurations that Helm decides on, and how it is told.
_HELM = {
    _LABELS: """    {{- include "muster.webhooks.labels" . | nindent 4 }}
  {{- if .Values.webhooks.annotations }}
  annotations:
    {{- toYaml .Values.webhooks.annotations | nindent 4 }}
  {{- end }}
""",
    "    caBundle: BUNDLE\n": """    {{- if .Values.webhooks.caBundle }}
    caBundle: {{ .Values.webhooks.caBundle }}
    {{- end }}
""",
    ": '{{": ": {{",
    "}}'\n": "}}\n",
    "}}-webhooks'\n": "}}-webhooks\n",
}


def made_files() -> Iterator[tuple[Path, str]]:
    """Every file that is made, with what belongs into it; what is made of the chart comes after the chart's own."""
    yield CHART / "files" / "scheduler.yaml", DEFAULT_YAML
    crds = {document["spec"]["names"]["plural"]: as_yaml(document) for document in definitions()}
    for plural, text in crds.items():
        yield CHART / "crds" / f"{plural}.yaml", text
    yield DEPLOY / "manifests" / "crds.yaml", _NOTE.format("the types in muster.api") + "---\n".join(crds.values())
    yield CHART / "templates" / "webhook-configurations.yaml", webhook_template()
    yield CHART / "files" / "dashboard.json", dashboard()
    yield CHART / "files" / "alerts.yaml", alert_rules()
    chart, note = Chart(CHART), _NOTE.format("the chart")
    yield DEPLOY / "manifests" / "muster.yaml", note + _tidy(f"{_NAMESPACE}---\n{chart.render()}")
    for file, value in (("service-monitor", "serviceMonitor"), ("dashboard", "dashboard"), ("alerts", "alerts")):
        text = chart.render_file(f"{file}.yaml", {value: {"enabled": True}}, name="muster", namespace=NAMESPACE)
        yield DEPLOY / "manifests" / f"{file}.yaml", note + _tidy(text)
    # Of webhooks the server alone: what registers it needs a certificate, see `muster webhooks print`.
    yield DEPLOY / "manifests" / "webhooks.yaml", note + _tidy("---\n".join(_parts(chart, "webhook", "webhooks")))
    yield DEPLOY / "manifests" / "ui.yaml", note + _tidy("---\n".join(_parts(chart, "ui", "ui")))


def _parts(chart: Chart, file: str, value: str) -> Iterator[str]:
    for part in ("account", "deployment", "service"):
        values = {value: {"enabled": True}}
        yield chart.render_file(f"{file}-{part}.yaml", values, name="muster", namespace=NAMESPACE)


def webhook_template() -> str:
    """The template of what registers the webhooks: as `muster webhooks print` has it, with the values of a release."""
    address = Address(namespace="{{ .Release.Namespace }}", service="{{ .Release.Name }}-webhooks", ca_bundle="BUNDLE")
    documents = configurations(
        address,
        name="{{ .Release.Name }}",
        failure_policy="{{ .Values.webhooks.failurePolicy }}",
        scheduler_names=("{{ .Values.schedulerName }}",),
    )
    text = "---\n".join(map(as_yaml, documents))
    for written, meant in _HELM.items():
        assert written in text
        text = text.replace(written, meant)
    note = _NOTE.format("the hooks in muster.admission")
    return f"{{{{- if .Values.webhooks.enabled }}}}\n{note}{text}{{{{- end }}}}\n"


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main() -> int:
    """Write what is behind, and say so."""
    for path, text in made_files():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            sys.stdout.write(f"wrote {path.relative_to(DEPLOY.parent)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
