"""`muster queue show`: what people and programs see."""

import json
from pathlib import Path

import pytest

from muster.cli.main import run

SMALL = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "16", memory: 100Gi, pods: "20", nvidia.com/gpu: "8"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: lab}
spec: {deserved: {nvidia.com/gpu: "4"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: shop}
spec: {deserved: {nvidia.com/gpu: "4"}, capability: {nvidia.com/gpu: "6"}}
"""

POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: team, annotations: {scheduling.volcano.sh/queue-name: QUEUE}}
spec: {containers: [{name: main, resources: {requests: {cpu: "1", nvidia.com/gpu: "GPUS"}}}]}
"""

CONFIG = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]\n'


def _pod(name: str, queue: str, gpus: int) -> str:
    return POD.replace("NAME", name).replace("QUEUE", queue).replace("GPUS", str(gpus))


class Show:
    """Runs the command on some text with a configuration of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys
        (folder / "config.yaml").write_text(CONFIG)

    def __call__(self, text: str, *options: str) -> tuple[int, str, str]:
        path = self._folder / "objects.yaml"
        path.write_text(text)
        given = () if "--config" in options else ("--config", str(self._folder / "config.yaml"))
        code = run(["queue", "show", str(path), *given, *options])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    return Show(tmp_path, capsys)


def test_the_table_has_shares_loans_and_jobs(show: Show) -> None:
    code, out, _ = show(SMALL + _pod("one", "lab", 5) + _pod("two", "shop", 4))
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "GPUs: 8 in the cluster, 5 held"
    assert lines[2] == "lab 4 - 1 4 5 5 ■■■■■■■■▨▨ over by 1"
    assert lines[3] == "shop 4 6 1 4 0 4 □□□□□□□□□□ under by 4"
    assert "lab from shop: 1 GPU; shop waits for 4 GPUs" in lines
    assert "lab 1 0 0" in lines
    assert any(line.startswith("shop 0 1 1 ") for line in lines)
    assert max(map(len, out.splitlines())) <= 100


def test_json_has_every_resource_and_says_what_is_not_set(show: Show) -> None:
    code, out, _ = show(SMALL + _pod("one", "lab", 5), "--output", "json")
    document = json.loads(out)
    assert code == 0
    assert list(document) == ["total", "heldByOthers", "behindTaints", "queues", "loans", "missing"]
    lab, shop = document["queues"]
    assert (lab["name"], lab["jobs"], lab["preemptMinRuntime"]) == (
        "lab",
        {"running": 1, "waiting": 0, "pendingPods": 0},
        None,
    )
    assert set(lab["resources"]) == {"cpu", "memory", "nvidia.com/gpu"}
    gpus = shop["resources"]["nvidia.com/gpu"]
    assert {key: gpus[key] for key in ("quota", "limit", "held", "asked")} == {
        "quota": "4",
        "limit": "6",
        "held": "0",
        "asked": "0",
    }
    assert lab["resources"]["nvidia.com/gpu"]["limit"] is None
    assert document["loans"] == [{"borrower": "lab", "lender": "shop", "resource": "nvidia.com/gpu", "amount": "1"}]


def test_other_resources_on_request_with_long_amounts_rounded(show: Show) -> None:
    code, out, _ = show(SMALL, "--resource", "memory", "--resource", "cpu")
    assert code == 0
    assert [line for line in out.splitlines() if "in the cluster" in line] == [
        "memory: 100Gi in the cluster, 0 held",
        "CPUs: 16 in the cluster, 0 held",
    ]


def test_a_resource_that_no_node_has_is_an_error(show: Show) -> None:
    assert show(SMALL, "--resource", "amd.com/gpu")[::2] == (
        2,
        'error: --resource: no node has "amd.com/gpu"; there is cpu, memory, nvidia.com/gpu\n',
    )


def test_a_broken_tree_and_a_missing_queue_are_shown_with_what_waits(show: Show) -> None:
    orphan = """
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: orphan}
spec: {parent: gone}
"""
    code, out, _ = show(SMALL + orphan + _pod("one", "orphan", 1) + _pod("two", "nowhere", 1))
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "orphan 0 - - parent gone of orphan does not exist" in lines
    assert any(line.startswith("orphan 0 1 1 queue-tree-broken: ") for line in lines)
    assert "nowhere 0 1 queue-missing: there is no such queue" in lines


KAI = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "16", memory: 100Gi, pods: "20", nvidia.com/gpu: "8"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: lab}
spec: {resources: {gpu: {quota: -1, limit: -1, overQuotaWeight: 1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec:
  parentQueue: lab
  priority: 200
  reclaimMinRuntime: 90s
  resources: {gpu: {quota: 2, limit: 6, overQuotaWeight: 3}}
"""


def test_queues_of_kai_show_quotas_without_end_priorities_and_runtimes(show: Show) -> None:
    code, out, _ = show(KAI, "--config", "kai")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "lab all - 1 0 0 0" in lines
    assert "└── team 2 6 3 0 0 0" in lines
    assert "lab 100 - -" in lines
    assert "team 200 - 1m 30s" in lines


def test_wrong_input_is_one_line_and_exit_code_2(show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["queue", "show", "no-such-file.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: no-such-file.yaml")
    code, _, error = show(SMALL, "--config", "kay")
    assert (code, error) == (
        2,
        "error: kay: cannot read the configuration: no such file, and no profile; there are kai, muster, volcano\n",
    )


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["queue"]) == 0
    assert "show" in capsys.readouterr().out
