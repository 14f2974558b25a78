"""Argo's Workflows on the embedded cluster: which pods and objects there are, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import UserError
from muster.controllers.played.conditions import holds, is_met
from tests.controllers.grouping_world import GroupingWorld

HEAD = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\n"
POD = "container: {image: x, resources: {requests: {cpu: '1'}}}"
LEAF = f"- {{name: leaf, {POD}}}\n"


def world_of(template: str, spec: str = "", *more: str) -> GroupingWorld:
    return GroupingWorld(
        f"{HEAD}spec:\n  entrypoint: main\n{spec}  templates:\n  {LEAF}  - name: main\n{template}", *more
    )


def waiting_steps(world: GroupingWorld) -> list[str]:
    """The steps whose pods have not ended."""
    pods = [pod for pod in world.pods.values() if pod.status.phase not in ("Succeeded", "Failed")]
    return sorted(pod.metadata.annotations["workflows.argoproj.io/node-name"] for pod in pods)


def phase(world: GroupingWorld) -> str:
    workflow: Any = world.cluster.store.find("Workflow", "default/w")
    return str(workflow.status["phase"])


def test_groups_of_steps_follow_one_another() -> None:
    world = world_of(
        """    steps:
    - - {name: a, template: leaf}
    - - {name: b, template: leaf}
      - {name: c, template: leaf, withItems: [1, 2]}
"""
    )
    assert waiting_steps(world) == ["w[0].a"]
    world.set_pods("Succeeded")
    assert waiting_steps(world) == ["w[1].b", "w[1].c(0)", "w[1].c(1)"]
    world.restart()
    assert len(world.pods) == 4, "a new process makes nothing twice"
    world.set_pods("Succeeded")
    assert phase(world) == "Succeeded"


def test_a_graph_waits_for_what_it_depends_on() -> None:
    world = world_of(
        """    dag:
      tasks:
      - {name: a, template: leaf}
      - {name: b, template: leaf, dependencies: [a]}
      - {name: c, template: leaf, depends: a.Failed}
      - {name: d, template: leaf, depends: "b && (c || c.Omitted)"}
"""
    )
    assert waiting_steps(world) == ["w.a"]
    world.set_pods("Succeeded")
    assert waiting_steps(world) == ["w.b"]
    world.set_pods("Succeeded")
    assert waiting_steps(world) == ["w.d"]


def test_a_step_that_fails_ends_the_workflow_unless_it_may() -> None:
    world = world_of("    steps:\n    - - {name: a, template: leaf}\n    - - {name: b, template: leaf}\n")
    world.set_pods("Failed")
    assert (waiting_steps(world), phase(world)) == ([], "Failed")
    may = world_of(
        "    steps:\n    - - {name: a, template: leaf, continueOn: {failed: true}}\n    - - {name: b, template: leaf}\n"
    )
    may.set_pods("Failed")
    assert waiting_steps(may) == ["w[1].b"]


def test_a_pod_is_tried_again_as_often_as_said() -> None:
    world = world_of(f"    retryStrategy: {{limit: 1}}\n    {POD}\n")
    for _ in range(2):
        assert len(waiting_steps(world)) == 1
        world.set_pods("Failed")
    assert (len(world.pods), phase(world)) == (2, "Failed")


def test_no_more_pods_than_may_run_at_once() -> None:
    step = "    steps:\n    - - {name: a, template: leaf, withSequence: {count: '5'}}\n"
    world = world_of(step, "  parallelism: 2\n")
    assert len(world.pods) == 2
    world.set_pods("Succeeded", list(world.pods)[:1])
    assert len(world.pods) == 3


def test_arguments_reach_the_templates_inside() -> None:
    text = """    steps: [[{name: m, template: middle, arguments: {parameters: [{name: x, value: me}]}}]]
  - name: middle
    inputs: {parameters: [{name: x}]}
    steps:
    - - name: s
        template: marked
        arguments:
          parameters: [{name: of, value: "{{inputs.parameters.x}}.{{workflow.name}}.{{workflow.parameters.p}}"}]
  - name: marked
    inputs: {parameters: [{name: of}, {name: more, default: less}]}
    metadata: {labels: {of: "{{inputs.parameters.of}}", more: "{{inputs.parameters.more}}"}}
    container: {image: x}
"""
    [pod] = world_of(text, "  arguments: {parameters: [{name: p, value: q}]}\n").pods.values()
    assert (pod.metadata.labels["of"], pod.metadata.labels["more"]) == ("me.w.q", "less")
    assert pod.metadata.labels["workflows.argoproj.io/workflow"] == "w"


def test_what_depends_on_outputs_is_passed_over() -> None:
    steps = """    steps:
    - - {name: a, template: leaf}
    - - {name: b, template: leaf, when: "{{steps.a.outputs.result}} == heads"}
      - {name: c, template: leaf, when: "{{workflow.name}} == w"}
      - {name: d, template: leaf, when: "{{workflow.name}} != w"}
"""
    world = world_of(steps)
    world.set_pods("Succeeded")
    assert waiting_steps(world) == ["w[1].c"]


def test_numbers_that_another_step_would_write_are_passed_over() -> None:
    steps = """    steps:
    - - {name: a, template: leaf}
    - - {name: b, template: leaf, withSequence: {count: "{{steps.a.outputs.result}}"}}
      - {name: c, template: leaf, withSequence: {start: "2", end: "3"}}
"""
    world = world_of(steps)
    world.set_pods("Succeeded")
    assert waiting_steps(world) == ["w[1].c(0)", "w[1].c(1)"]


def test_a_claim_of_a_step_is_made_and_not_waited_for() -> None:
    text = """    dag:
      tasks:
      - {name: disk, template: disk}
      - name: use
        template: use
        dependencies: [disk]
        arguments: {parameters: [{name: claim, value: "{{tasks.disk.outputs.parameters.pvc-name}}"}]}
  - name: disk
    resource:
      action: create
      manifest: |
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: disk}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  - name: use
    inputs: {parameters: [{name: claim}]}
    container: {image: x}
    volumes:
    - {name: disk, persistentVolumeClaim: {claimName: "{{inputs.parameters.claim}}"}}
    - {name: known, persistentVolumeClaim: {claimName: "{{workflow.name}}-known"}}
"""
    world = world_of(text)
    assert world.cluster.store.find("PersistentVolumeClaim", "default/disk") is not None
    [pod] = world.pods.values()
    claims = [each.persistent_volume_claim for each in pod.spec.volumes]
    assert [each.claim_name for each in claims if each is not None] == ["w-known"], "nobody knows the other's name"


def test_a_workflow_without_a_beginning_is_told() -> None:
    with pytest.raises(UserError, match=r'spec\.entrypoint: expected the name of a template, got ""'):
        GroupingWorld(f"{HEAD}spec:\n  templates:\n  {LEAF}")


def test_an_object_of_a_step_is_made_and_waited_for() -> None:
    manifest = """    resource:
      action: create
      successCondition: status.succeeded > 1
      manifest: |
        apiVersion: batch/v1
        kind: Job
        metadata: {generateName: made-}
        spec: {completions: 2, parallelism: 2, template: {spec: {containers: [{name: c, image: x}]}}}
"""
    world = world_of(manifest)
    assert len(world.pods) == 2
    assert phase(world) == "Running"
    world.set_pods("Succeeded")
    assert phase(world) == "Succeeded"


def test_templates_of_another_object_are_found() -> None:
    other = (
        "apiVersion: argoproj.io/v1alpha1\nkind: WorkflowTemplate\nmetadata: {name: shared}\n"
        f"spec:\n  entrypoint: all\n  templates:\n  - {{name: all, {POD}}}\n"
    )
    step = "    steps: [[{name: s, templateRef: {name: shared, template: all}}]]\n"
    assert len(world_of(step, "", other).pods) == 1
    whole = GroupingWorld(f"{HEAD}spec: {{workflowTemplateRef: {{name: shared}}}}", other)
    assert len(whole.pods) == 1


def test_a_cron_workflow_makes_one_for_its_time() -> None:
    text = "apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\n"
    text += "metadata: {name: c, creationTimestamp: '1970-01-01T00:15:00Z'}\n"
    text += (
        f"spec: {{schedules: ['* * * * *'], workflowSpec: {{entrypoint: main, templates: [{{name: main, {POD}}}]}}}}"
    )
    assert len(GroupingWorld(text).pods) == 1


def test_templates_of_the_cluster_call_those_beside_them() -> None:
    shared = (
        "apiVersion: argoproj.io/v1alpha1\nkind: ClusterWorkflowTemplate\nmetadata: {name: shared}\nspec:\n"
        f"  entrypoint: all\n  templates:\n  - {{name: inner, {POD}}}\n"
        "  - {name: all, steps: [[{name: s, template: inner}]]}\n"
    )
    step = "    steps: [[{name: a, templateRef: {name: shared, template: all, clusterScope: true}}]]\n"
    assert waiting_steps(world_of(step, "", shared)) == ["w[0].a[0].s"]
    named = f"{HEAD}spec: {{workflowTemplateRef: {{name: shared, clusterScope: true}}}}\n"
    assert waiting_steps(GroupingWorld(named, shared)) == ["w[0].s"]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("    steps: [[{name: a, template: nobody}]]\n", 'expected the name of a template, got "nobody"'),
        ("    steps: [[{name: a, template: main}]]\n", "is inside itself"),
        ("    dag: {tasks: [{name: a, template: leaf, depends: b}]}\n", "wait for others of the graph"),
        (
            "    steps: [[{name: a, templateRef: {name: far, template: x}}]]\n",
            'the step a: templateRef.name: expected a WorkflowTemplate that is there, got "far"',
        ),
    ],
)
def test_what_makes_no_sense_is_said(template: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        world_of(template)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("status.phase = Done", True),
        ("status.phase == Done, status.n > 2", True),
        ("status.n < 3", False),
        ("status.n > 3", False),
        ("status.phase != Done", False),
        ("status.nothing > 1", False),
        ("status.ok == true", True),
        ("status.phase in (Failed, Done), status.n > 2", True),
        ("status.phase in (Failed, Error)", False),
        ("status.phase notin (Failed, Error)", True),
        ("status.nothing notin (Failed)", False),
        ("", False),
    ],
)
def test_conditions_on_fields(condition: str, *, expected: bool) -> None:
    assert holds(condition, {"status": {"phase": "Done", "n": 3, "ok": True}}) is expected


def test_conditions_on_tasks_bind_as_usual() -> None:
    states = {"a": "Succeeded", "b": "Failed", "c": "Skipped"}
    assert is_met("a || b && b", states)
    assert not is_met("(a || b) && b", states)
    assert is_met("!b && c && b.Failed", states)
    with pytest.raises(UserError, match="expected names of tasks"):
        is_met("a + b", states)
