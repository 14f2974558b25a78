"""Every block of commands on a page is run, or listed here with the reason why not; then its commands at least exist.

Blocks marked `console` are not looked at: `python -m muster.docs` runs those and keeps their output.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from muster.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "deploy/README.md", "examples/README.md")),
]
_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAMS = {
    "muster",
    ".venv/bin/muster",
    "make",
    "kubectl",
    "helm",
    "docker",
    "mkdir",
    "for",
    ".venv/bin/python",
    ".ci/run",
}
_CLUSTER = "needs a cluster; tests/kubernetes runs these commands on one"
_LONG = "takes minutes to hours; CI and `make` run it"
#: By page and the first command of the block: why it is not run here.
NOT_RUN = {
    ("README.md", "make demo"): _LONG,
    ("README.md", ".venv/bin/muster simulate FILE…"): "a list of commands with names to be filled in",
    ("README.md", ".venv/bin/muster run --kubeconfig FILE"): _CLUSTER,
    ("CONTRIBUTING.md", "make"): _LONG,
    ("CONTRIBUTING.md", "make test"): _LONG,
    ("deploy/README.md", "helm install muster deploy/chart/muster"): "needs a cluster and a registry",
    ("deploy/README.md", "muster crds install"): _CLUSTER,
    ("docs/how-to/dashboard.md", "muster ui --demo"): "serves until it is stopped; tests/ui does that",
    ("docs/how-to/dashboard.md", "helm upgrade muster deploy/chart/muster"): _CLUSTER,
    ("docs/how-to/health.md", "helm upgrade muster deploy/chart/muster"): _CLUSTER,
    ("docs/how-to/health.md", "kubectl create clusterrolebinding"): _CLUSTER,
    ("docs/how-to/install.md", "docker build"): "needs a registry",
    ("docs/how-to/install.md", "muster crds install"): _CLUSTER,
    ("docs/how-to/install.md", "helm uninstall muster"): _CLUSTER,
    ("docs/how-to/lists.md", "muster jobs --cluster --watch"): _CLUSTER,
    ("docs/how-to/live.md", "muster explain team-a/train --cluster"): _CLUSTER,
    ("docs/how-to/live.md", "muster simulate --cluster --config"): _CLUSTER,
    ("docs/how-to/live.md", "muster snapshot save before.jsonl.gz"): _CLUSTER,
    ("docs/how-to/webhooks.md", "helm upgrade muster deploy/chart/muster"): _CLUSTER,
    ("docs/how-to/webhooks.md", "kubectl --namespace muster-system create secret"): _CLUSTER,
    ("docs/how-to/whatif.md", "muster whatif --cluster --drain"): _CLUSTER,
    ("docs/performance.md", "make bench "): _LONG,
    ("docs/performance.md", "make bench ONLY=C8"): _LONG,
    ("docs/performance.md", "make bench-kubernetes"): _LONG,
}
#: What `kubectl get` prints of a small cluster, by kind; it prints one List for all that it is asked for.
_KUBECTL = """\
#!{python}
import sys
import yaml
asked = {{name.partition(".")[0].rstrip("s") for name in sys.argv[2].split(",")}}
known = [thing for thing in yaml.safe_load_all(open("{objects}")) if thing["kind"].lower() in asked]
yaml.safe_dump({{"apiVersion": "v1", "kind": "List", "items": known}}, sys.stdout)
"""
_NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: n{number}
  labels: {{example.com/rack: r{rack}, example.com/spine: s1, rack: r{rack}, spine: s1}}
status:
  allocatable: {{cpu: "8", memory: 32Gi, pods: "110", nvidia.com/gpu: "4"}}
---
"""


def blocks() -> Iterator[tuple[str, str]]:
    """Blocks that begin with a program, by the page that they are on."""
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in {"", "sh", "bash"} and text.split(maxsplit=1)[0] in _PROGRAMS:
                yield name, text


def why_not(name: str, text: str) -> str:
    return next((why for (page, first), why in NOT_RUN.items() if page == name and text.startswith(first)), "")


RUN = [(name, text) for name, text in blocks() if not why_not(name, text)]
LISTED = [(name, text) for name, text in blocks() if why_not(name, text)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that pages speak of, and the programs that they call."""
    nodes = "".join(_NODE.format(number=number, rack=number // 2) for number in range(4))
    jobs = (ROOT / "examples/tutorial/1-train.yaml").read_text()
    (tmp_path / "nodes.yaml").write_text(nodes)
    (tmp_path / "cluster.yaml").write_text(nodes + jobs)
    (tmp_path / "objects.yaml").write_text(nodes + jobs)
    programs = tmp_path / "bin"
    programs.mkdir()
    made = {
        "muster": f'#!/bin/sh\nexec {sys.executable} -m muster "$@"\n',
        "kubectl": _KUBECTL.format(python=sys.executable, objects=tmp_path / "objects.yaml"),
    }
    made |= {name: "#!/bin/sh\nexec cat\n" for name in ("dot", "jq") if shutil.which(name) is None}
    for name, text in made.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("name", "text"), RUN, ids=lambda value: value.partition("\n")[0])
def test_blocks_run_as_they_are_written(name: str, text: str, folder: Path) -> None:
    script = f'export PATH="{folder / "bin"}:$PATH"\nset -e -o pipefail\n{text}'
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{name}: {done.stderr[-2000:]}"


def test_every_reason_belongs_to_a_block() -> None:
    unused = [key for key in NOT_RUN if not any(page == key[0] and text.startswith(key[1]) for page, text in LISTED)]
    assert unused == []
    assert len(RUN) >= 6


@pytest.mark.parametrize(("name", "text"), LISTED, ids=lambda value: value.partition("\n")[0])
def test_commands_that_are_not_run_exist(name: str, text: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in text.replace("\\\n", " ").splitlines():
        command = line.partition(" #")[0].partition("|")[0].removeprefix("kubectl ").strip()
        words = shlex.split(command)
        if words[:1] == ["make"]:
            assert {word for word in words[1:] if "=" not in word} <= targets, command
        elif words and words[0] in {"muster", ".venv/bin/muster"}:
            parse(words[1:])
        elif words[:2] == ["apply", "-f"] and words[2] != "-":
            assert (ROOT / words[2]).is_file(), f"{name}: {words[2]}"


def parse(words: list[str]) -> None:
    """Raises when there is no such command, or when it has no such option."""
    group: object = typer.main.get_command(app)
    while isinstance(group, TyperGroup) and words and words[0] in group.commands:
        group, words = group.commands[words[0]], words[1:]
    assert not isinstance(group, TyperGroup) or not words, words
    getattr(group, "make_context")("muster", words, resilient_parsing=False)  # noqa: B009  # typer types it loosely
