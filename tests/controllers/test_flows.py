"""JobFlows: the order of Jobs, probes, patches, and what stays in the end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from muster.api import KubeObject, load_text
from muster.api.objects.batch import Job, JobFlow, JobState, TaskState
from muster.cluster import MemoryCluster
from muster.controllers.embedded import EmbeddedControllers
from muster.controllers.flows import FlowController

TEMPLATES = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: NAME}
spec:
  minAvailable: 1
  tasks:
  - {name: w, replicas: 2, template: {spec: {containers: [{name: c, image: x}]}}}
"""
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: flow}
spec:
  jobRetainPolicy: POLICY
  flows:
  - name: a
  - name: b
    dependsOn: {targets: [a]}
    patch: {jobSpec: {queue: research, tasks: [{name: w, replicas: 5}]}}
  - name: c
    dependsOn: {targets: [a, b]}
"""


class World:
    """Flows alone: the Jobs of tests do what tests say."""

    def __init__(self, text: str, *templates: str) -> None:
        objects: list[KubeObject] = [*load_text(text).objects]
        for name in templates:
            objects += load_text(TEMPLATES.replace("NAME", name)).objects
        self.cluster = MemoryCluster(objects, start=1000.0)
        self.controllers = EmbeddedControllers(self.cluster, [FlowController()])
        self.cluster.attach(self.controllers)
        self.cluster.poll()

    def later(self, seconds: float) -> None:
        self.cluster.advance_to(self.cluster.now() + seconds)
        self.cluster.poll()

    def lacks(self) -> list[str]:
        return [each.message for each in self.controllers.told if each.reason == "TemplateNotFound"]

    def jobs(self) -> list[str]:
        return sorted(job.name for job in self.cluster.store.all(Job))

    def flow(self) -> JobFlow:
        found = self.cluster.store.get(JobFlow, "default/flow")
        assert found is not None
        return found

    def set_phase(self, name: str, phase: str, **counts: int) -> None:
        job = self.cluster.store.get(Job, f"default/{name}")
        assert job is not None
        status = replace(job.status, state=JobState(phase=phase), task_status_count={"w": TaskState(phase=counts)})
        self.cluster.replace_object(replace(job, status=status))
        self.cluster.poll()


def test_jobs_start_one_after_the_other() -> None:
    world = World(FLOW.replace("POLICY", "retain"), "a", "b", "c")
    assert (world.jobs(), world.flow().status.state.phase) == (["flow-a"], "Pending")
    world.set_phase("flow-a", "Running")
    assert (world.jobs(), world.flow().status.state.phase) == (["flow-a"], "Running")
    world.set_phase("flow-a", "Completed")
    assert world.jobs() == ["flow-a", "flow-b"]
    world.set_phase("flow-b", "Completed")
    world.set_phase("flow-c", "Completed")
    status = world.flow().status
    assert (status.state.phase, status.completed_jobs) == ("Succeed", ["flow-a", "flow-b", "flow-c"])
    assert world.jobs() == ["flow-a", "flow-b", "flow-c"]


def test_a_job_says_where_it_comes_from_and_takes_over_the_patch() -> None:
    world = World(FLOW.replace("POLICY", "retain"), "a", "b", "c")
    world.set_phase("flow-a", "Completed")
    job = world.cluster.store.get(Job, "default/flow-b")
    assert job is not None
    marks = {"volcano.sh/createdByJobTemplate": "default.b", "volcano.sh/createdByJobFlow": "default.flow"}
    assert (job.metadata.labels, job.metadata.annotations) == (marks, marks)
    assert (job.spec.queue, job.spec.tasks[0].replicas, job.spec.min_available) == ("research", 5, 1)
    assert job.spec.tasks[0].template["spec"]["containers"]
    assert [(owner.kind, owner.name) for owner in job.metadata.owner_references] == [("JobFlow", "flow")]


def test_jobs_are_deleted_when_all_is_done_if_the_flow_says_so() -> None:
    world = World(FLOW.replace("POLICY", "delete"), "a", "b", "c")
    for name in "abc":
        world.set_phase(f"flow-{name}", "Completed")
    assert (world.jobs(), world.flow().status.state.phase) == ([], "Succeed")
    assert len(world.flow().status.job_status_list) == 3  # what became of them can still be read


@pytest.mark.parametrize("phase", ["Failed", "Terminated"])
def test_a_flow_ends_with_a_job_that_fails(phase: str) -> None:
    world = World(FLOW.replace("POLICY", "retain"), "a", "b", "c")
    world.set_phase("flow-a", phase)
    assert (world.jobs(), world.flow().status.state.phase) == (["flow-a"], "Failed")
    world.set_phase("flow-a", "Completed")
    assert world.jobs() == ["flow-a"]


def test_a_template_may_come_later() -> None:
    world = World(FLOW.replace("POLICY", "retain"))
    assert world.jobs() == []
    world.cluster.add(load_text(TEMPLATES.replace("NAME", "a")).objects)
    world.cluster.poll()
    assert (world.jobs(), world.flow().status.state.phase) == (["flow-a"], "Pending")


def test_a_flow_that_waits_for_its_first_template_is_not_written_to() -> None:
    world = World(FLOW.replace("POLICY", "retain"))
    before = world.flow()
    world.cluster.add(load_text(TEMPLATES.replace("NAME", "b")).objects)  # a comes first
    world.cluster.poll()
    after = world.flow()
    assert (world.jobs(), after.status.state.phase) == ([], "")
    assert after.metadata.resource_version == before.metadata.resource_version


def test_a_probe_asks_for_less_than_the_end() -> None:
    probe = "dependsOn: {targets: [a], probe: {taskStatusList: [{taskName: w, phase: Running}]}}"
    world = World(FLOW.replace("POLICY", "retain").replace("dependsOn: {targets: [a]}", probe), "a", "b", "c")
    world.set_phase("flow-a", "Running", Pending=2)
    assert world.jobs() == ["flow-a"]
    world.set_phase("flow-a", "Running", Running=1, Pending=1)
    assert world.jobs() == ["flow-a", "flow-b"]


def test_a_deleted_flow_takes_its_jobs_along() -> None:
    world = World(FLOW.replace("POLICY", "retain"), "a", "b", "c")
    world.cluster.delete(world.flow())
    world.cluster.poll()
    assert world.jobs() == []


def test_a_flow_whose_first_template_is_missing_says_so_once() -> None:
    world = World(FLOW.replace("POLICY", "retain"), "b", "c")
    world.later(1.0)
    assert not world.lacks()  # it may be the next file
    world.later(1.0)
    said = "JobFlow waits for JobTemplate a: not found in namespace default"
    assert world.lacks() == [said]
    world.later(60.0)
    assert world.lacks() == [said]
    assert not world.jobs()
    assert world.flow().status.state.phase == ""


def test_a_template_that_comes_in_time_is_no_news_and_one_that_is_missing_later_is() -> None:
    world = World(FLOW.replace("POLICY", "retain"))
    world.cluster.add(load_text(TEMPLATES.replace("NAME", "a")).objects)
    world.later(10.0)
    assert world.jobs() == ["flow-a"]
    assert not world.lacks()
    world.set_phase("flow-a", "Completed")
    world.later(1.0)
    world.later(2.0)
    assert world.lacks() == ["JobFlow waits for JobTemplate b: not found in namespace default"]
