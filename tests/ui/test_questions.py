"""What if, asked over HTTP: the answer of the command, nothing changed, no file read."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from muster.api import load_files
from muster.cli.main import run
from muster.framework import default_config
from muster.ui.app import Desk, make_app
from muster.ui.feeds import Feed, FileFeed, Label, Played
from muster.ui.questions import MAX_BYTES
from tests.ui.conftest import TRIALS, finished
from tests.ui.test_api import validate

JOB = """
apiVersion: v1
kind: Pod
metadata: {name: late, namespace: research}
spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
"""


def ask(client: TestClient, *changes: tuple[str, str], **more: Any) -> Any:
    body = {"changes": [{"kind": kind, "text": text} for kind, text in changes], **more}
    return client.post("/api/whatif", json=body)


def test_a_question_has_an_answer_and_changes_nothing(client: TestClient) -> None:
    before = [client.get(address).json() for address in ("/api/jobs", "/api/cluster/state", "/api/decisions")]
    response = ask(client, ("add-nodes", "1xgpu-1"), ("submit", JOB))
    assert response.status_code == 200, response.text
    validate(response.json(), "Comparison")
    told = response.json()
    assert told["changes"] == ["1 more node like gpu-1", "Pod research/late submitted"]
    assert told["with"]["gpus"] == told["without"]["gpus"] + 8
    assert next(job for job in told["jobs"] if job["job"] == "research/pod/late")["difference"] == "new"
    grown = next(job for job in told["jobs"] if job["job"] == "product/serve")
    assert grown["with"]["pending"] == 0, "the pod that waited has room now"
    after = [client.get(address).json() for address in ("/api/jobs", "/api/cluster/state", "/api/decisions")]
    assert before == after


def test_the_past_is_no_answer_and_can_be_asked_about(client: TestClient) -> None:
    late = ask(client, ("drain", "gpu-4")).json()
    assert late["without"]["evictedPods"] == 0, "what was evicted before is no consequence"
    early = ask(client, ("drain", "gpu-4"), at=4).json()
    assert early["cycle"] == 4


@pytest.mark.parametrize(
    ("trial", "job"), [("quota-above-leaf-1", "ns/w2"), ("surplus-first-1", "d/low"), ("nominations-1", "default/f-n1")]
)
def test_remedies_are_those_that_the_command_tells(capsys: pytest.CaptureFixture[str], trial: str, job: str) -> None:
    file = TRIALS / f"{trial}.yaml"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    assert run(["explain", job, str(file), "--cycles", "30", "--output", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    feed = finished(trial, Played(load_files([file]), default_config(), cycles=30))
    with TestClient(make_app(Desk(feed)), base_url="http://127.0.0.1:8330") as client:
        found = client.get(f"/api/remedies/{job}").json()
        page = client.get(f"/api/jobs/{job}").json()
    assert expected["advice"], "something helps"
    assert [each["text"] for each in found["advice"]] == expected["advice"]
    assert found["untried"] == expected["untried"]
    assert found["expectedStart"] == expected["expectedStart"]
    tried = ("advice", "untried", "expectedStart", "evictions")
    assert {key: value for key, value in expected.items() if key not in tried} == {
        key: value for key, value in page["explanation"].items() if key not in tried
    }


def test_a_remedy_can_be_asked_about(client: TestClient) -> None:
    found = client.get("/api/remedies/product/serve").json()
    wait, more = found["advice"]
    assert wait["changes"] == [{"kind": "delete", "text": "research/pretrain"}]
    assert more["changes"] == [{"kind": "add-nodes", "text": "1xgpu-1"}]
    told = client.post("/api/whatif", json={"changes": more["changes"]}).json()
    assert next(job for job in told["jobs"] if job["job"] == "product/serve")["with"]["pending"] == 0


def test_what_runs_needs_no_remedy_and_what_is_not_there_has_none(client: TestClient) -> None:
    found = client.get("/api/remedies/research/pretrain").json()
    assert (found["advice"], found["untried"], found["expectedStart"]) == ([], [], None)
    assert client.get("/api/remedies/research/nobody").status_code == 404


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("drain", "gpu-9", "there is no node"),
        ("config", "/etc/passwd", "expected a profile"),
        ("add-nodes", "2x/etc/hosts.yaml", "such as 8xgpu-1"),
        ("submit", "- a: [", ""),
        ("submit", "", "got no object"),
        ("explode", "x", "kind: expected one of"),
        ("queue", "research.quotas=1", "quota"),
    ],
)
def test_what_cannot_be_asked_is_told(client: TestClient, kind: str, text: str, words: str) -> None:
    response = ask(client, (kind, text))
    assert response.status_code == 400
    assert words in response.json()["error"]


def test_no_file_of_the_server_can_be_read(client: TestClient, tmp_path: Path) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text("kind: Secret\ndata: {word: hush}\n")
    for kind in ("submit", "add-nodes", "config", "drain", "delete", "queue", "priority"):
        for text in (str(file), f"1x{file}"):
            assert "hush" not in ask(client, (kind, text)).text


def test_bodies_are_limited_and_of_one_type(client: TestClient) -> None:
    assert client.post("/api/whatif", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415
    huge = client.post("/api/whatif", content=b" " * (MAX_BYTES + 1), headers={"Content-Type": "application/json"})
    assert huge.status_code == 413
    assert ask(client).status_code == 400
    assert client.post("/api/whatif", json={"changes": [], "more": 1}).status_code == 400


def test_without_a_cluster_there_is_nothing_to_ask(demo: FileFeed) -> None:
    feed = Feed(Label("replay", "x"), demo.config)
    with TestClient(make_app(Desk(feed)), base_url="http://localhost") as client:
        assert ask(client, ("drain", "gpu-1")).status_code == 410
