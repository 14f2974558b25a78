"""Documents become objects of their type; what an API server fills in is filled in."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api import (
    KINDS,
    HyperNode,
    KaiPodGroup,
    KaiQueue,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    Quantity,
    Queue,
    Topology,
    UserError,
    decode,
    decode_hook,
    encode,
)

VOLCANO = "scheduling.volcano.sh/v1beta1"


def test_every_kind_is_registered_under_its_own_names() -> None:
    for (api_version, kind), wanted in KINDS.items():
        assert (wanted.api_version, wanted.kind) == (api_version, kind)
        decoded = decode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
        assert type(decoded) is wanted
        assert decoded.key == ("default/x" if wanted.namespaced else "x")


def test_pod_group_with_everything() -> None:
    group = decode(
        {
            "apiVersion": VOLCANO,
            "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "team-a"},
            "spec": {
                "minMember": 8,
                "minTaskMember": {"worker": 7, "master": 1},
                "minResources": {"cpu": 64, "nvidia.com/gpu": "8"},
                "queue": "research",
                "priorityClassName": "high",
                "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
                "subGroupPolicy": [
                    {
                        "name": "tp",
                        "subGroupSize": 4,
                        "minSubGroups": 2,
                        "matchLabelKeys": ["volcano.sh/partition-id"],
                        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
                        "networkTopology": {"highestTierName": "rack"},
                    }
                ],
            },
            "status": {"phase": "Inqueue", "running": 3},
        }
    )
    assert isinstance(group, PodGroup)
    assert group.key == "team-a/train"
    assert group.spec.min_member == 8
    assert group.spec.min_task_member == {"worker": 7, "master": 1}
    assert group.spec.min_resources == {"cpu": Quantity("64"), "nvidia.com/gpu": Quantity("8")}
    assert group.spec.network_topology is not None
    assert group.spec.network_topology.highest_tier_allowed == 2
    [policy] = group.spec.sub_group_policy
    assert (policy.name, policy.sub_group_size, policy.min_sub_groups) == ("tp", 4, 2)
    assert policy.match_label_keys == ["volcano.sh/partition-id"]
    assert policy.label_selector is not None
    assert policy.label_selector.matches({"volcano.sh/task-spec": "worker"})
    assert policy.network_topology is not None
    assert policy.network_topology.highest_tier_name == "rack"
    assert (group.status.phase, group.status.running) == ("Inqueue", 3)


def test_defaults_of_volcano() -> None:
    group = decode({"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": "g"}})
    queue = decode({"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "q"}})
    assert isinstance(group, PodGroup)
    assert isinstance(queue, Queue)
    assert group.spec.queue == "default"
    assert queue.spec.weight == 1
    assert queue.spec.reclaimable is None


def test_kai_objects() -> None:
    queue = decode(
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "team"},
            "spec": {
                "parentQueue": "all",
                "resources": {"gpu": {"quota": 8, "limit": -1, "overQuotaWeight": 0.5}},
                "preemptMinRuntime": "5m",
            },
        }
    )
    group = decode(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {
                "minMember": 2,
                "subGroups": [{"name": "a", "minMember": 1, "parent": "b"}],
                "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"},
            },
        }
    )
    assert isinstance(queue, KaiQueue)
    assert queue.spec.resources is not None
    assert queue.spec.resources.gpu.over_quota_weight == 0.5
    assert queue.spec.resources.gpu.limit == -1
    assert isinstance(group, KaiPodGroup)
    assert group.spec.sub_groups[0].parent == "b"
    assert group.spec.topology_constraint is not None
    assert group.spec.topology_constraint.required_topology_level == "rack"


@pytest.mark.parametrize("version", ["kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1alpha1"])
def test_topologies_of_kai_and_kueue_are_one_kind(version: str) -> None:
    document = {"apiVersion": version, "kind": "Topology", "metadata": {"name": "t", "namespace": "x"}}
    found = decode({**document, "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]}})
    assert isinstance(found, Topology)
    assert ([level.node_label for level in found.spec.levels], found.key) == (["rack", "host"], "t")


def test_fields_whose_names_are_not_plain_camel_case() -> None:
    pod = decode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "creationTimestamp": "2026-01-31T12:00:00Z"},
            "spec": {
                "containers": [{"name": "c", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}],
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
                },
            },
        }
    )
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.metadata.creation_timestamp == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.pod_anti_affinity is not None
    assert pod.spec.affinity.pod_anti_affinity.required[0].topology_key == "zone"


def test_members_of_a_hyper_node() -> None:
    selectors = [{"exactMatch": {"name": "n1"}}, {"regexMatch": {"pattern": "n.*"}}, {"labelMatch": {}}]
    hyper_node = decode(
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": "s0"},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": s} for s in selectors]},
        }
    )
    assert isinstance(hyper_node, HyperNode)
    exact, regex, label = (member.selector for member in hyper_node.spec.members)
    assert exact.exact_match is not None
    assert exact.exact_match.name == "n1"
    assert regex.regex_match is not None
    assert regex.regex_match.pattern == "n.*"
    assert label.label_match is not None
    assert label.label_match.matches({"any": "thing"})


@pytest.mark.parametrize("value", [2, "50%"])
def test_budgets_take_numbers_and_percentages(value: int | str) -> None:
    budget = decode(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": value},
        }
    )
    assert isinstance(budget, PodDisruptionBudget)
    assert budget.spec.min_available == value
    assert budget.status is None


def test_unknown_fields_are_ignored_and_nulls_are_absent() -> None:
    node = decode(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "creationTimestamp": None, "labels": {"worker": None}, "annotations": None},
            "spec": {"taints": None, "someday": {"x": [1, None]}},
            "status": {"images": [{"names": ["a"]}]},
        }
    )
    assert isinstance(node, Node)
    assert node.metadata.labels == {"worker": ""}
    assert node.metadata.annotations == {}
    assert list(node.spec.taints) == []


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    capacity = {"cpu": "96", "memory": "1Ti"}
    node = decode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": capacity}})
    assert isinstance(node, Node)
    assert node.status.allocatable == {"cpu": Quantity("96"), "memory": Quantity("1Ti")}


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "False"}], True),
    ],
)
def test_readiness_of_a_node(conditions: list[dict[str, str]], ready: bool) -> None:
    document: dict[str, object] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    node = decode({**document, "status": {"conditions": conditions}})
    assert isinstance(node, Node)
    assert node.is_ready is ready


def test_objects_of_the_whole_cluster_lose_a_stray_namespace() -> None:
    queue = decode({"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "q", "namespace": "team-a"}})
    assert queue.key == "q"
    assert queue.namespace == ""


def test_encoding_gives_back_what_was_read() -> None:
    document: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team-a", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "0.5"}}}]},
    }
    assert encode(decode(document)) == document


def test_pods_decode_straight_from_json_with_the_path_in_errors() -> None:
    decoder = msgspec.json.Decoder(Pod, dec_hook=decode_hook)
    pod = decoder.decode(b'{"metadata":{"name":"p"},"spec":{"containers":[{"resources":{"requests":{"cpu":1.5}}}]}}')
    assert pod.spec.containers[0].resources.requests == {"cpu": Quantity("1500m")}
    with pytest.raises(msgspec.ValidationError, match=r'got "x" - at `\$\.spec\.overhead\[\.\.\.\]`'):
        decoder.decode(b'{"spec":{"overhead":{"cpu":"x"}}}')


def test_a_document_nested_too_deeply_is_refused() -> None:
    inner: object = None
    for _ in range(200):
        inner = [inner]
    document: dict[str, object] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": inner}}
    with pytest.raises(UserError, match="Pod: expected a document nested at most 100 levels deep"):
        decode(document)


@pytest.mark.parametrize(
    ("api_version", "kind", "message"),
    [
        ("v1", "Pods", 'Pods default/x: kind: unknown kind "Pods" of v1; did you mean Pod?'),
        (
            "scheduling.volcano.sh/v1alpha1",
            "PodGroup",
            (
                'PodGroup default/x: apiVersion: expected "scheduling.run.ai/v2alpha2" or '
                '"scheduling.volcano.sh/v1beta1" for kind PodGroup, got "scheduling.volcano.sh/v1alpha1"'
            ),
        ),
    ],
)
def test_unknown_kinds_and_versions_say_what_is_known(api_version: str, kind: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        decode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
    assert str(caught.value).startswith(message)


def test_ports_of_a_pod_in_the_host_network_are_held_on_the_node() -> None:
    pod = decode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
        }
    )

    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].ports[0].host_port == 80
