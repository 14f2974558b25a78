"""Reasons that a report gives for jobs which no node can help."""

from muster.api import load_text
from muster.simulate import simulate

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 8Gi}}
---
"""


def reason(objects: str, job: str) -> str:
    text = simulate(load_text(NODE + objects, "objects.yaml"), cycles=1).to_json()["jobs"][job]["reason"]
    return str(text).partition(":")[0]


def test_a_pod_with_scheduling_gates_waits_for_them() -> None:
    gated = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {schedulingGates: [{name: x}], containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
    assert reason(gated, "default/pod/p") == "gated"


def test_a_job_of_a_closed_queue_waits_for_it_to_open() -> None:
    late = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: shut}
status: {state: Closed}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: late}
spec: {minMember: 1, queue: shut}
---
apiVersion: v1
kind: Pod
metadata: {name: late-0, annotations: {scheduling.k8s.io/group-name: late}}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
    assert reason(late, "default/late") == "queue-closed"
