"""Ports, pod affinity and topology spread equal the plain rules, also for what a session has placed or evicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from muster.api import Node, Pod
from muster.framework import Session
from tests.plugins import worlds
from tests.plugins.sessions import evict, fitting, live_reasons, live_scores, open_session, place, task_row
from tests.reference import pod_rules
from tests.reference.pod_rules import Sitting, World


@dataclass(frozen=True)
class _Scene:
    """Objects at the start of a session, what is done in it, and the pod that is asked about afterwards."""

    nodes: list[Node]
    running: list[Pod]
    #: Pending pods that the session puts on a node, and whether they wait for room there.
    placed: list[tuple[Pod, str, bool]]
    evicted: list[Pod]
    asked: Pod

    def opened(self, **plugins: dict[str, int]) -> Session:
        pods = [*self.running, *(pod for pod, _, _ in self.placed), self.asked]
        return open_session([*self.nodes, *worlds.namespaces(), *pods], **plugins)

    def session(self, **plugins: dict[str, int]) -> Session:
        session = self.opened(**plugins)
        session.live_tasks()
        for pod, node, waits in self.placed:
            place(session, pod.key, node, waits=waits)
        for pod in self.evicted:
            evict(session, pod.key)
        return session

    def world(self) -> World:
        by_name = {node.name: node for node in self.nodes}
        gone = {pod.key for pod in self.evicted}
        sitting = [
            Sitting(pod, by_name[pod.spec.node_name], pod.metadata.deletion_timestamp is not None)
            for pod in self.running
            if pod.key not in gone
        ]
        sitting += [Sitting(pod, by_name[node]) for pod, node, _ in self.placed]
        return World(self.nodes, sitting, {n.name: n.metadata.labels for n in worlds.namespaces()})


@st.composite
def scenes(draw: st.DrawFn, about: str) -> _Scene:
    nodes = draw(worlds.nodes())
    names = st.sampled_from([node.name for node in nodes])
    running = [draw(worlds.pods(f"r{n}", node=draw(names), about=about)) for n in range(draw(st.integers(0, 4)))]
    pending = [draw(worlds.pods(f"p{n}", about=about)) for n in range(draw(st.integers(0, 3)))]
    placed = [(pod, draw(names), draw(st.booleans())) for pod in pending]
    alive = [pod for pod in running if pod.metadata.deletion_timestamp is None]
    evicted = [pod for pod in alive if draw(st.booleans())]
    return _Scene(nodes, running, placed, evicted, draw(worlds.pods("asked", about=about)))


Rule = Callable[[World, Pod, Node], bool]


def _check_fits(scene: _Scene, rule: Rule) -> None:
    session = scene.session(predicates={})
    world, pod = scene.world(), scene.asked
    expected = [node.name for node in scene.nodes if rule(world, pod, node)]
    assert fitting(live_reasons(session, pod.key)) == expected
    if len(expected) < len(scene.nodes):
        assert task_row(session, pod.key) in scene.opened(predicates={}).live_tasks()


@given(scene=scenes("ports"))
def test_host_ports(scene: _Scene) -> None:
    _check_fits(scene, pod_rules.ports_allow)


@given(scene=scenes("affinity"))
def test_required_pod_affinity(scene: _Scene) -> None:
    _check_fits(scene, pod_rules.affinity_allows)


@given(scene=scenes("spread"))
def test_hard_topology_spread(scene: _Scene) -> None:
    _check_fits(scene, pod_rules.spread_allows)


def _check_scores(scene: _Scene, arguments: dict[str, int], expected: dict[str, int]) -> None:
    assert live_scores(scene.session(nodeorder=arguments), scene.asked.key) == expected
    if any(expected.values()):
        row = task_row(scene.opened(), scene.asked.key)
        assert row in scene.opened(nodeorder=arguments).live_tasks()


@given(scene=scenes("affinity"), weight=st.integers(0, 5))
def test_preferred_pod_affinity(scene: _Scene, weight: int) -> None:
    arguments = {"podaffinity.weight": 1, "podaffinity.hardWeight": weight}
    _check_scores(scene, arguments, pod_rules.affinity_scores(scene.world(), scene.asked, weight))


@given(scene=scenes("spread"))
def test_soft_topology_spread(scene: _Scene) -> None:
    _check_scores(scene, {"podtopologyspread.weight": 1}, pod_rules.spread_scores(scene.world(), scene.asked))
