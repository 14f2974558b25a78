"""What is noted of objects that are simulated though it may not be meant, as webhooks warn of it."""

from __future__ import annotations

import pytest

from muster.api import load_text
from muster.simulate.notes import notes_on

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 8}}\n"
PODS = "template: {spec: {containers: [{name: m}]}}"
CORRECT = "it is out of use until this is corrected"


def rack(name: str, member: str = "n1", kind: str = "Node", tier: int = 1) -> str:
    members = f"[{{type: {kind}, selector: {{exactMatch: {{name: {member}}}}}}}]"
    head = f"apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {name}}}"
    return f"{head}\nspec: {{tier: {tier}, members: {members}}}\n"


def job(spec: str) -> str:
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j, namespace: a}"
    return f"{head}\nspec: {{{spec}, tasks: [{{name: w, replicas: 2, {PODS}}}]}}\n"


def chain(spec: str, rest: str = "replicas: 2") -> str:
    """A Job of three pods, and others that follow them."""
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j, namespace: a}"
    after = f"{{name: b, {rest}, dependsOn: {{name: [a]}}, {PODS}}}"
    return f"{head}\nspec: {{{spec}tasks: [{{name: a, replicas: 3, {PODS}}}, {after}]}}\n"


FLOW = "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f, namespace: a}\n"
NOTED = [
    ([rack("r1"), rack("r2")], f"text: document 2 (HyperNode r1): spec.members: node 'n1' is in 'r2' too; {CORRECT}"),
    ([rack("r1", "r1", "HyperNode")], f"spec.members: is inside itself: r1 in r1; {CORRECT}"),
    (
        [job("minSuccess: 3")],
        (
            "text: document 2 (Job a/j): spec.minSuccess: expected at most the replicas of all tasks, 2, got 3; "
            "the job can only fail"
        ),
    ),
    (
        [chain("")],
        (
            "text: document 2 (Job a/j): spec.minAvailable: expected at most 3, the pods of tasks that depend on no "
            "others, got 5; the job waits for pods that wait for it to run"
        ),
    ),
    ([chain("minAvailable: 4, ")], "spec.minAvailable: expected at most 3"),
    ([FLOW], "text: document 2 (JobFlow a/f): spec.flows: expected at least one flow, got none; no job is started"),
    ([rack("r1"), job("networkTopology: {mode: hard, highestTierName: row}")], "spec.networkTopology.highestTierName"),
]


@pytest.mark.parametrize(("objects", "line"), NOTED)
def test_what_may_not_be_meant_is_noted(objects: list[str], line: str) -> None:
    found = list(notes_on(load_text("---\n".join([NODE, *objects]))))
    assert any(line in each for each in found), found


def test_what_is_in_order_is_not_noted() -> None:
    objects = [NODE, rack("r1"), job("minSuccess: 2, networkTopology: {mode: hard, highestTierAllowed: 1}")]
    assert not list(notes_on(load_text("---\n".join(objects))))
    for order in (chain("minAvailable: 3, "), chain("", "replicas: 2, minAvailable: 0")):
        assert not list(notes_on(load_text("---\n".join([NODE, order]))))
