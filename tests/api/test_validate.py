"""What is surely wrong is refused with the field and what would be right."""

import pytest

from muster.api import UserError, check, decode, problems

VOLCANO = "scheduling.volcano.sh/v1beta1"
KAI = "scheduling.run.ai/v2"
HYPER = "topology.volcano.sh/v1alpha1"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Spec = dict[str, object]


def found(api_version: str, kind: str, **parts: object) -> list[str]:
    document: Spec = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **parts}
    return [f"{problem.field}: {problem.text}" for problem in problems(decode(document))]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minMember": -1}, "spec.minMember: expected a number of at least 0, got -1"),
        ({"minTaskMember": {"w": -2}}, "spec.minTaskMember.w: expected a number of at least 0, got -2"),
        ({"networkTopology": {"mode": "firm"}}, 'spec.networkTopology.mode: expected "hard" or "soft", got "firm"'),
        (
            {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}},
            "spec.networkTopology: expected highestTierAllowed or highestTierName, got both; drop one",
        ),
        ({"subGroupPolicy": [{}]}, "spec.subGroupPolicy[0].name: expected a name, got nothing"),
        (
            {"subGroupPolicy": [{"name": "a"}, {"name": "a"}]},
            'spec.subGroupPolicy[1].name: expected a name of its own, got "a" again',
        ),
        (
            {"subGroupPolicy": [{"name": "a", "subGroupSize": 0}]},
            "spec.subGroupPolicy[0].subGroupSize: expected a number of at least 1, got 0",
        ),
        (
            {"subGroupPolicy": [{"name": "a", "minSubGroups": -1}]},
            "spec.subGroupPolicy[0].minSubGroups: expected a number of at least 0, got -1",
        ),
        (
            {
                "subGroupPolicy": [
                    {"name": "a", "labelSelector": {"matchExpressions": [{"key": "k", "operator": "is"}]}}
                ]
            },
            (
                "spec.subGroupPolicy[0].labelSelector.matchExpressions[0].operator: "
                'expected "In", "NotIn", "Exists" or "DoesNotExist", got "is"'
            ),
        ),
    ],
)
def test_pod_groups(spec: Spec, problem: str) -> None:
    assert found(VOLCANO, "PodGroup", spec=spec) == [problem]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"spec": {"weight": -1}}, "spec.weight: expected a number of at least 0, got -1"),
        (
            {"spec": {"deserved": {"nvidia.com/gpu": "-8"}}},
            'spec.deserved["nvidia.com/gpu"]: expected an amount of zero or more, such as "4", got "-8"',
        ),
        (
            {"spec": {"guarantee": {"resource": {"cpu": "-1"}}}},
            'spec.guarantee.resource.cpu: expected an amount of zero or more, such as "4", got "-1"',
        ),
        (
            {"spec": {"dequeueStrategy": "lifo"}},
            'spec.dequeueStrategy: expected "fifo" or "traverse", got "lifo"',
        ),
        (
            {"status": {"state": "Ajar"}},
            'status.state: expected "Open", "Closed", "Closing" or "Unknown", got "Ajar"',
        ),
        ({"spec": {"parent": "x"}}, 'spec.parent: expected another queue, got the queue itself, "x"'),
    ],
)
def test_queues(parts: Spec, problem: str) -> None:
    assert found(VOLCANO, "Queue", **parts) == [problem]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"preemptMinRuntime": "five"},
            'spec.preemptMinRuntime: expected a duration such as "90s" or "1h30m", got "five"',
        ),
        (
            {"reclaimMinRuntime": "10 minutes"},
            'spec.reclaimMinRuntime: expected a duration such as "90s" or "1h30m", got "10 minutes"',
        ),
        (
            {"resources": {"gpu": {"quota": -2}}},
            "spec.resources.gpu.quota: expected zero or more, or -1 for unlimited, got -2",
        ),
        ({"parentQueue": "x"}, 'spec.parentQueue: expected another queue, got the queue itself, "x"'),
    ],
)
def test_queues_of_kai(spec: Spec, problem: str) -> None:
    assert found(KAI, "Queue", spec=spec) == [problem]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minMember": -1}, "spec.minMember: expected a number of at least 0, got -1"),
        ({"subGroups": [{"minMember": 1}]}, "spec.subGroups[0].name: expected a name, got nothing"),
        (
            {"preemptibility": "maybe"},
            'spec.preemptibility: expected "preemptible", "non-preemptible" or "semi-preemptible", got "maybe"',
        ),
        (
            {"subGroups": [{"name": "a"}, {"name": "a"}]},
            'spec.subGroups[1].name: expected a name of its own, got "a" again',
        ),
        ({"subGroups": [{"name": "A"}]}, 'spec.subGroups[0].name: expected a name in lower case, got "A"'),
        (
            {"subGroups": [{"name": "a", "parent": "b"}]},
            'spec.subGroups[0].parent: expected the name of a sub-group, got "b"',
        ),
        (
            {"subGroups": [{"name": "a", "parent": "a"}, {"name": "b", "parent": "a"}]},
            'spec.subGroups[0].parent: expected a sub-group that is not below "a" itself, got "a"',
        ),
        (
            {"topologyConstraint": {"requiredTopologyLevel": "rack"}},
            "spec.topologyConstraint.topology: expected the name of a Topology, got nothing",
        ),
        (
            {"stalenessGracePeriod": "soon"},
            'spec.stalenessGracePeriod: expected a duration such as "90s" or "1h30m", got "soon"',
        ),
    ],
)
def test_pod_groups_of_kai(spec: Spec, problem: str) -> None:
    assert found("scheduling.run.ai/v2alpha2", "PodGroup", spec=spec) == [problem]


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([], "spec.levels: expected at least one level, got none"),
        (["rack", "rack"], 'spec.levels[1].nodeLabel: expected a label of its own, got "rack" again'),
        ([""], "spec.levels[0].nodeLabel: expected the name of a node label, got nothing"),
        (
            ["kubernetes.io/hostname", "rack"],
            'spec.levels[0].nodeLabel: expected "kubernetes.io/hostname" as the last level only',
        ),
    ],
)
def test_topologies_of_labels(labels: list[str], problem: str) -> None:
    spec = {"levels": [{"nodeLabel": label} for label in labels]}
    assert found("kai.scheduler/v1alpha1", "Topology", spec=spec) == [problem]


def container(**parts: object) -> Spec:
    return {"containers": [{"name": "c", **parts}]}


def pod_terms(kind: str, when: str, term: Spec) -> Spec:
    wish = term if when == REQUIRED else {"weight": 1, "podAffinityTerm": term}
    return {"affinity": {kind: {when: [wish]}}}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            container(resources={"requests": {"cpu": "-1"}}),
            'spec.containers[0].resources.requests.cpu: expected an amount of zero or more, such as "4", got "-1"',
        ),
        (
            container(ports=[{"hostPort": 70000}]),
            "spec.containers[0].ports[0].hostPort: expected a port between 1 and 65535, got 70000",
        ),
        (
            {"overhead": {"memory": "-1Gi"}},
            'spec.overhead.memory: expected an amount of zero or more, such as "4", got "-1Gi"',
        ),
        (
            {"preemptionPolicy": "Always"},
            'spec.preemptionPolicy: expected "PreemptLowerPriority" or "Never", got "Always"',
        ),
        (
            {"terminationGracePeriodSeconds": -5},
            "spec.terminationGracePeriodSeconds: expected a number of at least 0, got -5",
        ),
        (
            {"tolerations": [{"key": "a", "effect": "NoWay"}]},
            'spec.tolerations[0].effect: expected "NoSchedule", "PreferNoSchedule" or "NoExecute", got "NoWay"',
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone"}]},
            "spec.topologySpreadConstraints[0].maxSkew: expected a number of at least 1, got 0",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Panic"}]},
            (
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: "
                'expected "DoNotSchedule" or "ScheduleAnyway", got "Panic"'
            ),
        ),
        (
            pod_terms("podAffinity", REQUIRED, {"labelSelector": {}}),
            f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: expected the name of a node label, got nothing",
        ),
        (
            pod_terms(
                "podAntiAffinity",
                PREFERRED,
                {
                    "topologyKey": "zone",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
                },
            ),
            (
                f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.labelSelector"
                ".matchExpressions[0].values: expected at least one value for In, got none"
            ),
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["two"]}]}
                            ]
                        }
                    }
                }
            },
            (
                f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values: "
                "expected one integer in quotes, got ['two']"
            ),
        ),
    ],
)
def test_pods(spec: Spec, problem: str) -> None:
    assert found("v1", "Pod", spec=spec) == [problem]


def test_run_seconds_must_be_a_number() -> None:
    metadata = {"name": "x", "annotations": {"muster.sh/run-seconds": "soon"}}
    assert found("v1", "Pod", metadata=metadata) == [
        'metadata.annotations["muster.sh/run-seconds"]: expected a number of seconds such as "90", got "soon"'
    ]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ({"operator": "Exists"}, "key: expected the name of a label, got nothing"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, "values: expected no values for Exists"),
        ({"key": "a", "operator": "NotIn"}, "values: expected at least one value for NotIn, got none"),
        ({"key": "a"}, 'operator: expected "In", "NotIn", "Exists" or "DoesNotExist", got ""'),
        (
            {"key": "a", "operator": "Gt", "values": ["1"]},
            'operator: expected "In", "NotIn", "Exists" or "DoesNotExist", got "Gt"',
        ),
    ],
)
def test_label_selectors(expression: Spec, problem: str) -> None:
    spec = {"selector": {"matchExpressions": [expression]}}
    assert found("policy/v1", "PodDisruptionBudget", spec=spec) == [f"spec.selector.matchExpressions[0].{problem}"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"minAvailable": "half"},
            'spec.minAvailable: expected a number or a percentage such as "50%", got "half"',
        ),
        ({"maxUnavailable": -1}, "spec.maxUnavailable: expected a number of at least 0, got -1"),
        (
            {"minAvailable": 1, "maxUnavailable": "50%"},
            "spec: expected minAvailable or maxUnavailable, got both; drop one",
        ),
    ],
)
def test_budgets(spec: Spec, problem: str) -> None:
    assert found("policy/v1", "PodDisruptionBudget", spec=spec) == [problem]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"tier": -1}, "spec.tier: expected a number of at least 0, got -1"),
        (
            {"members": [{"type": "Rack", "selector": {"exactMatch": {"name": "a"}}}]},
            'spec.members[0].type: expected "Node" or "HyperNode", got "Rack"',
        ),
        (
            {"members": [{"type": "Node"}]},
            "spec.members[0].selector: expected exactly one of exactMatch, regexMatch and labelMatch",
        ),
        (
            {"members": [{"type": "Node", "selector": {"exactMatch": {"name": "a"}, "labelMatch": {}}}]},
            "spec.members[0].selector: expected exactly one of exactMatch, regexMatch and labelMatch",
        ),
        (
            {"members": [{"type": "Node", "selector": {"exactMatch": {"name": ""}}}]},
            "spec.members[0].selector.exactMatch.name: expected the name of a member, got nothing",
        ),
        (
            {"members": [{"type": "HyperNode", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}}]},
            "spec.members[0].selector.labelMatch: expected exactMatch or regexMatch: labels select nodes only",
        ),
    ],
)
def test_hyper_nodes(spec: Spec, problem: str) -> None:
    assert found(HYPER, "HyperNode", spec=spec) == [problem]


@pytest.mark.parametrize("pattern", ["n[1", "(?=n)n", "(n)\\1", "n{2000}"])
def test_a_regular_expression_that_go_refuses_is_refused(pattern: str) -> None:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
    [problem] = found(HYPER, "HyperNode", spec={"members": members})
    start = "spec.members[0].selector.regexMatch.pattern: expected a regular expression in Go's syntax"
    assert problem.startswith(f'{start}, got "{pattern}"')


@pytest.mark.parametrize("pattern", ["^node-[0-9]+$", "(?P<rack>r[0-9])", r"\Anode\z", "(?i)NODE"])
def test_a_regular_expression_that_go_reads_is_taken(pattern: str) -> None:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
    assert found(HYPER, "HyperNode", spec={"members": members}) == []


@pytest.mark.parametrize(
    ("api_version", "kind", "parts", "problem"),
    [
        (
            "v1",
            "Node",
            {"status": {"allocatable": {"cpu": "-1"}}},
            'status.allocatable.cpu: expected an amount of zero or more, such as "4", got "-1"',
        ),
        (
            "v1",
            "Node",
            {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
            'spec.taints[0].effect: expected "NoSchedule", "PreferNoSchedule" or "NoExecute", got "Never"',
        ),
        (
            "v1",
            "ResourceQuota",
            {"spec": {"hard": {"requests.cpu": "-1"}}},
            'spec.hard["requests.cpu"]: expected an amount of zero or more, such as "4", got "-1"',
        ),
        (
            "v1",
            "PersistentVolume",
            {"spec": {"capacity": {"storage": "-1"}}},
            'spec.capacity.storage: expected an amount of zero or more, such as "4", got "-1"',
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            {"spec": {"resources": {"requests": {"storage": "-1"}}}},
            'spec.resources.requests.storage: expected an amount of zero or more, such as "4", got "-1"',
        ),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            {"volumeBindingMode": "Later"},
            'volumeBindingMode: expected "Immediate" or "WaitForFirstConsumer", got "Later"',
        ),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            {"preemptionPolicy": "Sometimes"},
            'preemptionPolicy: expected "PreemptLowerPriority" or "Never", got "Sometimes"',
        ),
    ],
)
def test_other_kinds(api_version: str, kind: str, parts: Spec, problem: str) -> None:
    assert found(api_version, kind, **parts) == [problem]


def test_check_raises_the_first_problem_with_the_object() -> None:
    document: Spec = {
        "apiVersion": VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"minMember": -1, "networkTopology": {"mode": "firm"}},
    }
    with pytest.raises(UserError) as caught:
        check(decode(document))
    expected = "PodGroup team-a/train: spec.minMember: expected a number of at least 0, got -1"
    assert str(caught.value) == expected
    assert len(list(problems(decode(document)))) == 2


def test_what_an_api_server_takes_is_taken() -> None:
    assert found(VOLCANO, "Queue", spec={"weight": 0, "capability": {}}, status={"state": ""}) == []
    assert found(VOLCANO, "PodGroup", spec={"minMember": 0, "networkTopology": {"mode": "soft"}}) == []
    assert found("v1", "Node") == []
    assert found("v1", "Pod", spec={"tolerations": [{"operator": "Exists"}]}) == []
