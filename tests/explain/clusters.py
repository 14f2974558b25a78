"""Small clusters as YAML, for the tests of explanations."""

from dataclasses import replace

from muster.api import load_text
from muster.cluster.timeline import parse_timeline
from muster.explain import Explanation, explain_job, find_job
from muster.framework import SchedulerConfig, default_config
from muster.simulate import SimulationResult, simulate


def node(name: str, gpus: int = 8, cpus: int = 64, labels: str = "") -> str:
    devices = f', nvidia.com/gpu: "{gpus}"' if gpus else ""
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{{labels}}}}}
status: {{allocatable: {{cpu: "{cpus}", memory: 256Gi, pods: "110"{devices}}}}}
"""


def pod(name: str, gpus: int = 1, *, group: str = "", on: str = "", extra: str = "", notes: str = "") -> str:
    annotations = [f"scheduling.k8s.io/group-name: {group}"] if group else []
    annotations += [notes] if notes else []
    placed = f"  nodeName: {on}\n" if on else ""
    status = "status: {phase: Running}\n" if on else ""
    request = f'{{cpu: "1", nvidia.com/gpu: "{gpus}"}}' if gpus else '{cpu: "1"}'
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: team, annotations: {{{", ".join(annotations)}}}}}
spec:
{placed}{extra}  containers: [{{name: main, resources: {{requests: {request}}}}}]
{status}"""


def group(name: str, minimum: int, queue: str = "default", extra: str = "") -> str:
    return f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: {name}, namespace: team}}
spec: {{minMember: {minimum}, queue: {queue}{extra}}}
"""


def gang(name: str, pods: int, gpus: int, minimum: int | None = None, queue: str = "default") -> list[str]:
    members = [pod(f"{name}-{i}", gpus, group=name) for i in range(pods)]
    return [group(name, pods if minimum is None else minimum, queue), *members]


def queue(name: str, spec: str = "weight: 1") -> str:
    return f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{{spec}}}
"""


#: The default without anybody who evicts or moves.
PEACEFUL = replace(default_config(), actions=("allocate", "backfill"))


def run(
    *documents: str, cycles: int | None = None, config: SchedulerConfig | None = None, later: str = ""
) -> SimulationResult:
    """Run until nothing changes; `later` is a timeline."""
    timeline = parse_timeline(later) if later else None
    return simulate(load_text("---".join(documents), "test.yaml"), config, cycles=cycles, timeline=timeline)


def explain(
    job: str, *documents: str, cycles: int | None = None, config: SchedulerConfig | None = None, later: str = ""
) -> Explanation:
    session = run(*documents, cycles=cycles, config=config, later=later).last_session
    assert session is not None
    return explain_job(session, find_job(session.snapshot, job))
