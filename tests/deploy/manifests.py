"""Writes the files under deploy/ that are made from others: `python -m tests.deploy.manifests`, or `make manifests`.

Into the chart go the definitions of `muster crds print` and the configuration of `muster config show`; beside it, plain
manifests for kubectl, rendered from the chart with its default values. A test fails when one of them is behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from muster.api.definitions import definitions
from muster.cli.crd_reports import as_yaml
from muster.framework.config import DEFAULT_YAML
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


def made_files() -> Iterator[tuple[Path, str]]:
    """Every file that is made, with what belongs into it; what is made of the chart comes after the chart's own."""
    yield CHART / "files" / "scheduler.yaml", DEFAULT_YAML
    crds = {document["spec"]["names"]["plural"]: as_yaml(document) for document in definitions()}
    for plural, text in crds.items():
        yield CHART / "crds" / f"{plural}.yaml", text
    yield DEPLOY / "manifests" / "crds.yaml", _NOTE.format("the types in muster.api") + "---\n".join(crds.values())
    chart, note = Chart(CHART), _NOTE.format("the chart")
    yield DEPLOY / "manifests" / "muster.yaml", note + _tidy(f"{_NAMESPACE}---\n{chart.render()}")
    monitor = {"serviceMonitor": {"enabled": True}}
    text = chart.render_file("service-monitor.yaml", monitor, name="muster", namespace=NAMESPACE)
    yield DEPLOY / "manifests" / "service-monitor.yaml", note + _tidy(text)


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
