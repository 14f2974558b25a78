"""Jobs, flows and clocks of Volcano in a simulation: the real scheduler and the real controllers."""

from __future__ import annotations

import pytest

from muster.api import UserError, load_text
from muster.cluster import parse_timeline
from muster.simulate import SimulationResult, simulate

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi}}
---
"""
TEMPLATE = """
      metadata: {annotations: {muster.sh/run-seconds: "60"}}
      spec:
        terminationGracePeriodSeconds: 5
        containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 4
  tasks:
  - name: w
    replicas: 4
    partitionPolicy: {totalPartitions: 2, partitionSize: 2}
    policies: [{event: PodFailed, action: RestartPartition}]
    template:TEMPLATE""".replace("TEMPLATE", TEMPLATE)


def run(text: str, timeline: str = "", until: float | None = None) -> SimulationResult:
    return simulate(load_text(NODE + text).objects, timeline=parse_timeline(timeline), until=until)


def bound(result: SimulationResult) -> list[str]:
    decisions = [made for cycle in result.cycles for made in cycle.decisions]
    return sorted(made.pod.rpartition("/")[2] for made in decisions)


def test_a_job_of_a_file_makes_its_pods_runs_and_completes() -> None:
    result = run(JOB)
    job = result.workloads["default/train"]
    assert (job.phase, job.succeeded, job.retries) == ("Completed", 4, 0)
    assert bound(result) == [f"train-w-{k}" for k in range(4)]
    assert result.settled


def test_a_partition_that_fails_starts_anew_alone() -> None:
    result = run(JOB, "- {at: 30, patch: {target: Pod/default/train-w-3, merge: {status: {phase: Failed}}}}")
    job = result.workloads["default/train"]
    assert (job.phase, job.retries) == ("Completed", 1)
    assert bound(result) == ["train-w-0", "train-w-1", "train-w-2", "train-w-2", "train-w-3", "train-w-3"]


def test_the_same_input_gives_the_same_run() -> None:
    assert run(JOB).to_json() == run(JOB).to_json()


def test_a_job_that_finds_no_room_waits_with_a_reason() -> None:
    result = run(JOB.replace('cpu: "1"', 'cpu: "3"'))
    job = result.workloads["default/train"]
    assert (job.phase, job.running) == ("Pending", 0)
    assert result.jobs[job.pod_group].reason


def test_a_job_that_webhooks_would_refuse_is_refused() -> None:
    with pytest.raises(UserError, match=r"Job default/train: spec\.tasks\[0\]"):
        run(JOB.replace("partitionSize: 2", "partitionSize: 3"))


def command(moment: int, name: str, action: str) -> str:
    target = f"{{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: {name}}}"
    head = f"apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {{name: {action.lower()}}}"
    return f"- {{at: {moment}, add: [{{{head}, action: {action}, target: {target}}}]}}\n"


def test_commands_of_a_timeline_suspend_a_job_and_resume_it() -> None:
    words = command(20, "train", "AbortJob") + command(100, "train", "ResumeJob")
    assert run(JOB, words, until=60.0).workloads["default/train"].phase == "Aborted"
    result = run(JOB, words)
    assert (result.workloads["default/train"].phase, len(bound(result))) == ("Completed", 8)


SPEC = """
  tasks:
  - name: w
    replicas: 2
    template:
      metadata: {annotations: {muster.sh/run-seconds: "30"}}
      spec: {containers: [{name: c, image: x}]}
"""


def test_a_flow_runs_to_its_end() -> None:
    text = f"""
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {{name: a}}
spec:{SPEC}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {{name: flow}}
spec: {{flows: [{{name: a}}]}}
"""
    workloads = run(text).workloads
    assert (workloads["default/flow"].phase, workloads["default/flow-a"].phase) == ("Succeed", "Completed")


def test_a_clock_goes_as_far_as_the_limit() -> None:
    spec = SPEC.replace("\n", "\n    ")
    text = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {{name: tick}}
spec:
  schedule: "*/10 * * * *"
  jobTemplate:
    spec:{spec}
"""
    assert len(bound(run(text, until=1900.0))) == 8
    assert len(bound(run(text))) == 2  # that of the first moment; without a limit it would never end


@pytest.mark.parametrize(
    ("kind", "spec", "line"),
    [
        (
            "batch.volcano.sh/v1alpha1/Job",
            "{tasks: [{name: t, replicas: 2147483647, template: {spec: {containers: [{name: c, image: x}]}}}]}",
            "spec.tasks: expected at most 150000 replicas of all tasks together, got 2147483647",
        ),
        (
            "batch.volcano.sh/v1alpha1/CronJob",
            "{schedule: hourly}",
            'spec.schedule: expected five fields: minute, hour, day of the month, month, day of the week, got "hourly"',
        ),
        (
            "batch.volcano.sh/v1alpha1/CronJob",
            "{schedule: '* * * * *', timeZone: Mars}",
            'spec.timeZone: expected a time zone such as "Etc/UTC", got "Mars"',
        ),
        (
            "flow.volcano.sh/v1alpha1/JobFlow",
            "{flows: [{name: a, dependsOn: {targets: [a]}}]}",
            "spec.flows: expected dependsOn to leave an order to start in, got flows that wait for each other",
        ),
    ],
    ids=["too many pods", "no schedule", "no time zone", "flows in a circle"],
)
def test_work_that_nobody_could_run_is_refused_with_its_place(kind: str, spec: str, line: str) -> None:
    version, _, name = kind.rpartition("/")
    text = f"apiVersion: {version}\nkind: {name}\nmetadata: {{name: x}}\nspec: {spec}\n"
    with pytest.raises(UserError) as refused:
        simulate(load_text(text, "in.yaml"), cycles=2)
    assert str(refused.value) == f"in.yaml: document 1 ({name} default/x): {line}"
