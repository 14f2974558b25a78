"""Nodes whose taints no pod tolerates are not shared out among queues: nobody could have what they hold."""

from __future__ import annotations

import pytest

from muster.api import KubeObject, Pod, Taint, Toleration
from muster.cluster import MemoryCluster
from muster.framework import PluginOption, SchedulerConfig, Session, points
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot import Mirror
from muster.snapshot.messages import Bind, Decision, Evict
from muster.testing.builders import gang, node, pod, pod_group, queue
from tests.plugins.queue_stage import REGISTRY
from tests.plugins.test_foreign_room import CONFIGS, OURS, foreign, ours, session

CONTROL_PLANE = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")


def running(name: str, queue_name: str, node_name: str) -> list[KubeObject]:
    """Four pods of one CPU, any three of which may go."""
    members = [pod(f"{name}-{k}", group=name, cpu=1, node=node_name, phase="Running") for k in range(4)]
    return [pod_group(name, minimum=1, queue=queue_name, phase="Running"), *members]


def cluster(*more: KubeObject, effect: str = "NoSchedule") -> list[KubeObject]:
    """Two nodes of four CPUs that two queues have filled, a tainted one, and a third queue that wants two CPUs."""
    taint = Taint(key=CONTROL_PLANE.key, effect=effect)
    workers = [node(name, cpu=4) for name in ("w1", "w2")]
    filled = ours(*running("one", "a", "w1"), *running("two", "b", "w2"), *gang("new", 2, queue="c", cpu=1))
    queues = [queue(name) for name in "abc"]
    return [*workers, node("control", cpu=4, taints=[taint]), *queues, *filled, *ours(*more)]


def shared_cpus(objects: list[KubeObject]) -> int:
    stage: Session = session(objects, "proportion")
    return int(stage.shared_total[stage.snapshot.axis.index["cpu"]])


def tolerant(name: str) -> Pod:
    one = pod(name, cpu=1)
    one.spec.tolerations = (Toleration(key=CONTROL_PLANE.key, operator="Exists"),)
    return one


@pytest.mark.parametrize("plugin", ["proportion", "fairshare"])
def test_a_new_queue_gets_its_part_of_the_nodes_that_pods_may_use(plugin: str) -> None:
    """Were the tainted node shared out, a and b would deserve all that they hold, and c would wait for good."""
    world = MemoryCluster(cluster())
    scheduler = Scheduler(world, CONFIGS[plugin], builtin_registry(third_party=False), scheduler_names=[OURS])
    made: list[Decision] = []
    for _ in range(6):
        made += scheduler.run_once().decisions
        world.advance_to(world.now() + 60)
    assert {decision.pod for decision in made if isinstance(decision, Bind)} == {"default/new-0", "default/new-1"}
    assert len([decision for decision in made if isinstance(decision, Evict)]) == 2


def test_a_node_that_some_pod_tolerates_is_shared() -> None:
    assert shared_cpus(cluster()) == 8000
    assert shared_cpus(cluster(tolerant("welcome"))) == 12000


def test_a_pod_of_another_scheduler_opens_no_node() -> None:
    stranger = tolerant("stranger")
    stranger.spec.scheduler_name = "default-scheduler"
    assert shared_cpus([*cluster(), stranger]) == 8000


def test_a_node_on_which_a_pod_has_stayed_is_shared() -> None:
    stayed = pod("stayed", cpu=1, node="control", phase="Running")
    assert shared_cpus(cluster(stayed)) == 12000


def test_what_others_hold_there_is_left_out_once() -> None:
    assert shared_cpus([*cluster(), foreign("system", 3, "control")]) == 8000


def test_it_is_shared_out_as_in_volcano_where_that_is_asked_for() -> None:
    mirror = Mirror([OURS])
    for item in cluster():
        mirror.upsert(item)
    deserved = []
    for counts in (False, True):
        option = PluginOption("proportion", arguments={"countsTaintedNodes": counts})
        stage = Session(mirror.snapshot(), SchedulerConfig((), ((option,),)), REGISTRY)
        [ask] = stage.asked(points.QUEUE_DESERVED)
        amounts = ask(stage.snapshot.queues.index["a"])
        assert amounts is not None
        deserved.append(int(amounts[stage.snapshot.axis.index["cpu"]]))
    assert deserved == [3000, 4000]


def test_a_taint_that_only_discourages_keeps_nothing_back() -> None:
    assert shared_cpus(cluster(effect="PreferNoSchedule")) == 12000
