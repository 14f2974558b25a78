"""Answers of the dashboard: as described, and the same as those of the commands."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from muster.api import load_files, load_text
from muster.cli.demo.story import OBJECTS, TIMELINE
from muster.cluster import load_timeline
from muster.explain import explain_job, find_job, job_rows, queue_overview
from muster.framework import default_config
from muster.simulate import simulate
from muster.ui.app import Desk, make_app
from muster.ui.decisions import (
    CycleFilter,
    balance,
    came_since,
    cycles_document,
    evicted_at,
    standing,
    waits_since,
)
from muster.ui.feeds import FileFeed, Played
from muster.ui.history import History, Moment
from muster.ui.jobs import timeline
from muster.ui.openapi import openapi_document
from muster.ui.runs import Runs
from tests.ui.conftest import finished

ADDRESSES = {
    "/api/status": ["/api/status"],
    "/api/cluster/tree": ["/api/cluster/tree", "/api/cluster/tree?at=1"],
    "/api/cluster/state": ["/api/cluster/state", "/api/cluster/state?at=4"],
    "/api/nodes/{name}": ["/api/nodes/gpu-1", "/api/nodes/gpu-1?at=4", "/api/nodes/cpu-1"],
    "/api/jobs": ["/api/jobs", "/api/jobs?q=pre&state=running", "/api/jobs?queue=product&limit=1&at=1"],
    "/api/jobs/{name}": [
        "/api/jobs/research/evaluate",
        "/api/jobs/product/serve?at=4",
        "/api/jobs/default/pod/notebook",
    ],
    "/api/remedies/{name}": ["/api/remedies/product/serve", "/api/remedies/research/evaluate?at=4"],
    "/api/queues": ["/api/queues", "/api/queues?at=1"],
    "/api/queues/series": ["/api/queues/series", "/api/queues/series?resource=nvidia.com/gpu"],
    "/api/cycles": ["/api/cycles"],
    "/api/decisions": ["/api/decisions", "/api/decisions?kind=evict", "/api/decisions?limit=1&quiet=true"],
    "/api/names": ["/api/names"],
    "/api/config": ["/api/config"],
    "/api/search": ["/api/search?q=gpu", "/api/search?q=", "/api/search?q=serve"],
    "/api/lab": ["/api/lab"],
    "/api/lab/{name}": [],
    "/api/lab/{name}/{key}": [],
}


def validate(document: Any, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": openapi_document()["components"]}
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


def schema_of(path: str) -> str:
    operation = openapi_document()["paths"][path]["get"]
    reference: str = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    return reference.rpartition("/")[2]


def test_every_address_that_is_described_is_tried_here() -> None:
    assert set(openapi_document()["paths"]) == {*ADDRESSES, "/api/whatif"}


@pytest.mark.parametrize(("path", "address"), [(path, one) for path, many in ADDRESSES.items() for one in many])
def test_an_answer_is_as_described(client: TestClient, path: str, address: str) -> None:
    response = client.get(address)
    assert response.status_code == 200, response.text
    validate(response.json(), schema_of(path))


def test_every_answer_is_refused_by_the_schema_of_another(client: TestClient) -> None:
    """Else the test above could not fail."""
    document = client.get("/api/status").json()
    for path in ADDRESSES:
        if path != "/api/status":
            with pytest.raises(jsonschema.ValidationError):
                validate(document, schema_of(path))


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/api/nodes/none", 404, "there is no node 'none'"),
        ("/api/jobs/research/evaluat", 404, "did you mean research/evaluate"),
        ("/api/jobs?limit=0", 400, 'limit: expected a whole number from 1 to 1000, got "0"'),
        ("/api/jobs?at=x", 400, "at: expected a whole number"),
        ("/api/cluster/state?at=99", 410, "there is no cycle 99"),
        ("/api/nothing", 404, "/api/openapi.json lists what there is"),
        ("/api/lab/none", 404, "there is no run 'none'"),
        ("/api/lab/none/0f", 404, "there is no run '0f' of a comparison 'none'"),
    ],
)
def test_what_is_wrong_is_said(client: TestClient, address: str, status: int, words: str) -> None:
    response = client.get(address)
    assert response.status_code == status
    validate(response.json(), "Error")
    assert words in response.json()["error"]


def test_of_a_comparison_the_runs_that_it_names_are_told_and_no_other_file(demo: FileFeed, tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    (folder / "runs").mkdir(parents=True)
    named = {"muster": ["0f"], "kai": ["../secret", "gone"]}
    (folder / "compare.json").write_text(json.dumps({"cases": {"a trace": {"runs": named, "figures": {}}}}))
    for file in ("runs/0f", "runs/1e", "secret"):
        (folder / f"{file}.json").write_text(json.dumps({"name": file}))
    with TestClient(make_app(Desk(demo, Runs((tmp_path,)))), base_url="http://127.0.0.1:8330") as client:
        found = client.get("/api/lab/ours/0f")
        assert found.json() == {"name": "ours", "report": {"name": "runs/0f"}}
        validate(found.json(), "Run")
        for key in ("1e", "gone", "..%2Fsecret", "../secret"):
            assert client.get(f"/api/lab/ours/{key}").status_code == 404, key


def test_nothing_can_be_written(client: TestClient) -> None:
    for address in ("/api/jobs", "/api/status", "/api/queues", "/"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert client.request(method, address).status_code in (404, 405)


def as_listed(document: Any) -> Any:
    """Rows as the command has them: since when a job waits is known from what went before, and no command knows it."""
    return [{key: value for key, value in row.items() if key != "waitsSeconds"} for row in document["jobs"]]


def test_the_answers_are_those_of_the_commands(client: TestClient) -> None:
    result = simulate(load_files([OBJECTS]), timeline=load_timeline(TIMELINE))
    session = result.last_session
    assert session is not None
    rows = [row.to_json() for row in job_rows(session, session.now)]
    assert as_listed(client.get("/api/jobs").json()) == rows
    for row in rows:
        explained = explain_job(session, find_job(session.snapshot, row["job"]), session.now).to_json()
        assert client.get(f"/api/jobs/{row['job']}").json()["explanation"] == explained
    queues = client.get("/api/queues").json()
    assert queues["loans"] == [] == queue_overview(session).to_json()["loans"]
    assert [queue["name"] for queue in queues["queues"]] == [view.name for view in queue_overview(session).walk()]
    told = [made for card in client.get("/api/decisions?limit=200").json()["cycles"] for made in card["groups"]]
    assert sum(group["n"] for group in told) == len(result.to_json()["decisions"])


def test_a_past_cycle_stands_as_it_stood(demo: FileFeed) -> None:
    """Sessions are kept while later cycles run; what is made from them must be what it would have been then."""
    with TestClient(make_app(Desk(demo)), base_url="http://localhost") as client:
        for moment in demo.history:
            until = moment.time - demo.start
            session = simulate(load_files([OBJECTS]), until=until, timeline=load_timeline(TIMELINE)).last_session
            assert session is not None
            rows = [row.to_json() for row in job_rows(session, session.now)]
            assert as_listed(client.get(f"/api/jobs?at={moment.cycle}").json()) == rows


def test_the_map_adds_up(client: TestClient) -> None:
    tree, state = client.get("/api/cluster/tree").json(), client.get("/api/cluster/state?at=1").json()
    assert tree["nodes"] == ["cpu-1", "gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    assert tree["scarce"] == "nvidia.com/gpu"
    gpus, holders = state["resources"]["nvidia.com/gpu"], state["holders"]
    for row in range(len(tree["nodes"])):
        held = holders["amount"][holders["start"][row] : holders["start"][row + 1]]
        # Who runs on a node without GPUs is there with CPUs.
        counted = gpus if gpus["total"][row] else state["resources"]["cpu"]
        assert sum(held) == counted["used"][row] > 0
        assert held == sorted(held, reverse=True)
    names = {state["jobs"][job] for job in holders["job"]}
    assert names == {"product/serve", "research/train", "research/sweep", "default/pod/notebook"}


def test_domains_are_ranges_of_nodes(network: FileFeed) -> None:
    with TestClient(make_app(Desk(network)), base_url="http://localhost") as client:
        tree = client.get("/api/cluster/tree").json()
        domains = tree["domains"]
        inside = {
            name: tree["nodes"][domains["lo"][row] : domains["hi"][row]] for row, name in enumerate(domains["name"])
        }
        assert len(inside["cluster"]) == 8
        racks = [nodes for name, nodes in inside.items() if name.startswith("rack")]
        assert sorted(node for rack in racks for node in rack) == sorted(inside["cluster"])
        node = client.get(f"/api/nodes/{tree['nodes'][0]}").json()
        assert [domain["tier"] for domain in node["domains"]] == sorted(domain["tier"] for domain in node["domains"])
        assert node["name"] in inside[node["domains"][0]["name"]]


def test_a_job_says_who_took_its_place_and_what_would_let_it_start(client: TestClient) -> None:
    serve = client.get("/api/jobs/product/serve").json()
    left = next(entry for entry in serve["timeline"] if entry["kind"] == "evict")
    assert (left["beneficiary"], len(left["pods"])) == ("research/pretrain", 6)
    assert left["record"]
    assert serve["explanation"]["advice"]
    pretrain = client.get("/api/jobs/research/pretrain").json()
    kinds = [entry["kind"] for entry in pretrain["timeline"]]
    assert kinds[0] == "created"
    assert {"nominate", "cleared", "bind"} <= set(kinds)
    taking = client.get("/api/queues").json()["takings"]
    assert [(one["from"], one["to"], one["pods"]) for one in taking] == [("product", "research", 6)]


def test_a_cycle_before_has_no_news_of_later_ones(client: TestClient) -> None:
    early = client.get("/api/jobs/product/serve?at=1").json()
    assert all(entry["cycle"] in (None, 1) for entry in early["timeline"])
    assert client.get("/api/queues?at=1").json()["takings"] == []


OWNED = """
apiVersion: v1
kind: Pod
metadata:
  name: tune-head
  namespace: team
  annotations: {scheduling.k8s.io/group-name: podgroup-1f}
  ownerReferences: [{apiVersion: ray.io/v1, kind: RayCluster, name: tune, uid: u1, controller: true}]
spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: podgroup-1f, namespace: team}
spec: {minMember: 1, queue: default}
"""


def test_a_job_says_what_made_its_pods() -> None:
    feed = finished("owned", Played(load_text(OWNED, "owned"), default_config()))
    with TestClient(make_app(Desk(feed)), base_url="http://127.0.0.1:8330") as client:
        [row] = client.get("/api/jobs?q=raycluster tune").json()["jobs"]
        assert (row["job"], row["owner"]) == ("team/podgroup-1f", {"kind": "RayCluster", "name": "tune"})
        assert client.get("/api/jobs?q=rayjob").json()["found"] == 0
        assert client.get("/api/jobs/team/podgroup-1f").json()["row"]["owner"]["name"] == "tune"


def waits(cycle: int, message: str) -> Moment:
    update = {"job": "team/train", "phase": "Pending", "code": "insufficient-resources", "message": message}
    return Moment(cycle, float(cycle), updates=(update,))


def test_a_timeline_has_an_entry_where_the_reason_changes_and_none_where_only_its_numbers_do() -> None:
    said = [
        "no node has room for 1 of 1 pod (u43 has a fair share of 10 GPUs and holds 8 GPUs)",
        "no node has room for 1 of 1 pod (u43 has a fair share of 9 GPUs and holds 8 GPUs)",
        "no node has room for 1 of 1 pod; 3 wait before it",
        "its nodes are promised to it",
    ]
    moments = [waits(cycle, text) for cycle, text in enumerate(said, start=1)]
    assert [entry["cycle"] for entry in timeline("team/train", 0.0, moments)] == [None, 1, 4]


def test_a_job_that_lost_its_place_waits_since_then(client: TestClient) -> None:
    """What product/serve lost, it lost at two minutes; until then it ran."""
    rows = {row["job"]: row for row in client.get("/api/jobs").json()["jobs"]}
    assert rows["research/evaluate"]["waitsSeconds"] == rows["research/evaluate"]["ageSeconds"]
    assert rows["product/serve"]["waitsSeconds"] is None, "it has its minimum"
    moments = [
        Moment(1, 0.0),
        Moment(2, 100.0, decisions=(decision("evict", "a/mine", beneficiary="b/other"),)),
        Moment(3, 130.0, decisions=(decision("bind", "b/other"),)),
        Moment(4, 160.0, decisions=(decision("bind", "b/late"),)),
    ]
    row = {"job": "a/mine", "state": "waiting", "ageSeconds": 200.0}
    assert waits_since(row, 200.0, evicted_at(moments)) == 100.0
    assert waits_since(row, 200.0, evicted_at(moments[:1])) == 0.0
    assert waits_since({**row, "state": "running"}, 200.0, evicted_at(moments)) is None
    came = came_since(["b/other", "b/late", "a/old"], 100.0, moments)
    assert [(each["job"], each["cycle"]) for each in came] == [("b/late", 4), ("b/other", 3)]
    assert [each["job"] for each in came_since(["b/other", "b/late"], 130.0, moments)] == ["b/late"]


def test_that_a_job_runs_is_told_after_its_first_pods_are_bound() -> None:
    """A live cluster tells both at once; of pods that come later it had its minimum before."""
    runs = {"job": "a/mine", "phase": "Running", "code": "", "message": ""}
    both = Moment(1, 10.0, decisions=(decision("bind", "a/mine"),), updates=(runs,))
    assert [entry["kind"] for entry in timeline("a/mine", 0.0, [both])] == ["created", "bind", "phase"]
    bound = Moment(1, 10.0, decisions=(decision("bind", "a/mine"),))
    grows = replace(both, cycle=2, time=20.0)
    assert [entry["kind"] for entry in timeline("a/mine", 0.0, [bound, grows])] == ["created", "bind", "phase", "bind"]


def decision(kind: str, job: str, **more: str) -> dict[str, Any]:
    made = {"kind": kind, "job": job, "beneficiary": "", "pod": f"{job}-0", "node": "n", "why": "so", "queue": "q"}
    return {**made, "beneficiaryQueue": "r", **more}


def test_an_eviction_says_how_the_queues_stood() -> None:
    def held(of_q: int, share_q: int, of_r: int, share_r: int) -> dict[str, Any]:
        return {
            "q": {"nvidia.com/gpu": (of_q * 1000, share_q * 1000)},
            "r": {"nvidia.com/gpu": (of_r * 1000, share_r * 1000)},
        }

    moments = [
        Moment(1, 0.0, held=held(19, 19, 3, 5)),
        Moment(2, 100.0, held=held(7, 13, 11, 11), decisions=(decision("evict", "a/mine", beneficiary="b/other"),)),
    ]
    told = "before it, q held 19 GPUs, its fair share was 13 GPUs; r held 3 GPUs, its fair share was 11 GPUs"
    [cycle] = cycles_document(moments, CycleFilter())["cycles"]
    assert [group["balance"] for group in cycle["groups"]] == [told]
    assert [entry["balance"] for entry in timeline("a/mine", 0.0, moments) if entry["kind"] == "evict"] == [told]
    assert balance(moments[0], moments[1], "q", "r") == told
    assert balance(None, moments[1], "q", "r") == "", "without a session nobody knows"


def test_an_eviction_within_a_queue_says_who_is_more_urgent() -> None:
    def said(why: str, own: int, other: int) -> str:
        made = {**decision("evict", "a/mine"), "beneficiaryQueue": "q", "why": why}
        moment = Moment(1, 0.0)
        return standing(None, moment, {**made, "priority": own, "beneficiaryPriority": other})

    assert said("gangpreempt: so", 1, 9) == "its priority is 1, that of the job for which it left 9"
    assert said("consolidation: so", 1, 9) == "", "it would have been moved for any other"
    assert said("preempt: so", 9, 9) == ""


def test_how_queues_stood_before_the_first_cycle_follows_from_what_it_decided(demo: FileFeed) -> None:
    before, moment = [each for each in demo.history if each.cycle in (3, 4)]
    told = balance(before, moment, "product", "research")
    assert "product held 20 GPUs" in told
    assert balance(None, moment, "product", "research") == told


def test_names_keep_their_place_while_others_come(demo: FileFeed) -> None:
    history, told = History(), []
    for known in demo.history:
        history.add(known)
        told.append(history.names())
    assert len(told[0]["jobs"]) < len(told[-1]["jobs"])
    for before, after in pairwise(told):
        assert after["jobs"][: len(before["jobs"])] == before["jobs"]
    assert told[-1]["queues"] == sorted(told[-1]["queues"])


def test_states_are_counted_of_what_the_other_filters_admit(client: TestClient) -> None:
    every = client.get("/api/jobs").json()["states"]
    one = client.get("/api/jobs?queue=product&state=waiting").json()
    assert sum(every.values()) == 6
    assert (sum(one["states"].values()), one["found"], one["total"]) == (1, 0, 6)


FIRM = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: firm, namespace: team}
spec: {minMember: 1, queue: q, priorityClassName: build}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: loose, namespace: team}
spec: {minMember: 1, queue: q, priorityClassName: train}
"""


def test_a_job_says_what_keeps_evictions_from_it() -> None:
    feed = finished("firm", Played(load_text(FIRM, "firm"), default_config()))
    with TestClient(make_app(Desk(feed)), base_url="http://127.0.0.1:8330") as client:
        assert client.get("/api/jobs/team/firm").json()["notPreemptible"] == "its priority is 100 or more"
        assert client.get("/api/jobs/team/loose").json()["notPreemptible"] == ""
