from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from muster.api import Pod
from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import parse_config
from muster.snapshot.messages import Evict, Nominate
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, priority_class, queue
from tests.kubernetes.stage import WITH_EVICTIONS, Stage

CLASSES = [priority_class("high", 1000), priority_class("low", 10)]


@pytest.fixture
def impatient(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[KubernetesCluster]:
    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig, eviction_patience_s=0.5) as connected:
        yield connected


def budget(name: str, labels: Json) -> Json:
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
    return {**head, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}


def let_wait(cluster: KubernetesCluster, kubectl: Kubectl, name: str) -> None:
    """Make a gang of one that is there for the backend, and for which no cycle decides anything."""
    kubectl.create_all(ranked_gang(name, 1, "high"))
    kubectl.wait(lambda: any(event.object.key == f"default/{name}-0" for event in cluster.poll()))


def ranked_gang(name: str, n_pods: int, rank: str, **spec: object) -> list[Json]:
    """A gang whose pods carry its name as a label."""
    documents = list(gang(name, n_pods, group={"priorityClassName": rank}))
    for document in documents[1:]:
        document["spec"] |= {"priorityClassName": rank, **spec}
        document["metadata"]["labels"] = {"gang": name}
    return documents


def test_a_gang_of_higher_priority_takes_the_place_of_another(cluster: KubernetesCluster, kubectl: Kubectl) -> None:
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=2), *ranked_gang("old", 2, "low")])
    stage = Stage(cluster, kubectl, WITH_EVICTIONS)
    stage.run_until(lambda: all(known["status"]["phase"] == "Running" for known in kubectl.list("Pod")))
    kubectl.create_all(ranked_gang("new", 2, "high"))
    stage.run_until(lambda: stage.is_bound("new-0", "new-1"))
    made = [decision for result in stage.results for decision in result.decisions]
    assert sorted(decision.pod for decision in made if isinstance(decision, Evict)) == [
        "default/old-0",
        "default/old-1",
    ]
    assert {decision.node for decision in made if isinstance(decision, Nominate)} == {"n1"}
    assert {name for name, where in kubectl.nodes_of_pods().items() if where} == {"new-0", "new-1"}


def test_an_evicted_pod_says_why_it_leaves_and_the_one_that_waits_where_it_will_go(
    cluster: KubernetesCluster, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=1), pod("old", priorityClassName="low")])
    stage = Stage(cluster, kubectl, WITH_EVICTIONS)
    stage.run_until(lambda: kubectl.get("Pod", "old")["status"]["phase"] == "Running")
    kubectl.create(pod("new", priorityClassName="high"))

    def disruptions() -> list[str]:
        conditions = kubectl.get("Pod", "old")["status"]["conditions"]
        return [known["message"] for known in conditions if known.get("reason") == "PreemptionByScheduler"]

    with control_plane.without_kubelets():
        stage.run_until(disruptions)
        assert disruptions()[0].startswith("preempt: ")
        assert kubectl.get("Pod", "new")["status"]["nominatedNodeName"] == "n1"
        assert not stage.is_bound("new")
    stage.run_until(lambda: stage.is_bound("new"))


def test_a_budget_that_never_yields_gets_its_pod_back_and_no_promise_stays(
    impatient: KubernetesCluster, kubectl: Kubectl
) -> None:
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=1), *ranked_gang("old", 1, "low")])
    stage = Stage(impatient, kubectl, WITH_EVICTIONS)
    stage.run_until(lambda: kubectl.get("Pod", "old-0")["status"]["phase"] == "Running")
    # No controller counts its pods, so the server allows no disruption at all, and Muster cannot know that.
    kubectl.create(budget("guard", {"gang": "old"}))
    let_wait(impatient, kubectl, "new")
    failures = impatient.evict([Evict("default/old-0", "n1", "default/old", "default/new", "test")])
    assert failures == []
    assert [event.object.metadata.deletion_timestamp is None for event in impatient.poll()] == [False]
    kubectl.wait(lambda: any(event.object.key == "default/old-0" for event in impatient.poll()))
    assert "deletionTimestamp" not in kubectl.get("Pod", "old-0")["metadata"]


def test_nobody_leaves_for_a_gang_that_was_deleted_while_a_budget_was_asked(
    cluster: KubernetesCluster, kubectl: Kubectl
) -> None:
    [eviction] = run_gangs(cluster, kubectl, {"old": 1})
    guard(kubectl, "guard", "old", 0)
    until_known(cluster, kubectl, ["guard"])
    assert cluster.evict([eviction]) == []
    kubectl.delete("Pod", "new-0", grace=0)
    kubectl.wait(lambda: any(event.kind == "DELETED" for event in cluster.poll()))
    kubectl.patch("PodDisruptionBudget", "guard", {"status": {"disruptionsAllowed": 1}}, status=True)
    kubectl.wait(lambda: any(event.object.key == eviction.pod for event in cluster.poll()))
    assert "deletionTimestamp" not in kubectl.get("Pod", "old-0")["metadata"]


# -- several pods that budgets guard -----------------------------------------------------------------------------


def guard(kubectl: Kubectl, name: str, gang_name: str, allowed: int) -> None:
    """A budget over a gang, whose controller says that so many of its pods may go."""
    made = kubectl.create(budget(name, {"gang": gang_name}))
    counted = {"disruptionsAllowed": allowed, "currentHealthy": 9, "desiredHealthy": 1, "expectedPods": 9}
    status = {**counted, "observedGeneration": made["metadata"]["generation"]}
    kubectl.patch("PodDisruptionBudget", name, {"status": status}, status=True)


def until_known(cluster: KubernetesCluster, kubectl: Kubectl, names: Iterable[str]) -> None:
    """Wait until the backend has heard of the budgets."""
    missing = set(names)

    def all_known() -> bool:
        missing.difference_update(
            event.object.name for event in cluster.poll() if event.object.kind == "PodDisruptionBudget"
        )
        return not missing

    kubectl.wait(all_known)


def run_gangs(cluster: KubernetesCluster, kubectl: Kubectl, sizes: dict[str, int]) -> list[Evict]:
    """Let gangs run; returns the decisions that evict all their pods for another one."""
    kubectl.create_all([queue("default"), *CLASSES, node("n1", gpu=8)])
    for name, size in sizes.items():
        kubectl.create_all(ranked_gang(name, size, "low"))
    stage = Stage(cluster, kubectl, WITH_EVICTIONS)
    stage.run_until(lambda: all(known["status"]["phase"] == "Running" for known in kubectl.list("Pod")))
    let_wait(cluster, kubectl, "new")
    pods = [(f"default/{name}-{number}", f"default/{name}") for name, size in sizes.items() for number in range(size)]
    return [Evict(pod_key, "n1", job, "default/new", "test") for pod_key, job in pods]


def evict_and_hear(cluster: KubernetesCluster, kubectl: Kubectl, evictions: list[Evict]) -> set[str]:
    """Evict, wait until every pod is known to stay or gone, and return those that stay."""
    cluster.poll()
    assert cluster.evict(evictions) == []
    assert {event.object.key for event in cluster.poll()} >= {made.pod for made in evictions}
    heard: dict[str, bool] = {}

    def all_heard() -> bool:
        for event in cluster.poll():
            if isinstance(event.object, Pod):
                is_going = event.kind == "DELETED" or event.object.metadata.deletion_timestamp is not None
                heard[event.object.key] = not is_going
        return all(heard.get(made.pod) or not exists(kubectl, made.pod) for made in evictions)

    kubectl.wait(all_heard)
    return {made.pod for made in evictions if heard.get(made.pod)}


def exists(kubectl: Kubectl, key: str) -> bool:
    return key.partition("/")[2] in kubectl.nodes_of_pods()


@pytest.mark.parametrize(
    "budgets",
    [
        pytest.param({"one": ("a", 2), "two": ("b", 0)}, id="one of two budgets refuses"),
        pytest.param({"one": ("a", 1)}, id="one budget allows fewer than have to go"),
        pytest.param({"one": ("b", 1), "two": ("b", 1)}, id="the server evicts nobody whom two budgets guard"),
    ],
)
def test_guarded_pods_leave_together_or_not_at_all(
    impatient: KubernetesCluster, kubectl: Kubectl, budgets: dict[str, tuple[str, int]]
) -> None:
    evictions = run_gangs(impatient, kubectl, {"a": 2, "b": 1, "c": 1})
    for name, (gang_name, allowed) in budgets.items():
        guard(kubectl, name, gang_name, allowed)
    until_known(impatient, kubectl, budgets)
    assert evict_and_hear(impatient, kubectl, evictions) == {made.pod for made in evictions}
    assert not any("deletionTimestamp" in each["metadata"] for each in kubectl.list("Pod"))


def test_guarded_pods_that_may_all_go_do(impatient: KubernetesCluster, kubectl: Kubectl) -> None:
    evictions = run_gangs(impatient, kubectl, {"a": 5, "b": 1, "c": 1})
    guard(kubectl, "one", "a", 5)
    guard(kubectl, "two", "b", 1)
    until_known(impatient, kubectl, ["one", "two"])
    assert evict_and_hear(impatient, kubectl, evictions) == set()
    assert kubectl.get("PodDisruptionBudget", "one")["status"]["disruptionsAllowed"] == 0


RECLAIMING = parse_config(
    """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}]
""",
    "reclaiming",
)


def test_what_other_schedulers_hold_does_not_count_as_anybodys_share(
    cluster: KubernetesCluster, kubectl: Kubectl
) -> None:
    """Of eight GPUs another scheduler's pod has four: each of two queues is entitled to two, not to four."""
    system = pod("system", gpu=4, schedulerName="default-scheduler", nodeName="n1")
    kubectl.create_all([queue("a"), queue("b"), node("n1"), system, *gang("old", 4, minimum=1, group={"queue": "a"})])
    stage = Stage(cluster, kubectl, RECLAIMING)
    stage.run_until(lambda: all(known["status"]["phase"] == "Running" for known in kubectl.list("Pod")))
    kubectl.create_all(gang("new", 2, group={"queue": "b"}))
    stage.run_until(lambda: stage.is_bound("new-0", "new-1"))
    evicted = {made.pod for result in stage.results for made in result.decisions if isinstance(made, Evict)}
    assert len(evicted) == 2
    assert all(name.startswith("default/old-") for name in evicted)
    assert kubectl.nodes_of_pods()["system"] == "n1"
