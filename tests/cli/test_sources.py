"""Where commands read objects from: files, a saved snapshot, a live cluster that cannot be reached."""

import gzip
import json
import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from muster.api import Pod, StorageClass, UserError, decode, load_files
from muster.cli import sources
from muster.cli.main import run
from muster.cli.sources import save, without_secrets
from muster.cluster.kubernetes.client.shards import Target

Document = dict[str, object]

HEAD: Document = {
    "apiVersion": "muster.sh/v1alpha1",
    "kind": "ClusterSnapshot",
    "metadata": {"name": "then"},
    "spec": {"takenAt": "2026-03-01T12:00:00Z", "schedulerNames": ["volcano"]},
}
NODE: Document = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "8", "pods": "10"}},
}
QUEUE: Document = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}


def pod(name: str, scheduler: str) -> Document:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def written(path: Path, *documents: Document) -> str:
    text = "".join(json.dumps(document) + "\n" for document in documents)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def unreachable(path: Path) -> str:
    """A kubeconfig of a server that nobody is."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.mark.parametrize("name", ["saved.jsonl", "saved.jsonl.gz", "saved.json.gz", "saved.json"])
def test_a_saved_snapshot_is_run_from_its_moment_for_its_scheduler(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / name, HEAD, NODE, QUEUE, pod("ours", "volcano"), pod("other", "default-scheduler"))
    assert run(["simulate", file, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [decision["pod"] for decision in document["decisions"]] == ["default/ours"]
    assert list(document["jobs"]) == ["default/pod/ours"]


def test_the_scheduler_of_a_replay_can_be_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "saved.jsonl", HEAD, NODE, QUEUE, pod("ours", "volcano"), pod("other", "kai-scheduler"))
    assert run(["simulate", file, "--scheduler-name", "kai-scheduler", "--output", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["jobs"]) == ["default/pod/other"]


def decided_first(file: str, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    assert run(["simulate", file, "--cycles", "1", "--output", "json"]) == 0
    decisions = json.loads(capsys.readouterr().out)["decisions"]
    return [(made["kind"], made["pod"], made["node"]) for made in decisions]


def test_pods_that_should_have_gone_by_then_are_still_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leaving = pod("leaving", "volcano")
    leaving["metadata"] = {"name": "leaving", "deletionTimestamp": "2026-03-01T11:59:00Z"}
    leaving["spec"] = {**asking("8"), "nodeName": "n1"}
    leaving["status"] = {"phase": "Running"}
    waiting = {**pod("waiting", "volcano"), "spec": asking("8")}
    file = written(tmp_path / "saved.jsonl", HEAD, NODE, QUEUE, leaving, waiting)
    assert ("bind", "default/waiting", "n1") not in decided_first(file, capsys)


def asking(cpu: str) -> Document:
    """What a pod says that wants so much."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {"schedulerName": "volcano", "containers": [container]}


@pytest.mark.parametrize(("mode", "second"), [("hard", []), ("soft", [("bind", "default/b", "n1")])])
def test_the_nodes_of_a_saved_shard_come_first_and_others_never_or_last(
    mode: str, second: list[tuple[str, str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shard: Document = {"mode": mode, "nodes": ["n2"]}
    head: Document = {**HEAD, "spec": {"schedulerNames": ["volcano"], "shard": shard}}
    nodes = [{**NODE, "metadata": {"name": name}} for name in ("n1", "n2")]
    pods = [{**pod(name, "volcano"), "spec": asking("8")} for name in ("a", "b")]
    file = written(tmp_path / "saved.jsonl", head, *nodes, QUEUE, *pods)
    assert decided_first(file, capsys) == [("bind", "default/a", "n2"), *second]


def test_nothing_is_added_to_what_a_cluster_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "saved.jsonl", HEAD, NODE, pod("ours", "volcano"))
    assert run(["explain", "ours", file, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"]["code"] == "queue-missing"


def test_objects_of_a_cluster_are_taken_as_they_are_and_those_of_files_are_not(tmp_path: Path) -> None:
    wrong: Document = {**QUEUE, "spec": {"weight": -1}}
    assert len(load_files([written(tmp_path / "saved.jsonl", HEAD, wrong)])) == 2
    with pytest.raises(UserError, match="weight"):
        load_files([written(tmp_path / "saved.jsonl", HEAD), written(tmp_path / "file.json", wrong)])


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    file = tmp_path / "saved.jsonl.gz"
    file.write_bytes(gzip.compress(b"{}" * 1000)[:20])
    with pytest.raises(UserError, match=r"saved\.jsonl\.gz: expected a file that gzip has packed"):
        load_files([file])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "x.yaml", "--cluster"], "--cluster and files exclude each other; leave out --cluster or x.yaml"),
        (["explain", "job"], "expected a FILE with nodes, queues and pods, or --cluster for those of a live cluster"),
        (["queues", "show", "--context", "c", "x"], "--context says which cluster to read; give --cluster as well"),
        (["topology", "check", "x", "--kubeconfig", "k"], "--kubeconfig says which cluster to read; give --cluster"),
        (["topology", "show", "x", "--cluster"], "--cluster and files exclude each other; leave out --cluster or x"),
        (["snapshot", "save", "x.txt"], "expected a name that ends in .jsonl, .json or .yaml, with or without .gz"),
    ],
)
def test_sources_that_exclude_each_other_or_lack_something_are_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_server_that_does_not_answer_is_one_sentence_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = unreachable(tmp_path / "kubeconfig")
    assert run(["explain", "job", "--cluster", "--kubeconfig", kubeconfig]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the API server http://127.0.0.1:")
    assert f"(of {kubeconfig}) does not answer" in line


def test_a_kubeconfig_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none")
    assert run(["simulate", "--cluster", "--kubeconfig", missing]) == 2
    assert capsys.readouterr().err.startswith(f"error: {missing}: no such kubeconfig")


def test_a_snapshot_keeps_what_scheduling_reads_and_nothing_else() -> None:
    document = pod("p", "volcano")
    annotations = {"scheduling.k8s.io/group-name": "g", "volcano.sh/preemptable": "true", "pod-group-name": "g"}
    others = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/note": "x", "note": "x"}
    document["metadata"] = {"name": "p", "annotations": {**annotations, **others}, "labels": {"app": "web"}}
    document["status"] = {"phase": "Failed", "message": "private", "conditions": [{"type": "Ready", "message": "x"}]}
    kept = without_secrets(decode(document))
    assert isinstance(kept, Pod)
    assert kept.metadata.annotations == annotations
    assert kept.metadata.labels == {"app": "web"}
    assert (kept.status.phase, kept.status.message, kept.status.conditions[0].message) == ("Failed", "", "")
    assert without_secrets(decode(document), all_annotations=True).metadata.annotations == {**annotations, **others}
    fast: Document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "parameters": {"userKey": "private"},
    }
    storage = without_secrets(decode(fast))
    assert isinstance(storage, StorageClass)
    assert storage.parameters == {}


@pytest.mark.parametrize("name", ["saved.jsonl", "saved.yaml.gz"])
def test_a_saved_cluster_is_read_by_its_owner_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "read_cluster", lambda _: SimpleNamespace(objects=[decode(HEAD), decode(NODE)]))
    file = tmp_path / name
    for left_over in (file, file.with_name(f"{name}.part")):
        left_over.write_text("from an earlier run, for everybody")
        left_over.chmod(0o666)
    before = os.umask(0)
    try:
        save(file, Target(None, None))
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [thing.kind for thing in load_files([str(file)]).objects] == ["ClusterSnapshot", "Node"]
    assert not file.with_name(f"{name}.part").exists()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, spec: {schedulingPolicy: {basic: {}}}", False),
        ("{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{name: c}]}}}", True),
    ],
)
def test_workloads_whose_pods_name_no_scheduler_are_told_of_and_gangs_make_none(
    kind: str, *, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{kind}, metadata: {{name: w}}}}\n---\n{json.dumps(NODE)}\n")
    assert run(["simulate", str(file)]) == 0
    assert ("pods that name no scheduler are placed here" in capsys.readouterr().err) is told
