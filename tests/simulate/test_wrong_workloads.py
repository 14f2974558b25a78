"""Workloads that nobody could run, of Volcano and of others, and the one line that is said of each."""

from __future__ import annotations

import pytest

from muster.api import UserError, load_text
from muster.simulate import simulate

JOB = "batch.volcano.sh/v1alpha1 Job"
TEMPLATE = "flow.volcano.sh/v1alpha1 JobTemplate"
FLOW = "flow.volcano.sh/v1alpha1 JobFlow"
CRON = "batch.volcano.sh/v1alpha1 CronJob"
BATCH = "batch/v1 Job"
BATCH_CRON = "batch/v1 CronJob"
DEPLOYMENT = "apps/v1 Deployment"
TORCH = "kubeflow.org/v1 PyTorchJob"
GROUP = "scheduling.k8s.io/v1alpha2 PodGroup"
PODS = "template: {spec: {containers: [{name: m, image: x}]}}"
TASK = f"name: w, replicas: 1, {PODS}"
TASKS = f"tasks: [{{{TASK}}}]"
NO_PODS = "expected a template of pods, got nothing; no pods would be made"
QUANTITY = 'expected a quantity such as "500m", "4" or "64Gi", got "lots"'


def asking(cpus: str) -> str:
    return f"template: {{spec: {{containers: [{{name: m, image: x, resources: {{requests: {{cpu: {cpus}}}}}}}]}}}}"


#: A kind, its spec, and what is said of it.
WRONG = [
    (JOB, "minAvailable: 1", "spec.tasks: expected at least one task, got none"),
    (
        JOB,
        f"tasks: [{{name: w, replicas: -1, {PODS}}}]",
        "spec.tasks[0].replicas: expected a number of at least 0, got -1",
    ),
    (
        JOB,
        f"tasks: [{{{TASK}, minAvailable: 3}}]",
        "spec.tasks[0].minAvailable: expected at most the replicas, 1, got 3",
    ),
    (
        JOB,
        f"tasks: [{{name: w, replicas: 1, {asking('lots')}}}]",
        f'spec.tasks[0].template.spec.containers[0].resources.requests["cpu"]: {QUANTITY}',
    ),
    (
        JOB,
        f"tasks: [{{name: w, replicas: 1, {PODS.replace('{spec', '{metadata: {labels: {a: 1}}, spec')}}}]",
        'spec.tasks[0].template.metadata.labels["a"]: expected a string, got 1; put it in quotes',
    ),
    (
        JOB,
        f"policies: [{{event: PodFailed, action: RestartJob, timeout: soon}}], {TASKS}",
        'spec.policies[0].timeout: expected a duration such as "90s" or "1h30m", got "soon"',
    ),
    (
        JOB,
        f"runningEstimate: soon, {TASKS}",
        'spec.runningEstimate: expected a duration such as "90s" or "1h30m", got "soon"',
    ),
    (
        JOB,
        f"plugins: {{tensorflow: ['--port=many']}}, {TASKS}",
        'spec.plugins.tensorflow: --port: expected a number, got "many"',
    ),
    (
        JOB,
        f"plugins: {{ssh: ['--ssh-prt=3']}}, {TASKS}",
        'spec.plugins.ssh: unknown argument "--ssh-prt"; did you mean --ssh-port?',
    ),
    (
        JOB,
        f"plugins: {{svc: ['--frob']}}, {TASKS}",
        (
            'spec.plugins.svc: unknown argument "--frob"; known: --disable-network-policy, --inject-hosts-env, '
            "--publish-not-ready-addresses"
        ),
    ),
    (
        JOB,
        f"plugins: {{env: [yes-please]}}, {TASKS}",
        'spec.plugins.env: unknown argument "yes-please"; the plugin takes none',
    ),
    (
        JOB,
        f"plugins: {{ssh: ['--ssh-port', '65536']}}, {TASKS}",
        "spec.plugins.ssh: --ssh-port: expected a port between 1 and 65535, got 65536",
    ),
    (
        JOB,
        f"plugins: {{pytorch: ['--master=boss', '--worker=w']}}, {TASKS}",
        'spec.plugins.pytorch: --master: expected the name of a task, got "boss"; there are w',
    ),
    (
        JOB,
        f"plugins: {{pytorch: []}}, {TASKS}",
        'spec.plugins.pytorch: --master: expected the name of a task, got "master"; there are w',
    ),
    (
        JOB,
        f"plugins: {{mpi: ['-master', w, '--worker', hands]}}, {TASKS}",
        'spec.plugins.mpi: --worker: expected the name of a task, got "hands"; there are w',
    ),
    (
        JOB,
        f"plugins: {{tensorflow: ['--ps=w', '--chief=c']}}, {TASKS}",
        'spec.plugins.tensorflow: --chief: expected the name of a task, got "c"; there are w',
    ),
    (
        JOB,
        f"plugins: {{ray: []}}, {TASKS}",
        'spec.plugins.ray: --head: expected the name of a task, got "head"; there are w',
    ),
    (
        JOB,
        f"tasks: [{{{TASK}}}, {{{TASK.replace('name: w', 'name: v')}, dependsOn: {{name: [w], iteration: some}}}}]",
        'spec.tasks[1].dependsOn.iteration: expected "any" or "all", got "some"',
    ),
    (TEMPLATE, f"minAvailabel: 1, {TASKS}", "spec.minAvailabel: unknown field; did you mean minAvailable?"),
    (TEMPLATE, f"minAvailable: 9, {TASKS}", "spec.minAvailable: expected at most the replicas of all tasks, 1, got 9"),
    (
        FLOW,
        "flows: [{name: a}, {name: a}]",
        'spec.flows[1].name: expected a JobTemplate that no flow before has, got "a" again',
    ),
    (FLOW, "flows: [{}]", "spec.flows[0].name: expected the name of a JobTemplate, got nothing"),
    (
        FLOW,
        "jobRetainPolicy: keep, flows: [{name: a}]",
        'spec.jobRetainPolicy: expected "retain" or "delete", got "keep"',
    ),
    (
        CRON,
        f"schedule: '* * * * *', concurrencyPolicy: Perhaps, jobTemplate: {{spec: {{{TASKS}}}}}",
        'spec.concurrencyPolicy: expected "Allow", "Forbid" or "Replace", got "Perhaps"',
    ),
    (
        CRON,
        f"schedule: '* * * * *', startingDeadlineSeconds: -4, jobTemplate: {{spec: {{{TASKS}}}}}",
        "spec.startingDeadlineSeconds: expected a number of at least 0, got -4",
    ),
    (
        CRON,
        f"schedule: '* * * * *', failedJobsHistoryLimit: -4, jobTemplate: {{spec: {{{TASKS}}}}}",
        "spec.failedJobsHistoryLimit: expected a number of at least 0, got -4",
    ),
    (CRON, "schedule: '* * * * *'", "spec.jobTemplate.spec.tasks: expected at least one task, got none"),
    (
        CRON,
        f"schedule: '* * * * *', jobTemplate: {{spec: {{minAvailable: 9, {TASKS}}}}}",
        "spec.jobTemplate.spec.minAvailable: expected at most the replicas of all tasks, 1, got 9",
    ),
    (BATCH, f"paralelism: 2, {PODS}", "spec.paralelism: unknown field; did you mean parallelism?"),
    (BATCH, f"parallelism: -1, {PODS}", "spec.parallelism: expected an integer of at least 0, got -1"),
    (BATCH, f"parallelism: two, {PODS}", 'spec.parallelism: expected an integer, got "two"'),
    (
        BATCH,
        f"parallelism: 2000000000, {PODS}",
        "spec.parallelism: expected a number of pods from 0 to 200,000, got 2000000000",
    ),
    (BATCH, "parallelism: 2", f"spec.template: {NO_PODS}"),
    (BATCH, "", f"spec.template: {NO_PODS}"),
    (
        BATCH,
        "template: {spec: {containers: []}}",
        "spec.template.spec.containers: expected at least one container, got none",
    ),
    (BATCH, asking("lots"), f'spec.template.spec.containers[0].resources.requests["cpu"]: {QUANTITY}'),
    (BATCH_CRON, "schedule: '* * * * *'", "spec.jobTemplate: expected the Job to make, got nothing"),
    (
        BATCH_CRON,
        f"schedule: '61 * * * *', jobTemplate: {{spec: {{{PODS}}}}}",
        'spec.schedule: expected a minute from 0 to 59, got "61 * * * *"',
    ),
    (
        BATCH_CRON,
        f"schedule: '* * * * *', concurrencyPolicy: Perhaps, jobTemplate: {{spec: {{{PODS}}}}}",
        'spec.concurrencyPolicy: expected "Allow", "Forbid" or "Replace", got "Perhaps"',
    ),
    (DEPLOYMENT, f"replicas: two, {PODS}", 'spec.replicas: expected an integer, got "two"'),
    (DEPLOYMENT, "replicas: 2", f"spec.template: {NO_PODS}"),
    (
        DEPLOYMENT,
        PODS.replace("{containers", "{nodeSelecter: {a: b}, containers"),
        "spec.template.spec.nodeSelecter: unknown field; did you mean nodeSelector?",
    ),
    (
        TORCH,
        f"pyTorchReplicaSpecs: {{Worker: {{{PODS}}}}}",
        "spec.pyTorchReplicaSpecs: unknown field; did you mean pytorchReplicaSpecs?",
    ),
    (TORCH, "", "spec.pytorchReplicaSpecs: expected what pods are made of, got nothing; no pods would be made"),
    (
        TORCH,
        f"pytorchReplicaSpecs: {{Worker: {{{PODS.replace('{containers', '{nodeSelecter: {a: b}, containers')}}}}}",
        "spec.pytorchReplicaSpecs.Worker.template.spec.nodeSelecter: unknown field; did you mean nodeSelector?",
    ),
    (
        TORCH,
        f"pytorchReplicaSpecs: {{Worker: {{{asking('lots')}}}}}",
        f'spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources.requests["cpu"]: {QUANTITY}',
    ),
    (
        GROUP,
        "",
        'spec.schedulingPolicy: expected one of basic and gang, such as {"gang": {"minCount": 4}}, got nothing',
    ),
    (
        GROUP,
        "schedulingPolicy: {basic: {}, gang: {minCount: 2}}",
        'spec.schedulingPolicy: expected one of basic and gang, such as {"gang": {"minCount": 4}}, got both',
    ),
    (
        GROUP,
        "schedulingPolicy: {gang: {}}",
        "spec.schedulingPolicy.gang.minCount: expected how many pods start together, got nothing",
    ),
    (
        GROUP,
        "schedulingPolicy: {gang: {minCount: 0}}",
        "spec.schedulingPolicy.gang.minCount: expected a number of at least 1, got 0",
    ),
    (
        GROUP,
        "schedulingPolicy: {gang: {minCount: two}}",
        'spec.schedulingPolicy.gang.minCount: expected an integer, got "two"',
    ),
    (
        GROUP,
        "schedulingPolicy: {gang: {minCuont: 2}}",
        "spec.schedulingPolicy.gang.minCuont: unknown field; did you mean minCount?",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "line"), WRONG, ids=[f"{kind} {spec}" for kind, spec, _ in WRONG])
def test_what_nobody_could_run_is_refused_in_one_line(kind: str, spec: str, line: str) -> None:
    version, name = kind.split()
    text = f"apiVersion: {version}\nkind: {name}\nmetadata: {{name: x, namespace: a}}\nspec: {{{spec}}}\n"
    with pytest.raises(UserError) as caught:
        simulate(load_text(text, "in.yaml"), cycles=2)
    assert str(caught.value) == f"in.yaml: document 1 ({name} a/x): {line}"


def test_arguments_that_plugins_use_are_no_problem() -> None:
    given = (
        "{pytorch: [--master=w, -worker, v, '--wait-master-enabled'], ssh: [], env: [], svc: ['--inject-hosts-env=0']}"
    )
    tasks = f"tasks: [{{{TASK}}}, {{{TASK.replace('name: w', 'name: v')}}}]"
    job = (
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: x}}\nspec: {{plugins: {given}, {tasks}}}"
    )
    assert simulate(load_text(job)).jobs
