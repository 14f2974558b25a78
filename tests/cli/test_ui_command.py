"""`muster ui`: what is to be shown, where, and what is wrong with how it was asked for."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from muster.cli.dashboard.component import AUTOGROUP, NICENESS, give_way
from muster.cli.dashboard.sources import Shown, make_feed
from muster.cli.main import run
from muster.cli.simulation import RunOptions
from muster.cli.sources import ObjectSource
from muster.ui.feeds import Label


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "what is to be shown?"),
        (["--demo", "--cluster"], "exclude each other"),
        (["a.yaml", "--demo"], "exclude each other"),
        (["--demo", "--listen", "8330"], "--listen: expected HOST:PORT"),
        (["--demo", "--listen", "localhost:99999"], "--listen: expected HOST:PORT"),
        (["--demo", "--cert", "x.pem"], "--cert and --key belong together"),
        (
            ["--demo", "--listen", "127.0.0.1:0", "--cert", "x.pem", "--key", "y.pem"],
            "--cert, --key: cannot answer over TLS with x.pem and y.pem: No such file or directory",
        ),
        (["--demo", "--token-file", "x", "--listen", "127.0.0.1:0"], "cannot read x: No such file or directory"),
        (["--cluster", "--until", "1m"], "a live cluster has its own time"),
        (["--replay", "."], "expected a folder with report.json or compare.json"),
        (["nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_served(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["ui", *options]) == 2
    assert words in capsys.readouterr().err


def test_what_is_shown_is_called_so_that_it_can_be_told_and_typed(tmp_path: Path) -> None:
    (tmp_path / "later" / "now").mkdir(parents=True)
    (tmp_path / "later" / "now" / "nodes.yaml").write_text(NODE)
    folder = str(tmp_path / "later" / "now")
    source = ObjectSource([folder], scheduler_names=("volcano", "other"))
    feed = make_feed(Shown(RunOptions(source, "kai", until="1m", seed=7)))
    label = feed.label
    assert label.title == "later/now"
    names = "--scheduler-name volcano --scheduler-name other"
    assert label.words == f"{folder} {names} --config kai --until 1m --seed 7"
    assert any("other" in note for note in feed.notes), "what the terminal says, the page says"


def test_a_cluster_is_called_as_people_call_it_and_commands_lead_to_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)

    def label(context: str | None, config: str | None = None) -> Label:
        source = ObjectSource(cluster=True, kubeconfig=path, context=context)
        return make_feed(Shown(RunOptions(source, config))).label

    assert label(None).title == "prod-eu"
    assert label(None, "kai").words == f"--cluster --kubeconfig {path} --config kai"
    assert label("kind-dev").title == "kind-dev"
    assert label("kind-dev").words == f"--cluster --kubeconfig {path} --context kind-dev"
    assert label("arn:aws:eks:eu-west-1:123456789012:cluster/training").title == "training"
    assert label("kubernetes-admin@kubernetes").title == "10.0.0.7:6443", "every kubeadm calls its cluster so"


KUBECONFIG = """
current-context: prod-eu
contexts:
- {name: prod-eu, context: {cluster: c}}
- {name: kind-dev, context: {cluster: c}}
- {name: "arn:aws:eks:eu-west-1:123456789012:cluster/training", context: {cluster: c}}
- {name: kubernetes-admin@kubernetes, context: {cluster: c}}
clusters:
- {name: c, cluster: {server: "https://10.0.0.7:6443"}}
"""

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", pods: "9"}}
"""


def test_beside_a_scheduler_it_gives_way_to_it_and_to_other_sessions() -> None:
    ours = _priority_of_a_new_thread()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _beside_threads) as beside:
        theirs = beside.submit(_priority_of_a_new_thread).result()
        [process] = multiprocessing.active_children()
        assert os.getsid(process.pid or 0) == process.pid, "a session of its own, or its group would be ours"
    assert theirs["policies"] == {os.SCHED_IDLE}
    assert theirs["niceness"] == {NICENESS}
    if AUTOGROUP.exists():  # a kernel may be built without
        assert theirs["group"].endswith(f" nice {NICENESS}")
    assert _priority_of_a_new_thread() == ours, "nobody else gives way"


def _beside_threads() -> None:
    """As libraries have begun some before anybody can say anything."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    give_way()


def _priority_of_a_new_thread() -> dict[str, Any]:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(
            lambda: {
                "policies": {os.sched_getscheduler(each) for each in _threads()},
                "niceness": {os.getpriority(os.PRIO_PROCESS, each) for each in _threads()},
                "group": AUTOGROUP.read_text().strip() if AUTOGROUP.exists() else "",
            }
        ).result()


def _threads() -> list[int]:
    return [int(each.name) for each in Path("/proc/self/task").iterdir()]
