"""Protected gangs give what they can spare and no more, to gangs and to single tasks, whatever tier protects them."""

from __future__ import annotations

import pytest

from muster.api import KubeObject
from muster.framework import SchedulerConfig, Session, parse_config
from muster.snapshot import Mirror
from muster.testing import node, queue
from tests.engine.evictions.eviction_stage import PRIORITIES, REGISTRY, evicted, promised, running, waiting
from tests.plugins.runtime_stage import NOW, stamped


def configured(action: str, seconds: float = 100) -> SchedulerConfig:
    """The action, "NAME solver" with that strategy; minruntime stands last, where tiers for victims end before it."""
    name, _, strategy = action.partition(" ")
    return parse_config(
        f"""
actions: "{name}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false, enableReclaimable: false}}]
- plugins: [{{name: predicates}}, {{name: {"fairshare" if strategy else "capacity"}}}, {{name: binpack}}]
- plugins:
  - name: minruntime
    arguments: {{defaultReclaimMinRuntime: {seconds}, defaultPreemptMinRuntime: {seconds}}}
configurations: [{{name: {name}, arguments: {{{f"strategy: {strategy}" if strategy else ""}}}}}]
""",
        "test",
    )


def started(gang: list[KubeObject], age: float) -> list[KubeObject]:
    group, *pods = gang
    return [stamped(group, age), *pods]  # type: ignore[arg-type]  # a PodGroup, as the stage makes it


def act(config: SchedulerConfig, *objects: KubeObject) -> Session:
    mirror = Mirror()
    for item in [queue("default"), queue("poor", deserved={"gpu": 8}), *PRIORITIES, node("n", gpu=8), *objects]:
        mirror.upsert(item)
    session = Session(mirror.snapshot(), config, REGISTRY, now=NOW)
    for name in config.actions:
        REGISTRY.make_action(name, config.arguments_of(name)).run(session)
    return session


HOME = {
    "preempt": "default",
    "gangpreempt": "default",
    "preempt solver": "default",
    "reclaim": "poor",
    "gangreclaim": "poor",
    "reclaim solver": "poor",
}
EACH = pytest.mark.parametrize("action", HOME)


@EACH
@pytest.mark.parametrize(("age", "gone"), [(99, []), (100, ["old-0", "old-1", "old-2", "old-3"])])
def test_a_gang_that_can_spare_nothing_stays_until_its_time_is_over(action: str, age: float, gone: list[str]) -> None:
    old = started(running("old", ["n"] * 4, gpu=2), age)
    session = act(configured(action), *old, *waiting("new", 1, gpu=8, queue=HOME[action]))
    assert evicted(session) == gone
    assert promised(session) == ({"new-0": "n"} if gone else {})


@EACH
def test_what_it_can_spare_may_go(action: str) -> None:
    old = started(running("old", ["n"] * 4, minimum=2, gpu=2), 10)
    session = act(configured(action), *old, *waiting("new", 1, gpu=4, queue=HOME[action]))
    assert len(evicted(session)) == 2


@EACH
def test_but_not_one_pod_more(action: str) -> None:
    old = started(running("old", ["n"] * 4, minimum=3, gpu=2), 10)
    session = act(configured(action), *old, *waiting("new", 1, gpu=4, queue=HOME[action]))
    assert evicted(session) == []


@EACH
def test_others_go_in_its_place(action: str) -> None:
    young = started(running("a-young", ["n"] * 2, gpu=2), 10)
    old = started(running("b-old", ["n"] * 2, gpu=2), 200)
    session = act(configured(action), *young, *old, *waiting("new", 1, gpu=4, queue=HOME[action]))
    assert evicted(session) == ["b-old-0", "b-old-1"]


@EACH
def test_a_broken_gang_that_is_protected_is_left_alone(action: str) -> None:
    old = started(running("old", ["n"] * 4, minimum=5, gpu=2), 10)
    assert evicted(act(configured(action), *old, *waiting("new", 1, gpu=4, queue=HOME[action]))) == []
    assert evicted(act(configured(action, 5), *old, *waiting("new", 1, gpu=4, queue=HOME[action]))) != []


@EACH
@pytest.mark.parametrize(("young", "old"), [("a", "b"), ("b", "a")])
def test_what_a_protected_gang_keeps_does_not_stand_before_others(action: str, young: str, old: str) -> None:
    """Whoever comes first in the order of victims: the pods of the old gang are enough."""
    objects = [
        *started(running(young, ["n"] * 3, minimum=2, gpu=1), 10),
        *started(running(old, ["n"] * 5, gpu=1), 200),
        *waiting("new", 1, gpu=6, queue=HOME[action]),
    ]
    gone = evicted(act(configured(action), *objects))
    assert [name for name in gone if name.startswith(old)] == [f"{old}-{k}" for k in range(5)]
    assert len([name for name in gone if name.startswith(young)]) == 1
