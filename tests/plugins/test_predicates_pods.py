"""Predicates between pods: one row per rule, then what a session does to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api import KubeObject, Pod
from tests.plugins.documents import node, pod
from tests.plugins.sessions import evict, fitting, live_reasons, open_session, place, task_row

ZONES = [
    node("a1", {"zone": "a", "host": "a1"}),
    node("a2", {"zone": "a", "host": "a2"}),
    node("b1", {"zone": "b", "host": "b1"}),
    node("x", {"host": "x"}),
]


def term(app: str | None, key: str = "zone", **others: Any) -> dict[str, Any]:
    selector = {} if app is None else {"labelSelector": {"matchLabels": {"app": app}}}
    return {"topologyKey": key, **selector, **others}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def web(name: str, on: str, namespace: str = "default", **spec: Any) -> Pod:
    return pod(name, {"app": "web"}, namespace, nodeName=on, **spec)


@pytest.mark.parametrize(
    ("affinity", "others", "expected"),
    [
        # with pods of the application, in their zone
        (near(term("web")), [web("w", "a1")], ["a1", "a2"]),
        (near(term("web", "host")), [web("w", "a1")], ["a1"]),
        # a node without the label is in no domain
        (near(term("web")), [web("w", "x")], []),
        (near(term("web")), [], []),
        # other namespaces count only when named or selected
        (near(term("web")), [web("w", "a1", "other")], []),
        (near(term("web", namespaces=["other"])), [web("w", "a1", "other")], ["a1", "a2"]),
        (near(term("web", namespaces=["other"])), [web("w", "a1")], []),
        (near(term("web", namespaceSelector={})), [web("w", "a1", "other")], ["a1", "a2"]),
        (
            near(term("web", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "other"}})),
            [web("v", "b1"), web("w", "a1", "other")],
            ["a1", "a2"],
        ),
        # no selector selects nobody, an empty one everybody
        (near(term(None)), [web("w", "a1")], []),
        (near(term(None, labelSelector={})), [pod("w", nodeName="a1")], ["a1", "a2"]),
        # one pod has to match all terms
        (near(term("web"), term("db")), [web("w", "a1"), pod("d", {"app": "db"}, nodeName="a1")], []),
        # away from pods of the application; a node without the label is far from all
        (away(term("web")), [web("w", "a1")], ["b1", "x"]),
        (away(term("web", "host")), [web("w", "a1")], ["a2", "b1", "x"]),
        (away(term("web")), [web("w", "x")], ["a1", "a2", "b1", "x"]),
        (away(term("web"), term("db")), [web("w", "a1"), pod("d", {"app": "db"}, nodeName="b1")], ["x"]),
    ],
)
def test_pod_affinity(affinity: dict[str, Any], others: list[KubeObject], expected: list[str]) -> None:
    session = open_session([*ZONES, *others, pod(affinity=affinity)], predicates={})
    assert fitting(live_reasons(session, "p")) == expected
    assert session.live_tasks() == {task_row(session, "p")}


def test_the_first_of_a_series_may_go_wherever_the_label_is() -> None:
    series = [pod(name, {"app": "web"}, affinity=near(term("web"))) for name in ("p", "q")]
    session = open_session([*ZONES, *series], predicates={})
    assert fitting(live_reasons(session, "p")) == ["a1", "a2", "b1"]
    place(session, "p", "b1")
    assert fitting(live_reasons(session, "q")) == ["b1"]


def test_a_pod_keeps_others_away_though_they_do_not_mind() -> None:
    guard = pod("guard", affinity=away(term("web")), nodeName="a1")
    session = open_session([*ZONES, guard, pod("p", {"app": "web"}), pod("q", {"app": "db"})], predicates={})
    assert session.live_tasks() == {task_row(session, "p")}
    assert live_reasons(session, "p") == {
        "a1": "others-anti-affinity",
        "a2": "others-anti-affinity",
        "b1": "fits",
        "x": "fits",
    }
    assert fitting(live_reasons(session, "q")) == ["a1", "a2", "b1", "x"]


def test_a_pod_placed_in_the_session_keeps_others_away() -> None:
    objects = [*ZONES, pod("guard", affinity=away(term("web"))), pod("p", {"app": "web"})]
    session = open_session(objects, predicates={})
    assert session.live_tasks() == {task_row(session, "guard"), task_row(session, "p")}
    assert fitting(live_reasons(session, "p")) == ["a1", "a2", "b1", "x"]
    place(session, "guard", "a1", waits=True)
    assert fitting(live_reasons(session, "p")) == ["b1", "x"]


def test_match_label_keys_keep_generations_apart() -> None:
    old = pod("old", {"app": "web", "hash": "1"}, nodeName="a1")
    same = pod("p", {"app": "web", "hash": "2"}, affinity=away(term("web", matchLabelKeys=["hash"])))
    other = pod("q", {"app": "web", "hash": "2"}, affinity=away(term("web", mismatchLabelKeys=["hash"])))
    session = open_session([*ZONES, old, same, other], predicates={})
    assert fitting(live_reasons(session, "p")) == ["a1", "a2", "b1", "x"]
    assert fitting(live_reasons(session, "q")) == ["b1", "x"]


def test_evicted_pods_are_gone_and_terminating_ones_are_not() -> None:
    leaving = web("leaving", "b1")
    leaving.metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    objects = [*ZONES, leaving, web("w", "a1"), pod(affinity=away(term("web")))]
    session = open_session(objects, predicates={})
    assert fitting(live_reasons(session, "p")) == ["x"]
    evict(session, "w")
    assert fitting(live_reasons(session, "p")) == ["a1", "a2", "x"]


def test_finished_pods_do_not_count() -> None:
    done = pod("done", {"app": "web"}, nodeName="a1")
    done.status.phase = "Succeeded"
    session = open_session([*ZONES, done, pod(affinity=away(term("web")))], predicates={})
    assert fitting(live_reasons(session, "p")) == ["a1", "a2", "b1", "x"]


# -- topology spread ---------------------------------------------------------------------------------------


def spread(**given: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **given,
    }
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize(
    ("constraint", "others", "expected"),
    [
        (spread(), [], ["a1", "a2", "b1"]),
        (spread(), ["a1"], ["b1"]),
        (spread(), ["a1", "b1"], ["a1", "a2", "b1"]),
        (spread(maxSkew=2), ["a1"], ["a1", "a2", "b1"]),
        (spread(topologyKey="host"), ["a1", "a2", "b1"], ["x"]),
        # an expected third zone is empty
        (spread(minDomains=3), ["a1", "b1"], []),
        (spread(minDomains=3, maxSkew=2), ["a1", "b1"], ["a1", "a2", "b1"]),
        # an empty selector counts nobody
        (spread(labelSelector={}), ["a1", "a1"], ["a1", "a2", "b1"]),
        (spread(whenUnsatisfiable="ScheduleAnyway"), ["a1"], ["a1", "a2", "b1", "x"]),
    ],
)
def test_topology_spread(constraint: dict[str, Any], others: list[str], expected: list[str]) -> None:
    running = [web(f"w{number}", on) for number, on in enumerate(others)]
    session = open_session([*ZONES, *running, pod("p", {"app": "web"}, **constraint)], predicates={})
    assert fitting(live_reasons(session, "p")) == expected


def test_spread_tells_a_missing_label_from_a_full_zone() -> None:
    session = open_session([*ZONES, web("w", "a1"), pod("p", {"app": "web"}, **spread())], predicates={})
    reasons = live_reasons(session, "p")
    assert reasons == {"a1": "topology-spread", "a2": "topology-spread", "b1": "fits", "x": "topology-label"}


@pytest.mark.parametrize(("policy", "expected"), [("Honor", ["a1", "a2", "b1"]), ("Ignore", ["b1"])])
def test_nodes_that_the_pod_may_not_use_make_no_domains(policy: str, expected: list[str]) -> None:
    constraint = spread(nodeAffinityPolicy=policy)
    asked = pod("p", {"app": "web"}, nodeSelector={"zone": "a"}, **constraint)
    session = open_session([*ZONES, web("w", "a1"), asked], predicates={})
    assert fitting(live_reasons(session, "p")) == expected


@pytest.mark.parametrize(("policy", "expected"), [("Honor", ["a", "b"]), ("Ignore", ["b"])])
def test_tainted_nodes_make_domains_unless_told_otherwise(policy: str, expected: list[str]) -> None:
    nodes = [node("a", {"zone": "a"}), node("b", {"zone": "b"}, taints=[{"key": "k", "effect": "NoSchedule"}])]
    asked = pod("p", {"app": "web"}, **spread(nodeTaintsPolicy=policy))
    session = open_session([*nodes, web("w", "a"), asked], predicates={})
    assert fitting(live_reasons(session, "p")) == expected


# -- host ports --------------------------------------------------------------------------------------------


def ports(*given: tuple[str, str, int]) -> dict[str, Any]:
    listed = [
        {"hostIP": ip, "protocol": protocol, "hostPort": port, "containerPort": 1} for ip, protocol, port in given
    ]
    return {"containers": [{"name": "main", "ports": listed}]}


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        (("", "TCP", 80), ("", "TCP", 80), False),
        (("", "TCP", 80), ("", "TCP", 81), True),
        (("", "TCP", 80), ("", "UDP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), False),
        (("10.0.0.1", "TCP", 80), ("", "TCP", 80), False),
        (("", "TCP", 0), ("", "TCP", 0), True),
    ],
)
def test_host_ports(held: tuple[str, str, int], wanted: tuple[str, str, int], fits: bool) -> None:
    session = open_session([node("n"), pod("q", nodeName="n", **ports(held)), pod(**ports(wanted))], predicates={})
    assert live_reasons(session, "p") == {"n": "fits" if fits else "host-port"}


def test_gang_mates_with_the_same_port_need_a_node_each() -> None:
    pods = [pod(name, **ports(("", "TCP", 80))) for name in "pqr"]
    session = open_session([node("n1"), node("n2"), *pods], predicates={})
    place(session, "p", "n2")
    assert live_reasons(session, "q") == {"n1": "fits", "n2": "host-port"}
    place(session, "q", "n1", waits=True)
    assert fitting(live_reasons(session, "r")) == []


@pytest.mark.parametrize(
    ("argument", "asked"),
    [
        ("predicate.NodePortsEnable", pod(**ports(("", "TCP", 80)))),
        ("predicate.PodAffinityEnable", pod(affinity=near(term("db")))),
        ("predicate.PodTopologySpreadEnable", pod("p", {"app": "web"}, **spread())),
    ],
)
def test_a_check_that_is_off_does_not_slow_tasks_down(argument: str, asked: KubeObject) -> None:
    objects = [*ZONES, web("w", "a1"), asked]
    assert open_session(objects, predicates={}).live_tasks()
    without = open_session(objects, predicates={argument: False})
    assert without.live_tasks() == frozenset()
    assert without.task_verdicts(task_row(without, "p")) is None


def test_a_cluster_without_such_pods_has_no_live_tasks() -> None:
    session = open_session([*ZONES, web("w", "a1"), pod()], predicates={}, nodeorder={})
    assert session.live_tasks() == frozenset()
    assert session.task_verdicts(task_row(session, "p")) is None
    assert session.task_scores(task_row(session, "p")) is None
