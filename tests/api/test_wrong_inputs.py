"""Every input that is wrong, with the one line that is said of it: nothing is passed over in silence."""

from __future__ import annotations

import pytest

from muster.api import UserError, load_text

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
#: One that pods fit on.
ROOMY = NODE + "status: {allocatable: {cpu: 8, nvidia.com/gpu: 4}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a}\n"
#: A pod with a container, which others are written into.
FULL = "containers: [{name: main}]"
GROUP = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g, namespace: a}\n"
QUEUE = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n"
KAI_QUEUE = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\n"
KAI_GROUP = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g, namespace: a}\n"
HYPER_NODE = "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: rack}\n"
TOPOLOGY = "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: net}\n"
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\n"
BUDGET = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b, namespace: a}\n"
JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j, namespace: a}\n"
FLOW = "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f, namespace: a}\n"
MEMBER = "{type: Node, selector: {exactMatch: {name: n1}}}"
QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: r, namespace: a}\n"
CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: a}\n"
DEVICES = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: d, namespace: a}\n"
COMMAND = "apiVersion: bus.volcano.sh/v1alpha1\nkind: Command\nmetadata: {name: m, namespace: a}\n"
VOLUME = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\n"
SUBJECTS = {
    COMMAND: "Command a/m",
    VOLUME: "PersistentVolume v",
    CLAIM: "PersistentVolumeClaim a/c",
    DEVICES: "ResourceClaim a/d",
    NODE: "Node n1",
    POD: "Pod a/p",
    GROUP: "PodGroup a/g",
    QUEUE: "Queue q",
    KAI_QUEUE: "Queue q",
    KAI_GROUP: "PodGroup a/g",
    HYPER_NODE: "HyperNode rack",
    TOPOLOGY: "Topology net",
    CLASS: "PriorityClass high",
    BUDGET: "PodDisruptionBudget a/b",
    JOB: "Job a/j",
    FLOW: "JobFlow a/f",
    QUOTA: "ResourceQuota a/r",
}
TAINTS = '"NoSchedule", "PreferNoSchedule" or "NoExecute"'
QUANTITY = 'expected a quantity such as "500m", "4" or "64Gi", got'


def pod(*parts: str) -> str:
    return f"spec: {{{', '.join((FULL, *parts))}}}"


def asking(requests: str, more: str = "") -> str:
    return f"spec: {{containers: [{{name: main, resources: {{requests: {{{requests}}}{more}}}}}]}}"


#: What is refused: an object, the part that is wrong, and what is said of it.
REFUSED = [
    # fields that nobody knows
    (GROUP, "spec: {minMembers: 3}", "spec.minMembers: unknown field; did you mean minMember?"),
    (GROUP, "spec: {minmember: 3}", "spec.minmember: unknown field; did you mean minMember?"),
    (GROUP, "spec: {min_member: 3}", "spec.min_member: unknown field; did you mean minMember?"),
    (GROUP, "sepc: {minMember: 3}", "sepc: unknown field; did you mean spec?"),
    (GROUP, "spec: {priorityClass: high}", "spec.priorityClass: unknown field; did you mean priorityClassName?"),
    (
        GROUP,
        "spec: {networkTopology: {mode: hard, highestTier: 2}}",
        "spec.networkTopology.highestTier: unknown field; did you mean highestTierName?",
    ),
    (
        GROUP,
        "spec: {subGroupPolicy: [{name: s, subGroupSise: 2}]}",
        "spec.subGroupPolicy[0].subGroupSise: unknown field; did you mean subGroupSize?",
    ),
    (
        GROUP,
        "spec: {gangSize: 3}",
        (
            "spec.gangSize: unknown field; known here: minMember, minResources, minTaskMember, networkTopology, "
            "priorityClassName, queue, subGroupPolicy"
        ),
    ),
    (QUEUE, "spec: {wieght: 3}", "spec.wieght: unknown field; did you mean weight?"),
    (QUEUE, "spec: {capabilities: {cpu: 3}}", "spec.capabilities: unknown field; did you mean capability?"),
    (
        QUEUE,
        "spec: {guarantee: {resources: {cpu: 1}}}",
        "spec.guarantee.resources: unknown field; did you mean resource?",
    ),
    (KAI_QUEUE, "spec: {parent: top}", "spec.parent: unknown field; did you mean parentQueue?"),
    (
        KAI_QUEUE,
        "spec: {resources: {gpu: {qouta: 3}}}",
        "spec.resources.gpu.qouta: unknown field; did you mean quota?",
    ),
    (KAI_GROUP, "spec: {minMembers: 3}", "spec.minMembers: unknown field; did you mean minMember?"),
    (
        HYPER_NODE,
        "spec: {tier: 1, membrs: []}",
        "spec.membrs: unknown field; did you mean members?",
    ),
    (
        HYPER_NODE,
        "spec: {tier: 1, members: [{type: Node, selector: {exactMatsh: {name: n1}}}]}",
        "spec.members[0].selector.exactMatsh: unknown field; did you mean exactMatch?",
    ),
    (
        TOPOLOGY,
        "spec: {levels: [{nodeLable: rack}]}",
        "spec.levels[0].nodeLable: unknown field; did you mean nodeLabel?",
    ),
    (POD, pod("nodeSelecter: {a: b}"), "spec.nodeSelecter: unknown field; did you mean nodeSelector?"),
    (POD, pod("tolerateons: []"), "spec.tolerateons: unknown field; did you mean tolerations?"),
    (POD, pod("priorityClass: high"), "spec.priorityClass: unknown field; did you mean priorityClassName?"),
    (POD, pod("replicas: 3"), "spec.replicas: unknown field; --allow-unknown leaves it out"),
    (
        POD,
        "spec: {containers: [{name: main, resource: {requests: {cpu: 1}}}]}",
        "spec.containers[0].resource: unknown field; did you mean resources?",
    ),
    (
        POD,
        "spec: {containers: [{name: main, resources: {request: {cpu: 1}}}]}",
        "spec.containers[0].resources.request: unknown field; did you mean requests?",
    ),
    (
        POD,
        pod("affinity: {nodeAffinty: {}}"),
        "spec.affinity.nodeAffinty: unknown field; did you mean nodeAffinity?",
    ),
    (NODE, "status: {alocatable: {cpu: 1}}", "status.alocatable: unknown field; did you mean allocatable?"),
    (NODE, "spec: {unschedulabel: true}", "spec.unschedulabel: unknown field; did you mean unschedulable?"),
    (
        NODE,
        "spec: {taints: [{key: a, efect: NoSchedule, effect: NoSchedule}]}",
        "spec.taints[0].efect: unknown field; did you mean effect?",
    ),
    (CLASS, "value: 1\nglobaldefault: true", "globaldefault: unknown field; did you mean globalDefault?"),
    (
        POD,
        asking("NVIDIA.com/gpu: 1"),
        (
            'spec.containers[0].resources.requests["NVIDIA.com/gpu"]: expected a resource such as "nvidia.com/gpu": '
            'a domain in lower case, "/" and a name, got "NVIDIA.com/gpu"'
        ),
    ),
    (
        POD,
        asking("nvidia.com/gpu: 1", ", limits: {nvidia.com/gpu: 2}"),
        'spec.containers[0].resources.requests["nvidia.com/gpu"]: expected the limit, "2", got "1"',
    ),
    (
        POD,
        "spec: {containers: [{name: main, resources: {claims: [{name: gpu}]}}]}",
        'spec.containers[0].resources.claims[0].name: expected the name of one of spec.resourceClaims, got "gpu"',
    ),
    (
        POD,
        pod("nodeSelector: {'a b': c}"),
        (
            'spec.nodeSelector: expected a key of letters, digits, "-", "_" and "." between letters or digits, '
            '63 at most, after a domain and "/" or alone, got "a b"'
        ),
    ),
    (
        KAI_QUEUE,
        "spec: {resources: {gpu: {quota: 1e400}}}",
        "spec.resources.gpu.quota: expected zero or more, or -1 for unlimited, got inf",
    ),
    (
        VOLUME,
        "spec: {capacity: {storage: 1Gi}, volumeMode: block}",
        'spec.volumeMode: expected "Filesystem" or "Block", got "block"',
    ),
    (
        VOLUME,
        "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOften]}",
        (
            'spec.accessModes[0]: expected "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany" or "ReadWriteOncePod", '
            'got "ReadWriteOften"'
        ),
    ),
    (BUDGET, "spec: {minAvailabel: 1}", "spec.minAvailabel: unknown field; did you mean minAvailable?"),
    (QUOTA, "spec: {hards: {cpu: 1}}", "spec.hards: unknown field; did you mean hard?"),
    (JOB, "spec: {minAvailabel: 1}", "spec.minAvailabel: unknown field; did you mean minAvailable?"),
    (
        JOB,
        "spec: {tasks: [{name: t, replicas: 1, template: {spec: {nodeSelecter: {a: b}}}}]}",
        "spec.tasks[0].template.spec.nodeSelecter: unknown field; did you mean nodeSelector?",
    ),
    # words and numbers that mean nothing
    (
        POD,
        pod("tolerations: [{key: a, operator: Sometimes}]"),
        'spec.tolerations[0].operator: expected "Equal", "Exists", "Lt" or "Gt", got "Sometimes"',
    ),
    (POD, pod("tolerations: [{key: a, effect: Never}]"), f'spec.tolerations[0].effect: expected {TAINTS}, got "Never"'),
    (
        POD,
        pod("tolerations: [{key: a, operator: Exists, value: b}]"),
        'spec.tolerations[0].value: expected no value beside Exists, got "b"',
    ),
    (
        POD,
        pod("tolerations: [{value: b}]"),
        'spec.tolerations[0].operator: expected "Exists" where no key is given; or give the key of a taint',
    ),
    (
        POD,
        pod() + "\nstatus: {phase: Sleeping}",
        'status.phase: expected "Pending", "Running", "Succeeded", "Failed" or "Unknown", got "Sleeping"',
    ),
    (POD, pod("restartPolicy: Maybe"), 'spec.restartPolicy: expected "Always", "OnFailure" or "Never", got "Maybe"'),
    (
        POD,
        pod("preemptionPolicy: Always"),
        'spec.preemptionPolicy: expected "PreemptLowerPriority" or "Never", got "Always"',
    ),
    (
        POD,
        asking('nvidia.com/gpu: "0.5"'),
        (
            'spec.containers[0].resources.requests["nvidia.com/gpu"]: expected a whole number of devices, such as "1", '
            'or the annotation gpu-fraction for a part of one, got "0.5"'
        ),
    ),
    (
        POD,
        asking("example.com/fpga: 1500m"),
        (
            'spec.containers[0].resources.requests["example.com/fpga"]: expected a whole number of devices, '
            'such as "1", got "1500m"'
        ),
    ),
    (
        POD,
        asking('gpu: "0.5"'),
        (
            'spec.containers[0].resources.requests.gpu: expected a resource such as "cpu", "memory" or '
            '"nvidia.com/gpu", got "gpu"'
        ),
    ),
    (POD, asking("memory: 10GB"), f'spec.containers[0].resources.requests["memory"]: {QUANTITY} "10GB"'),
    (POD, asking("memory: 10 Gi"), f'spec.containers[0].resources.requests["memory"]: {QUANTITY} "10 Gi"'),
    (POD, asking("cpu: two"), f'spec.containers[0].resources.requests["cpu"]: {QUANTITY} "two"'),
    (
        POD,
        asking("cpu: 4", ", limits: {cpu: 2}"),
        'spec.containers[0].resources.requests.cpu: expected at most the limit, "2", got "4"',
    ),
    (
        POD,
        "spec: {containers: [{name: main, ports: [{hostPort: 70000}]}]}",
        "spec.containers[0].ports[0].hostPort: expected a port between 1 and 65535, got 70000",
    ),
    (
        POD,
        "spec: {containers: [{name: main, ports: [{containerPort: 1, protocol: HTTP}]}]}",
        'spec.containers[0].ports[0].protocol: expected "TCP", "UDP" or "SCTP", got "HTTP"',
    ),
    (
        POD,
        pod("topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone}]"),
        "spec.topologySpreadConstraints[0].maxSkew: expected a number of at least 1, got 0",
    ),
    (
        POD,
        pod("topologySpreadConstraints: [{topologyKey: zone}]"),
        "spec.topologySpreadConstraints[0].maxSkew: expected a number of at least 1, got nothing",
    ),
    (
        POD,
        "spec: {containers: [{name: main}, {name: log}, {name: main}]}",
        'spec.containers[2].name: expected a name of its own, got "main", which spec.containers[0] has',
    ),
    (
        POD,
        "spec: {initContainers: [{name: main}], containers: [{name: main}]}",
        'spec.containers[0].name: expected a name of its own, got "main", which spec.initContainers[0] has',
    ),
    (
        POD,
        "spec: {containers: [{name: main, ports: [{containerPort: 70000}]}]}",
        "spec.containers[0].ports[0].containerPort: expected a port between 1 and 65535, got 70000",
    ),
    (
        POD,
        pod("topologySpreadConstraints: [{maxSkew: 1}]"),
        "spec.topologySpreadConstraints[0].topologyKey: expected the name of a node label, got nothing",
    ),
    (
        POD,
        pod("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, nodeTaintsPolicy: Obey}]"),
        'spec.topologySpreadConstraints[0].nodeTaintsPolicy: expected "Honor" or "Ignore", got "Obey"',
    ),
    (
        POD,
        pod("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}"),
        (
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
            "expected the name of a node label, got nothing"
        ),
    ),
    (
        POD,
        pod(
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Near, values: [b]}]}]}}}"
        ),
        (
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
            'matchExpressions[0].operator: expected "In", "NotIn", "Exists", "DoesNotExist", "Gt" or "Lt", got "Near"'
        ),
    ),
    (
        POD,
        pod(
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
            "[{weight: 0, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}"
        ),
        (
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
            "expected a number between 1 and 100, got 0"
        ),
    ),
    (
        NODE,
        "spec: {taints: [{key: a, effect: Sometimes}]}",
        f'spec.taints[0].effect: expected {TAINTS}, got "Sometimes"',
    ),
    (NODE, "spec: {taints: [{key: a}]}", f'spec.taints[0].effect: expected {TAINTS}, got ""'),
    (NODE, "spec: {taints: [{effect: NoSchedule}]}", "spec.taints[0].key: expected the name of the taint, got nothing"),
    (
        NODE,
        "status: {conditions: [{type: Ready, status: 'yes'}]}",
        'status.conditions[0].status: expected "True", "False" or "Unknown", got "yes"',
    ),
    (
        NODE,
        "status: {allocatable: {cpu: -4}}",
        'status.allocatable.cpu: expected an amount of zero or more, such as "4", got "-4"',
    ),
    (NODE, "status: {allocatable: [cpu]}", "status.allocatable: expected a mapping, got a list"),
    (GROUP, "spec: {minMember: -1}", "spec.minMember: expected a number of at least 0, got -1"),
    (GROUP, "spec: {minMember: many}", 'spec.minMember: expected an integer, got "many"'),
    (
        GROUP,
        "spec: {minTaskMember: {worker: -1}}",
        "spec.minTaskMember.worker: expected a number of at least 0, got -1",
    ),
    (
        GROUP,
        "status: {phase: Sleeping}",
        'status.phase: expected "Pending", "Inqueue", "Running", "Unknown" or "Completed", got "Sleeping"',
    ),
    (
        GROUP,
        "spec: {networkTopology: {mode: harder, highestTierAllowed: 1}}",
        'spec.networkTopology.mode: expected "hard" or "soft", got "harder"',
    ),
    (
        GROUP,
        "spec: {networkTopology: {highestTierAllowed: -1}}",
        "spec.networkTopology.highestTierAllowed: expected a number of at least 0, got -1",
    ),
    (
        QUEUE,
        "spec: {capability: {cpu: 4}, guarantee: {resource: {cpu: 8}}}",
        'spec.guarantee.resource.cpu: expected at most the capability, "4", got "8"',
    ),
    (QUEUE, "spec: {weight: -1}", "spec.weight: expected a number of at least 0, got -1"),
    (QUEUE, "spec: {dequeueStrategy: lifo}", 'spec.dequeueStrategy: expected "fifo" or "traverse", got "lifo"'),
    (QUEUE, "spec: {parent: q}", 'spec.parent: expected another queue, got the queue itself, "q"'),
    (
        QUEUE,
        "status: {state: Ajar}",
        'status.state: expected "Open", "Closed", "Closing" or "Unknown", got "Ajar"',
    ),
    (
        KAI_QUEUE,
        "spec: {resources: {gpu: {quota: -2}}}",
        "spec.resources.gpu.quota: expected zero or more, or -1 for unlimited, got -2",
    ),
    (
        KAI_QUEUE,
        "spec: {resources: {gpu: {overQuotaWeight: -2}}}",
        "spec.resources.gpu.overQuotaWeight: expected a number of at least 0, got -2",
    ),
    (
        KAI_QUEUE,
        "spec: {preemptMinRuntime: soon}",
        'spec.preemptMinRuntime: expected a duration such as "90s" or "1h30m", got "soon"',
    ),
    (
        KAI_GROUP,
        "spec: {preemptibility: maybe}",
        'spec.preemptibility: expected "preemptible", "non-preemptible" or "semi-preemptible", got "maybe"',
    ),
    (
        KAI_GROUP,
        "spec: {subGroups: [{name: a, parent: b}]}",
        'spec.subGroups[0].parent: expected the name of a sub-group, got "b"',
    ),
    (HYPER_NODE, "spec: {tier: -1}", "spec.tier: expected a number of at least 0, got -1"),
    (HYPER_NODE, "spec: {tier: low}", 'spec.tier: expected an integer, got "low"'),
    (
        HYPER_NODE,
        "spec: {tier: 1, members: [{type: Rack, selector: {exactMatch: {name: n1}}}]}",
        'spec.members[0].type: expected "Node" or "HyperNode", got "Rack"',
    ),
    (
        HYPER_NODE,
        "spec: {tier: 1, members: [{type: Node, selector: {}}]}",
        "spec.members[0].selector: expected exactly one of exactMatch, regexMatch and labelMatch",
    ),
    (TOPOLOGY, "spec: {levels: []}", "spec.levels: expected at least one level, got none"),
    (CLASS, "value: 2000000000", "value: expected at most 1000000000; more is for Kubernetes itself, got 2000000000"),
    (
        BUDGET,
        "spec: {minAvailable: half}",
        'spec.minAvailable: expected a number or a percentage such as "50%", got "half"',
    ),
    (BUDGET, "spec: {minAvailable: 150%}", 'spec.minAvailable: expected a percentage of at most "100%", got "150%"'),
    (
        BUDGET,
        "spec: {minAvailable: 1, maxUnavailable: 1}",
        "spec: expected minAvailable or maxUnavailable, got both; drop one",
    ),
    (
        QUOTA,
        "spec: {scopes: [Weekends]}",
        (
            'spec.scopes[0]: expected "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", '
            '"CrossNamespacePodAffinity" or "VolumeAttributesClass", got "Weekends"'
        ),
    ),
    # what an API server would refuse
    (POD, pod("schedulingGates: [{}]"), "spec.schedulingGates[0].name: expected the name of the gate, got nothing"),
    (POD, pod("activeDeadlineSeconds: -5"), "spec.activeDeadlineSeconds: expected a number of at least 1, got -5"),
    (
        POD,
        pod("volumes: [{name: v, persistentVolumeClaim: {}}]"),
        ("spec.volumes[0].persistentVolumeClaim.claimName: expected the name of a PersistentVolumeClaim, got nothing"),
    ),
    (
        POD,
        pod("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"),
        (
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
            "expected at least one term, got none; no node would match"
        ),
    ),
    (
        NODE,
        'status: {allocatable: {nvidia.com/gpu: "0.5"}}',
        'status.allocatable["nvidia.com/gpu"]: expected a whole number of devices, such as "1", got "0.5"',
    ),
    (
        NODE,
        "status: {allocatable: {pods: 1.5}}",
        'status.allocatable.pods: expected a whole number, such as "1", got "1.5"',
    ),
    (
        KAI_QUEUE,
        "spec: {reclaimMinRuntime: -5m}",
        'spec.reclaimMinRuntime: expected a duration of 0s or more, such as "90s", got "-5m"',
    ),
    (
        TOPOLOGY,
        "spec: {levels: [{nodeLabel: a b}]}",
        (
            'spec.levels[0].nodeLabel: expected a key of letters, digits, "-", "_" and "." between letters or digits, '
            '63 at most, after a domain and "/" or alone, got "a b"'
        ),
    ),
    (
        CLASS,
        "spec: {value: 3}",
        (
            "spec: unknown field; known here: apiVersion, description, globalDefault, kind, metadata, "
            "preemptionPolicy, value"
        ),
    ),
    (
        QUOTA,
        "spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}]}}",
        "spec.scopeSelector.matchExpressions[0].values: expected at least one value for In, got none",
    ),
    (
        CLAIM,
        "spec: {accessModes: [Sometimes]}",
        (
            'spec.accessModes[0]: expected "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany" or "ReadWriteOncePod", '
            'got "Sometimes"'
        ),
    ),
    (CLAIM, "spec: {volumeMode: Weird}", 'spec.volumeMode: expected "Filesystem" or "Block", got "Weird"'),
    (CLAIM, "status: {phase: Maybe}", 'status.phase: expected "Pending", "Bound" or "Lost", got "Maybe"'),
    (
        DEVICES,
        "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: x, count: -1}}]}}",
        'spec.devices.requests: expected from 1 to 1000000000 devices of "x", got -1',
    ),
]


@pytest.mark.parametrize(("head", "part", "line"), REFUSED, ids=[f"{part}" for _, part, _ in REFUSED])
def test_what_is_wrong_is_refused_in_one_line(head: str, part: str, line: str) -> None:
    with pytest.raises(UserError) as caught:
        load_text(f"{head}{part}\n", "in.yaml")
    assert str(caught.value) == f"in.yaml: document 1 ({SUBJECTS[head]}): {line}"


LABEL = 'letters, digits, "-", "_" and "." between letters or digits, 63 at most'


@pytest.mark.parametrize(
    ("metadata", "line"),
    [
        ("labels: {a: b c}", f'metadata.labels: expected a value of {LABEL}, got "b c" for "a"'),
        ("labels: {-a: b}", f'metadata.labels: expected a key of {LABEL}, after a domain and "/" or alone, got "-a"'),
        (
            "labels: {Team/a: b}",
            f'metadata.labels: expected a key of {LABEL}, after a domain and "/" or alone, got "Team/a"',
        ),
        ("labels: {a: 1}", 'metadata.labels["a"]: expected a string, got 1; put it in quotes'),
        ("label: {a: b}", "metadata.label: unknown field; did you mean labels?"),
        (
            "annotations: {volcano.sh/preemptable: maybe}",
            'metadata.annotations["volcano.sh/preemptable"]: expected "true" or "false", got "maybe"',
        ),
        (
            "annotations: {muster.sh/run-seconds: soon}",
            'metadata.annotations["muster.sh/run-seconds"]: expected a number of seconds such as "90", got "soon"',
        ),
        (
            "annotations: {muster.sh/exit: badly}",
            'metadata.annotations["muster.sh/exit"]: expected "succeeded" or "failed", got "badly"',
        ),
        (
            "annotations: {volcano.sh/task-index: first}",
            'metadata.annotations["volcano.sh/task-index"]: expected a number such as "0", got "first"',
        ),
        (
            "annotations: {volcano.sh/jdb-min-available: most}",
            (
                'metadata.annotations["volcano.sh/jdb-min-available"]: expected a number or a percentage '
                'such as "50%", got "most"'
            ),
        ),
        (
            'annotations: {gpu-fraction: "2"}',
            'metadata.annotations["gpu-fraction"]: expected a part of one GPU such as "0.5", got "2"',
        ),
        (
            "annotations: {gpu-memory: lots}",
            'metadata.annotations["gpu-memory"]: expected a number of MiB such as "4096", got "lots"',
        ),
        (
            "creationTimestamp: yesterday",
            'metadata.creationTimestamp: expected a time such as "2026-01-31T12:00:00Z", got "yesterday"',
        ),
    ],
)
def test_wrong_labels_annotations_and_times_are_refused(metadata: str, line: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: a, {metadata}}}\nspec: {{{FULL}}}\n"
    with pytest.raises(UserError) as caught:
        load_text(text, "in.yaml")
    assert str(caught.value) == f"in.yaml: document 1 (Pod a/p): {line}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "apiVersion: v2\nkind: Pod\nmetadata: {name: x}",
            '(Pod default/x): apiVersion: expected "v1" for kind Pod, got "v2"',
        ),
        (
            "apiVersion: scheduling.volcano.sh/v1\nkind: PodGroup\nmetadata: {name: x}",
            (
                '(PodGroup default/x): apiVersion: expected "scheduling.run.ai/v2alpha2" or '
                '"scheduling.volcano.sh/v1beta1" '
                'for kind PodGroup, got "scheduling.volcano.sh/v1"'
            ),
        ),
        (
            "apiVersion: sheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: x}",
            (
                '(PodGroup default/x): apiVersion: expected "scheduling.run.ai/v2alpha2" or '
                '"scheduling.volcano.sh/v1beta1" '
                'for kind PodGroup, got "sheduling.volcano.sh/v1beta1"'
            ),
        ),
        (
            "apiVersion: v1\nkind: Pood\nmetadata: {name: x}",
            '(Pood default/x): kind: unknown kind "Pood" of v1; did you mean Pod?',
        ),
        (
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Podgroup\nmetadata: {name: x}",
            (
                '(Podgroup default/x): kind: unknown kind "Podgroup" of scheduling.volcano.sh/v1beta1; '
                "did you mean PodGroup?"
            ),
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: x", '(Pod): metadata: expected a mapping, got "x"'),
    ],
)
def test_misspelt_kinds_and_versions_are_refused(text: str, line: str) -> None:
    with pytest.raises(UserError) as caught:
        load_text(text, "in.yaml")
    assert str(caught.value) == f"in.yaml: document 1 {line}"


def test_queues_above_themselves_are_noted_with_the_whole_way() -> None:
    queues = [
        QUEUE.replace("name: q", f"name: {name}") + f"spec: {{parent: {above}}}\n" for name, above in ("ab", "bc", "ca")
    ]
    line = "spec.parent: expected a queue that is not below this one, got"
    assert load_text("---\n".join(queues), "in.yaml").notes == [
        f"in.yaml: document 1 (Queue a): {line} a → b → c → a",
        f"in.yaml: document 2 (Queue b): {line} b → c → a → b",
        f"in.yaml: document 3 (Queue c): {line} c → a → b → c",
    ]


#: What can be used and may not be meant.
NOTED = [
    (COMMAND, "action: AbortJob", "target: expected a Job of Volcano, got something else; nobody carries it out"),
    (
        COMMAND,
        "action: AbortJob\ntarget: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: nope, uid: u}",
        'target.name: there is no Job "nope" in namespace a of the input',
    ),
    (
        CLAIM,
        "spec: {volumeName: nope, resources: {requests: {storage: 1Gi}}}",
        'spec.volumeName: there is no PersistentVolume "nope" in the input',
    ),
    (
        CLAIM,
        "spec: {storageClassName: fast, resources: {requests: {storage: 1Gi}}}",
        'spec.storageClassName: there is no StorageClass "fast" in the input',
    ),
    (
        CLAIM,
        "spec: {resources: {requests: {storag: 1Gi}}}",
        'spec.resources.requests: expected an amount such as {storage: "10Gi"}, got none',
    ),
    (DEVICES, "spec: {}", "spec.devices.requests: expected at least one request for devices, got none that is read"),
    (
        HYPER_NODE,
        "spec: {tier: 1, members: [{type: Node, selector: {labelMatch: {}}}]}",
        (
            "spec.members[0].selector.labelMatch: expected matchLabels or matchExpressions, got neither; "
            "it selects no node"
        ),
    ),
    (POD, pod("nodeName: n9"), 'spec.nodeName: there is no Node "n9" in the input, so the pod takes no room'),
    (
        POD,
        pod("priorityClassName: hihg"),
        (
            'spec.priorityClassName: there is no PriorityClass "hihg" in the input, so it decides nothing; '
            'did you mean "high"?'
        ),
    ),
    (POD, "", "spec.containers: expected at least one container, got none; the pod asks for nothing"),
    (
        QUEUE,
        "spec: {parent: reserch}",
        'spec.parent: there is no Queue "reserch" in the input; did you mean "research"?',
    ),
    (KAI_QUEUE, "spec: {parentQueue: nobody}", 'spec.parentQueue: there is no Queue "nobody" in the input'),
    (GROUP, "spec: {queue: reserch}", 'spec.queue: there is no Queue "reserch" in the input; did you mean "research"?'),
    (
        GROUP,
        "spec: {networkTopology: {mode: hard, highestTierName: rak}}",
        'spec.networkTopology.highestTierName: no HyperNode of the input has the tier "rak"; did you mean "rack"?',
    ),
    (
        KAI_GROUP,
        "spec: {queue: research, topologyConstraint: {topology: net, requiredTopologyLevel: row}}",
        'spec.topologyConstraint.requiredTopologyLevel: Topology net has no level "row"; it has rack',
    ),
    (
        KAI_GROUP,
        "spec: {queue: research, topologyConstraint: {topology: nett, requiredTopologyLevel: rack}}",
        'spec.topologyConstraint.topology: there is no Topology "nett" in the input; did you mean "net"?',
    ),
    (
        POD,
        pod("resourceClaims: [{name: r, resourceClaimName: gpus}]"),
        'spec.resourceClaims: there is no ResourceClaim "gpus" in namespace a of the input, so no device is asked for',
    ),
    (
        POD,
        f"{pod()}\nstatus: {{phase: Running}}",
        "status.phase: the pod is said to run, and spec.nodeName names no node, so it takes no room",
    ),
    (
        HYPER_NODE,
        "spec: {tier: 1}",
        "spec.members: expected at least one member, got none; the HyperNode holds no nodes",
    ),
    (
        HYPER_NODE,
        "spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: n7}}}]}",
        'spec.members[0].selector.exactMatch.name: there is no Node "n7" in the input',
    ),
    (JOB, "spec: {queue: reserch}", 'spec.queue: there is no Queue "reserch" in the input; did you mean "research"?'),
    (
        JOB,
        "spec: {priorityClassName: hihg}",
        (
            'spec.priorityClassName: there is no PriorityClass "hihg" in the input, so it decides nothing; '
            'did you mean "high"?'
        ),
    ),
    (
        FLOW,
        "spec: {flows: [{name: first}]}",
        'spec.flows[0].name: there is no JobTemplate "first" in namespace a of the input',
    ),
    (
        POD.replace("name: p", "name: My_Pod"),
        pod(),
        (
            'metadata.name: no API server takes the name "My_Pod": expected lower-case letters, digits, "-" and ".", '
            "253 at most"
        ),
    ),
    (
        POD.replace("namespace: a", "namespace: Team_A"),
        pod(),
        (
            'metadata.namespace: no API server takes the namespace "Team_A": expected lower-case letters, digits and '
            '"-", 63 at most'
        ),
    ),
    (
        POD,
        asking("memory: 64"),
        'spec.containers[0].resources.requests.memory: "64" is 64 bytes; did you mean "64Mi" or "64Gi"?',
    ),
    (
        POD,
        asking("memory: 100m"),
        'spec.containers[0].resources.requests.memory: "100m" is less than a byte; did you mean "100Mi" or "100Gi"?',
    ),
    (
        NODE.replace("n1", "n2"),
        "",
        'status.allocatable: expected amounts such as {cpu: "8"}, got none; no pod fits on the node',
    ),
    (
        QUEUE,
        "spec: {capability: {gpu: 4}}",
        'spec.capability.gpu: no node of the input has the resource "gpu"; did you mean "nvidia.com/gpu"?',
    ),
    (
        QUEUE,
        "spec: {capability: {cpu: 4}, deserved: {cpu: 8}}",
        'spec.deserved.cpu: expected at most the capability, "4", got "8"; the capability decides',
    ),
    (
        KAI_QUEUE,
        "spec: {resources: {gpu: {quota: 4, limit: 2}}}",
        "spec.resources.gpu.limit: expected at least the quota, 4, got 2; the limit decides",
    ),
    (
        QUOTA,
        "spec: {hard: {cpuu: 4}}",
        'spec.hard.cpuu: no node of the input has the resource "cpuu"; did you mean "cpu"?',
    ),
    (
        BUDGET,
        "spec: {minAvailable: 1}",
        "spec.selector: expected labels of pods, got nothing; the budget protects nobody",
    ),
    (
        BUDGET,
        "spec: {selector: {}}",
        "spec: expected minAvailable or maxUnavailable, got neither; one pod at a time may go",
    ),
    (
        f"{BUDGET}spec: {{minAvailable: 1, selector: {{matchLabels: {{app: x}}}}}}\n---\n{POD}",
        pod(),
        "spec.selector: no pod of the input in namespace a has these labels",
    ),
    (CLAIM, "", 'spec.resources.requests: expected an amount such as {storage: "10Gi"}, got none'),
    (
        HYPER_NODE,
        "spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: z.*}}}]}",
        'spec.members[0].selector.regexMatch.pattern: no Node of the input matches "z.*"',
    ),
    (
        HYPER_NODE,
        "spec: {tier: 1, members: [{type: Node, selector: {labelMatch: {matchLabels: {rack: r9}}}}]}",
        "spec.members[0].selector.labelMatch: no Node of the input has these labels",
    ),
    (
        TOPOLOGY.replace("net", "other"),
        "spec: {levels: [{nodeLabel: rak}]}",
        'spec.levels[0].nodeLabel: no Node of the input has the label "rak"; did you mean "rack"?',
    ),
]
AROUND = "\n---\n".join(
    [
        ROOMY.replace("{name: n1}", "{name: n1, labels: {rack: r1}}"),
        CLASS + "value: 10",
        QUEUE.replace("name: q", "name: research"),
        HYPER_NODE.replace("rack", "known") + f"spec: {{tier: 1, tierName: rack, members: [{MEMBER}]}}",
        TOPOLOGY + "spec: {levels: [{nodeLabel: rack}]}",
    ]
)


@pytest.mark.parametrize(("head", "part", "line"), NOTED, ids=[part for _, part, _ in NOTED])
def test_what_may_not_be_meant_is_noted_in_one_line(head: str, part: str, line: str) -> None:
    loaded = load_text(f"{head}{part}\n---\n{AROUND}\n", "in.yaml")
    first = loaded[0].object
    assert loaded.notes == [f"in.yaml: document 1 ({first.kind} {first.key}): {line}"]


#: A kind, a label or annotation, what it says, and what is said of it.
MARKS = [
    (GROUP, "annotations", "muster.sh/staleness-grace-period", "soon", 'expected a duration such as "90s" or "1h30m"'),
    (QUEUE, "annotations", "muster.sh/preempt-min-runtime", "-5s", 'expected a duration such as "90s" or "1h30m"'),
    (GROUP, "annotations", "sla-waiting-time", "soon", 'expected a duration such as "90s" or "1h30m"'),
    (POD, "annotations", "volcano.sh/cooldown-time", "soon", 'expected a duration such as "90s" or "1h30m"'),
    (POD, "annotations", "muster.sh/expected-seconds", "soon", 'expected a number of seconds such as "90"'),
    (POD, "annotations", "muster.sh/exit-code", "bad", 'expected an exit code such as "137"'),
    (KAI_GROUP, "labels", "kai.scheduler/preemptibility", "never", 'expected "preemptible", "non-preemptible" or'),
    (POD, "labels", "kai.scheduler/task-priority", "high", 'expected a whole number such as "5"'),
    (POD, "labels", "volcano.sh/preemptable", "maybe", 'expected "true" or "false"'),
    (GROUP, "annotations", "muster.sh/disruption-mode", "podgroup", 'expected "Pod" or "PodGroup"'),
    (POD, "annotations", "volcano.sh/resource-strategy-weight", "heavy", 'expected JSON such as {"cpu": 1}'),
    (POD, "annotations", "volcano.sh/resource-strategy-scoring-type", "most", 'expected "MostAllocated" or "LeastAl'),
    (QUEUE, "annotations", "volcano.sh/hierarchy-weights", "a/b", 'expected numbers such as "1/8/2"'),
    (QUEUE, "annotations", "volcano.sh/nodegroup-resource-limits", "x", 'expected JSON such as {"group1": '),
    (POD, "annotations", "scheduling.k8s.io/groupname", "g", "did you mean scheduling.k8s.io/group-name?"),
    (POD, "annotations", "scheduling.volcano.sh/queue_name", "q", "did you mean scheduling.volcano.sh/queue-name?"),
    (POD, "annotations", "gpu-fractoin", "0.5", "nothing reads it; did you mean gpu-fraction?"),
    (POD, "labels", "kai.scheduler/queu", "q", "nothing reads it; did you mean kai.scheduler/queue?"),
    (POD, "annotations", "muster.sh/runseconds", "5", "nothing reads it; did you mean muster.sh/run-seconds?"),
]


@pytest.mark.parametrize(("head", "part", "key", "value", "line"), MARKS, ids=[f"{row[2]}={row[3]}" for row in MARKS])
def test_marks_that_nobody_understands_are_noted(head: str, part: str, key: str, value: str, line: str) -> None:
    spec = pod() if head is POD else "spec: {}"
    text = head.replace("}", f", {part}: {{{key}: '{value}'}}}}") + spec
    (note,) = [each for each in load_text(text, "in.yaml").notes if "metadata." in each]
    assert note.startswith(f'in.yaml: document 1 ({SUBJECTS[head]}): metadata.{part}["{key}"]: ')
    assert line in note


@pytest.mark.parametrize(
    "marks",
    [
        "labels: {app: x, kai.scheduler/queue: q, volcano.sh/preemptable: 'true', example.com/queue-name: q}",
        "annotations: {muster.sh/staleness-grace-period: '-1s', muster.sh/expected-seconds: '90', example.com/x: y}",
        "annotations: {volcano.sh/something-else: x, scheduling.volcano.sh/queue-name: default}",
    ],
)
def test_marks_that_are_understood_or_of_others_are_not_noted(marks: str) -> None:
    assert not load_text(POD.replace("}", f", {marks}}}") + pod(), "in.yaml").notes


def test_two_default_classes_are_noted() -> None:
    classes = [CLASS.replace("high", name) + "value: 1\nglobalDefault: true\n" for name in ("low", "mid")]
    words = "globalDefault: expected one default class, got"
    assert load_text("---\n".join(classes), "in.yaml").notes == [
        f"in.yaml: document 1 (PriorityClass low): {words} mid as well; the lowest counts",
        f"in.yaml: document 2 (PriorityClass mid): {words} low as well; the lowest counts",
    ]


@pytest.mark.parametrize("name", ["train", "inference", "system-node-critical", "high"])
def test_known_priority_classes_are_not_noted(name: str) -> None:
    assert load_text(f"{POD}{pod(f'priorityClassName: {name}')}\n---\n{AROUND}\n").notes == []


def test_the_same_note_about_many_objects_is_one_line() -> None:
    pods = [POD.replace("name: p", f"name: p{i}") + pod("nodeName: n9") for i in range(40)]
    [note] = load_text("\n---\n".join(pods), "in.yaml").notes
    assert note.endswith("so the pod takes no room (and 39 more of these)")


def test_kinds_that_are_not_read_are_noted_once_each_and_truly() -> None:
    texts = [f"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: j{i}}}\n" for i in range(3)]
    texts += ["apiVersion: tekton.dev/v1\nkind: PipelineRun\nmetadata: {name: r}\n"]
    roles = "spec: {roles: [{entryTemplate: {spec: {containers: [{name: c, image: x}]}}}]}"
    texts += [f"apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: ModelServing\nmetadata: {{name: m}}\n{roles}\n"]
    texts += ["apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: d}\n"]
    texts += ["apiVersion: trainer.kubeflow.org/v2alpha1\nkind: TrainJob\nmetadata: {name: t}\n"]
    texts += ["apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"]
    texts += ["apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: s}\n"]
    workload = "a workload that muster does not run; give its pods, and their PodGroup if they have one"
    assert load_text("---\n".join([*texts, ROOMY])).notes == [
        f"3 DaemonSets of apps/v1 left out: {workload}",
        f"1 PipelineRun of tekton.dev/v1 left out: {workload}",
        f"1 ModelServing of workload.serving.volcano.sh/v1alpha1 left out: {workload}",
        "1 Deployment of extensions/v1beta1 left out: a version that muster does not read, unlike apps/v1",
        (
            "1 TrainJob of trainer.kubeflow.org/v2alpha1 left out: "
            "a version that muster does not read, unlike trainer.kubeflow.org/v1alpha1"
        ),
        "1 Service of v1 left out: a kind that muster does not read",
        "1 Queue of example.com/v1 left out: a kind that muster does not read",
    ]


def test_unknown_fields_of_what_a_server_has_taken_are_noted_once() -> None:
    pods = [POD.replace("name: p", f"name: p{i}, uid: u{i}") + pod(f"fromTheFuture: {i}") + "\n" for i in range(3)]
    [note] = load_text("---\n".join(pods), "in.yaml").notes
    expected = "in.yaml: document 1 (Pod a/p0): spec.fromTheFuture: unknown field; --allow-unknown leaves it out"
    assert note == f"{expected} (and 2 more of these)"


def test_unknown_fields_are_noted_when_they_are_allowed() -> None:
    loaded = load_text(GROUP + "spec: {minMembers: 3}\n", "in.yaml", allow_unknown=True)
    expected = "in.yaml: document 1 (PodGroup a/g): spec.minMembers: unknown field; did you mean minMember?"
    assert (loaded.notes, len(loaded)) == ([expected], 1)


def test_all_unknown_fields_of_an_object_are_told() -> None:
    with pytest.raises(UserError) as caught:
        load_text(GROUP + "spec: {minMembers: 3, que: a}\n", "in.yaml")
    assert sorted(str(caught.value).splitlines()) == [
        "in.yaml: document 1 (PodGroup a/g): spec.minMembers: unknown field; did you mean minMember?",
        "in.yaml: document 1 (PodGroup a/g): spec.que: unknown field; did you mean queue?",
    ]
