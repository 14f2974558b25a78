"""Who may read, and what: hosts, tokens, reviews, namespaces, limits."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from muster.api import BackendError, UserError, load_text
from muster.ui.access import RateLimit, ReviewGate, TokenGate, is_loopback
from muster.ui.app import HEADERS, Desk, make_app
from muster.ui.feeds import Feed, FileFeed, Label, Played
from muster.ui.serve import ServeOptions, gate_of
from muster.ui.visibility import HIDDEN, Reader, shown_to
from tests.ui.conftest import finished

ALONE = """
apiVersion: v1
kind: Pod
metadata: {name: only, namespace: product}
spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
"""
TOKEN = "a-token-that-is-long-enough"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


def client_of(desk: Desk, host: str = "127.0.0.1:8330") -> TestClient:
    return TestClient(make_app(desk), base_url=f"http://{host}")


@pytest.mark.parametrize("host", ["localhost", "localhost:8330", "127.0.0.1", "127.0.0.9:1", "[::1]:8330", "::1"])
def test_this_machine_by_its_names(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "example.com", "localhost.example.com", "127.0.0.1.nip.io", "10.0.0.1:80", "[::2]"]
)
def test_names_that_anybody_could_point_here(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("address", ["/", "/api/status", "/api/events", "/api/openapi.json", "/static/app.js"])
def test_a_page_from_elsewhere_cannot_read_along(demo: FileFeed, address: str) -> None:
    response = client_of(Desk(demo), "rebound.example.com").get(address)
    assert response.status_code == 421
    assert "loopback" in response.text


@pytest.mark.parametrize("address", ["/", "/jobs/research/evaluate", "/api/status", "/api/nothing", "/static/app.js"])
def test_every_answer_has_the_headers_that_keep_others_out(client: TestClient, address: str) -> None:
    response = client.get(address)
    assert HEADERS.items() <= dict(response.headers).items() or all(
        response.headers[name] == value for name, value in HEADERS.items()
    )
    assert "unsafe" not in response.headers["Content-Security-Policy"]


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_script(client: TestClient) -> None:
    page = client.get("/").text
    assert "<script" in page
    assert page.count("<script") == page.count("<script src=") + page.count('<script type="module" src=')
    assert "style=" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_files_outside_of_the_page_are_not_served(client: TestClient) -> None:
    for address in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/none.js", "/static//etc/passwd"):
        response = client.get(address)
        assert response.status_code == 404 or response.text == client.get("/").text


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_without_the_token_there_is_no_answer(demo: FileFeed) -> None:
    client = client_of(Desk(demo, gate=TokenGate(TOKEN), loopback_only=False), "muster.example.com")
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
    ):
        for address in ("/api/status", "/api/jobs", "/api/events"):
            response = client.get(address, headers=headers)
            assert response.status_code == 401
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert "research" not in response.text
    assert client.get("/api/status", headers=AUTHORIZED).status_code == 200
    assert client.get("/").status_code == 200, "the page itself says nothing"


def test_a_token_that_has_been_changed_is_not_valid_any_more(demo: FileFeed, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    client = client_of(Desk(demo, gate=TokenGate(file=file), loopback_only=False))
    assert client.get("/api/status", headers=AUTHORIZED).status_code == 200
    file.write_text("another-token-that-is-long-enough")
    assert client.get("/api/status", headers=AUTHORIZED).status_code == 401
    file.unlink()
    assert client.get("/api/status", headers=AUTHORIZED).status_code == 503


def test_a_short_token_or_none_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("abc")
    with pytest.raises(UserError, match="at least 16 characters"):
        TokenGate(file=tmp_path / "short")
    with pytest.raises(UserError, match="cannot read"):
        TokenGate(file=tmp_path / "none")


def test_beyond_loopback_a_token_is_made() -> None:
    assert gate_of(ServeOptions("127.0.0.1"))[1] == ""
    gate, token = gate_of(ServeOptions("0.0.0.0"))
    assert isinstance(gate, TokenGate)
    assert len(token) >= 32
    assert token != gate_of(ServeOptions("0.0.0.0"))[1]


# -- the cluster's own word ------------------------------------------------------------------------------------------


class Cluster:
    """Answers reviews as a cluster would, and counts them."""

    def __init__(self, allowed: set[str]) -> None:
        self.allowed = allowed
        self.tokens = {TOKEN}
        self.asked: list[str] = []
        self.is_down = False

    def ask(self, path: str, body: bytes) -> bytes:
        if self.is_down:
            raise BackendError("no answer", retryable=True)
        self.asked.append(path.rpartition("/")[2])
        spec = json.loads(body)["spec"]
        if path.endswith("tokenreviews"):
            is_known = spec["token"] in self.tokens
            return json.dumps({"status": {"authenticated": is_known, "user": {"username": "ann"}}}).encode()
        wanted = spec["resourceAttributes"]
        assert (spec["user"], wanted["verb"], wanted["resource"]) == ("ann", "list", "pods")
        return json.dumps({"status": {"allowed": wanted.get("namespace", "*") in self.allowed}}).encode()


def test_a_reader_sees_the_namespaces_that_the_cluster_shows_them(demo: FileFeed) -> None:
    cluster = Cluster({"product"})
    client = client_of(Desk(demo, gate=ReviewGate(cluster.ask), loopback_only=False))
    jobs = client.get("/api/jobs", headers=AUTHORIZED).json()
    assert [row["job"] for row in jobs["jobs"]] == ["product/serve"]
    assert jobs["total"] == 1
    assert client.get("/api/jobs/research/evaluate", headers=AUTHORIZED).status_code == 404
    assert client.get("/api/jobs/evaluate", headers=AUTHORIZED).status_code == 404
    for address in (
        "/api/cluster/state?at=4",
        "/api/jobs/product/serve",
        "/api/queues",
        "/api/decisions?limit=200&quiet=true",
        "/api/search?q=e",
        "/api/nodes/gpu-1?at=4",
        "/api/nodes/gpu-4",
        "/api/config",
    ):
        response = client.get(address, headers=AUTHORIZED)
        assert response.status_code == 200
        for hidden in ("research/", "default/pod", "pretrain", "notebook", "evaluate", "sweep"):
            assert hidden not in response.text, f"{address} tells of {hidden}"
    state = client.get("/api/cluster/state?at=4", headers=AUTHORIZED).json()
    assert len(state["state"]) == 5, "nodes and their totals are everybody's"
    assert HIDDEN in state["jobs"]


def test_who_may_list_all_pods_sees_all(demo: FileFeed) -> None:
    client = client_of(Desk(demo, gate=ReviewGate(Cluster({"*"}).ask), loopback_only=False))
    assert client.get("/api/jobs", headers=AUTHORIZED).json()["total"] == 6


def test_answers_of_the_cluster_are_kept_for_a_while_and_no_longer(demo: FileFeed) -> None:
    cluster, now = Cluster({"product"}), [0.0]
    client = client_of(Desk(demo, gate=ReviewGate(cluster.ask, lambda: now[0]), loopback_only=False))
    for _ in range(5):
        assert client.get("/api/status", headers=AUTHORIZED).status_code == 200
    assert cluster.asked.count("tokenreviews") == 1
    assert cluster.asked.count("subjectaccessreviews") == 4, "all namespaces, and each of three"
    cluster.tokens.clear()
    now[0] = 31.0
    assert client.get("/api/status", headers=AUTHORIZED).status_code == 401
    cluster.is_down = True
    assert client.get("/api/status", headers=AUTHORIZED).status_code == 503


def test_what_has_gone_since_stays_hidden(demo: FileFeed) -> None:
    """Nothing of research is there any more; what was decided about it is."""
    latest = demo.history.latest
    assert latest is not None
    feed = Feed(Label("files", "later"), demo.config)
    for known in demo.history:
        feed.history.add(replace(known, answers={}, session=None))
    alone = finished("alone", Played(load_text(ALONE, "alone"), demo.config)).history.latest
    assert alone is not None
    aside = {"kind": "Pod", "namespace": "audit", "name": "broken", "reason": "a pod of audit/books"}
    feed.history.add(replace(alone, cycle=99, quarantined=(aside,)))
    client = client_of(Desk(feed, gate=ReviewGate(Cluster({"product"}).ask), loopback_only=False))
    for address in ("/api/decisions?limit=200&quiet=true", "/api/queues", "/api/config", "/api/jobs/product/only"):
        response = client.get(address, headers=AUTHORIZED)
        assert response.status_code == 200
        for hidden in ("research/", "pretrain", "evaluate", "broken", "books"):
            assert hidden not in response.text, f"{address} tells of {hidden}"
    assert "product/serve" in client.get("/api/decisions?limit=200", headers=AUTHORIZED).text


def test_names_that_are_nearly_right_are_not_told(demo: FileFeed) -> None:
    client = client_of(Desk(demo, gate=ReviewGate(Cluster({"product"}).ask), loopback_only=False))
    question = {"changes": [{"kind": "priority", "text": "research/evaluat=9"}]}
    response = client.post("/api/whatif", json=question, headers=AUTHORIZED)
    assert response.status_code == 400
    assert "evaluate" in client_of(Desk(demo)).post("/api/whatif", json=question).text
    assert "evaluate" not in response.text


# -- what is left out ------------------------------------------------------------------------------------------------

ROWS: list[tuple[Any, Any]] = [
    (
        {"found": [{"kind": "job", "name": "b/y"}, {"kind": "node", "name": "n"}]},
        {"found": [{"kind": "node", "name": "n"}]},
    ),
    ({"aside": [{"kind": "Pod", "namespace": "b", "name": "y"}]}, {"aside": []}),
    ({"leaders": [{"lease": "x", "namespace": "b"}]}, {"leaders": [{"lease": "x", "namespace": "b"}]}),
    ({"jobs": [{"job": "a/x"}, {"job": "b/y"}]}, {"jobs": [{"job": "a/x"}]}),
    ({"why": "makes room for b/y: it can"}, {"why": f"makes room for {HIDDEN}: it can"}),
    ({"why": "waits for b/pod/lone, a/x."}, {"why": f"waits for {HIDDEN}, a/x."}),
    ({"names": ["a/x", "b/y"]}, {"names": ["a/x", HIDDEN]}),
    ({"image": "example.com/b/y"}, {"image": "example.com/b/y"}),
    ({"b/y": 1, "n": [1, 2.5, None, True]}, {HIDDEN: 1, "n": [1, 2.5, None, True]}),
    ({"pods": [{"pod": "b/y-0", "node": "n"}]}, {"pods": []}),
]


@pytest.mark.parametrize(("document", "seen"), ROWS)
def test_what_is_hidden_is_left_out_everywhere(document: Any, seen: Any) -> None:
    assert shown_to(Reader("ann", frozenset({"a"})), document, {"a", "b"}) == seen
    assert shown_to(Reader("ann"), document, {"a", "b"}) == document


# -- limits ----------------------------------------------------------------------------------------------------------


def test_a_client_that_asks_too_much_waits_and_others_do_not() -> None:
    now = [0.0]
    limit = RateLimit(per_second=2, at_once=3, clock=lambda: now[0])
    assert [limit.admits("one") for _ in range(4)] == [True, True, True, False]
    assert limit.admits("other")
    now[0] = 0.5
    assert [limit.admits("one"), limit.admits("one")] == [True, False]
    now[0] = 60.0
    assert [limit.admits("one") for _ in range(4)] == [True, True, True, False], "no more is saved up"


def test_too_many_requests_are_told_so(demo: FileFeed) -> None:
    client = client_of(Desk(demo, rate=RateLimit(per_second=0.001, at_once=2)))
    assert [client.get("/api/status").status_code for _ in range(3)] == [200, 200, 429]
    assert client.get("/api/status").headers["Retry-After"] == "1"
