"""The example plugin, as a user has it: installed as a package, found by entry point, used through the commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: gpu-1}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "9", nvidia.com/gpu: "8"}}
---
apiVersion: v1
kind: Node
metadata: {name: cpu-1}
status: {allocatable: {cpu: "2", memory: 8Gi, pods: "9"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0}
spec: {containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1}
spec: {containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec: {containers: [{name: main, resources: {requests: {cpu: "1", nvidia.com/gpu: "1"}}}]}
"""


@pytest.fixture(scope="module")
def site(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example into a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(repo_root / "examples/plugin")], check=True)
    return target


def _python(site: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_it_is_listed_with_its_package(site: Path) -> None:
    done = _python(site, "-m", "muster", "plugins", "--output", "json")
    assert done.returncode == 0, done.stderr
    parts = {part["name"]: part for part in json.loads(done.stdout)}
    assert parts["gpu-nodes"]["package"] == "muster-gpu-nodes"
    assert parts["gpu-nodes"]["summary"] == "Keep pods that ask for no GPU off nodes that have some."
    assert parts["gpu-nodes"]["extensionPoints"] == ["node_mask"]
    assert parts["gang"]["package"] == "muster"
    table = _python(site, "-m", "muster", "plugins").stdout
    assert "gpu-nodes (from package muster-gpu-nodes)" in table


def test_it_decides_and_explains(site: Path, repo_root: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    config = ["--config", str(repo_root / "examples/plugin/scheduler.yaml")]
    done = _python(site, "-m", "muster", "simulate", str(cluster), *config, "--output", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {entry["pod"]: entry["node"] for entry in result["decisions"]} == {
        "default/web-0": "cpu-1",
        "default/train": "gpu-1",
    }
    done = _python(site, "-m", "muster", "explain", "web-1", str(cluster), *config, "--output", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes"]["byReason"] == {"gpu-node": 1, "insufficient-resources": 1}


def test_it_passes_the_checks_that_every_plugin_must(site: Path) -> None:
    program = (
        "from muster.testing.conformance import check_plugin\n"
        "from muster_gpu_nodes import GpuNodes\n"
        "check_plugin(GpuNodes)"
    )
    done = _python(site, "-c", program)
    assert done.returncode == 0, done.stderr


def test_without_the_package_the_configuration_is_refused(repo_root: Path) -> None:
    config = str(repo_root / "examples/plugin/scheduler.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "muster", "config", "check", config], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown plugin 'gpu-nodes'" in done.stderr


def test_the_page_shows_the_code_that_is_tested_here(repo_root: Path) -> None:
    page = (repo_root / "docs/how-to/write-a-plugin.md").read_text()
    code = (repo_root / "examples/plugin/src/muster_gpu_nodes/__init__.py").read_text()
    project = (repo_root / "examples/plugin/pyproject.toml").read_text()
    assert code.rstrip() in page
    assert project.partition('[project.entry-points."muster.plugins"]')[2].split("\n\n")[0].strip() in page
