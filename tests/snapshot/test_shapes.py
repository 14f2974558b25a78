"""Shapes of pods are derived once for pods that are alike; who differs in anything that a shape says has its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from muster.api import Container, ObjectMeta, Pod, PodSpec, Quantity, ResourceRequirements, names
from muster.api.objects.pod import ContainerPort, EphemeralVolumeSource, PodSchedulingGate, Volume
from muster.snapshot import Mirror
from muster.snapshot.classes import has_same_shape, shape_of

Change = Callable[[Pod], object]


def pod(name: str, change: Change = lambda _: None) -> Pod:
    resources = ResourceRequirements(requests={"cpu": Quantity.of("1")})
    container = Container(name="main", resources=resources)
    made = Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=name),
        spec=PodSpec(containers=[container], volumes=[Volume(name=f"token-{name}")]),
    )
    change(made)
    return made


def _asks_for_more(made: Pod) -> None:
    made.spec.containers[0].resources.requests["cpu"] = Quantity.of("2")


#: What gives a pod another shape.
OTHERS: dict[str, Change] = {
    "amounts": _asks_for_more,
    "annotation": lambda made: made.metadata.annotations.update({names.PREEMPTABLE: "false"}),
    "label": lambda made: made.metadata.labels.update({names.PREEMPTABLE: "false"}),
    "ranking": lambda made: made.metadata.annotations.update({names.STRATEGY_TYPE: "binpack"}),
    "namespace": lambda made: setattr(made.metadata, "namespace", "kube-system"),
    "class": lambda made: setattr(made.spec, "priority_class_name", "system-node-critical"),
    "selector": lambda made: setattr(made.spec, "node_selector", {"disk": "fast"}),
    "gate": lambda made: setattr(made.spec, "scheduling_gates", [PodSchedulingGate(name="g")]),
    "port": lambda made: setattr(made.spec.containers[0], "ports", [ContainerPort(host_port=80)]),
    "volume": lambda made: setattr(made.spec, "volumes", [Volume(name="v", ephemeral=EphemeralVolumeSource())]),
}


@pytest.mark.parametrize("other", OTHERS)
def test_pods_that_differ_in_what_a_shape_says_have_shapes_of_their_own(other: str) -> None:
    plain, changed = pod("a"), pod("b", OTHERS[other])
    assert shape_of(plain, {}) != shape_of(changed, {})
    assert not has_same_shape(plain, changed)
    assert not has_same_shape(changed, plain)


def test_pods_that_are_taken_for_alike_have_equal_shapes() -> None:
    made = [pod(name, change) for change in (lambda _: None, *OTHERS.values()) for name in ("a", "b")]
    alike = [(one, other) for one, other in combinations(made, 2) if has_same_shape(one, other)]
    assert len(alike) == len(OTHERS)  # each with its like, but for a volume that is made for one pod
    assert all(shape_of(one, {}) == shape_of(other, {}) for one, other in alike)


def test_name_node_and_foreign_marks_make_no_difference() -> None:
    placed = pod("b", lambda made: setattr(made.spec, "node_name", "n1"))
    placed.metadata.labels["pod-index"] = "7"
    placed.metadata.annotations[names.GROUP_NAME] = "other"
    assert has_same_shape(pod("a"), placed)


def test_the_mirror_tells_pods_apart_that_come_one_after_the_other() -> None:
    mirror = Mirror()
    changes: list[Change] = [lambda _: None, *OTHERS.values()]
    for number, change in enumerate(changes):
        for twin in ("x", "y"):
            mirror.upsert(pod(f"p{number}{twin}", change))
    snapshot = mirror.snapshot()
    for task, made in enumerate(snapshot.tasks.pods):
        shape = shape_of(made, {})
        assert snapshot.classes.keys[snapshot.tasks.cls[task]] == shape.key
        assert snapshot.tasks.flags[task] == shape.flags
