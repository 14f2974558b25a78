"""Random small worlds for property tests: few label values, so that rules meet often."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from muster.api import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    LabelSelectorRequirement,
    Namespace,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    Quantity,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

HOSTNAME = "kubernetes.io/hostname"
NAMESPACES = ("default", "default", "other")
_VALUES = ("a", "b", "3", "10")
_SETS = ("In", "NotIn", "Exists", "DoesNotExist")


def _requirement(kind: type[Any], keys: tuple[str, ...], operators: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.builds(
        kind,
        key=st.sampled_from(keys),
        operator=st.sampled_from(operators),
        values=st.lists(st.sampled_from(_VALUES), min_size=1, max_size=2),
    )


node_requirements = _requirement(NodeSelectorRequirement, ("zone", "rack", "size"), (*_SETS, "Gt", "Lt", "Odd"))
name_requirements = st.builds(
    NodeSelectorRequirement,
    key=st.just("metadata.name"),
    operator=st.sampled_from(("In", "NotIn")),
    values=st.lists(st.sampled_from(("n0", "n1", "n9")), min_size=1, max_size=1),
)
node_terms = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(node_requirements, max_size=2),
    match_fields=st.lists(name_requirements, max_size=1),
)
node_affinities = st.builds(
    NodeAffinity,
    required=st.none() | st.builds(NodeSelector, node_selector_terms=st.lists(node_terms, max_size=2)),
    preferred=st.lists(
        st.builds(PreferredSchedulingTerm, weight=st.integers(0, 100), preference=node_terms), max_size=2
    ),
)
taints = st.builds(
    Taint,
    key=st.sampled_from(("k1", "k2")),
    value=st.sampled_from(("", "a")),
    effect=st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule")),
)
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(("k1", "k2")),
    operator=st.sampled_from(("", "Equal", "Exists")),
    value=st.sampled_from(("", "a")),
    effect=st.sampled_from(("", "NoSchedule", "NoExecute", "PreferNoSchedule")),
) | st.just(Toleration(operator="Exists"))

pod_labels = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("a", "b")), max_size=2)
pod_selectors = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("a", "b")), max_size=1),
    match_expressions=st.lists(_requirement(LabelSelectorRequirement, ("app", "tier"), _SETS), max_size=1),
)
_label_keys = st.lists(st.sampled_from(("app", "tier")), max_size=1)
# Most selectors in the world are this plain; without them rules would hardly ever meet.
_PLAIN = [LabelSelector(match_labels={key: value}) for key in ("app", "tier") for value in ("a", "b")]
pod_terms = st.builds(
    PodAffinityTerm,
    label_selector=st.sampled_from(_PLAIN) | st.none() | pod_selectors,
    namespaces=st.lists(st.sampled_from(NAMESPACES), max_size=1),
    namespace_selector=st.none()
    | st.builds(LabelSelector, match_labels=st.dictionaries(st.just("team"), st.just("x"), max_size=1)),
    topology_key=st.sampled_from(("zone", "rack", HOSTNAME)),
    match_label_keys=_label_keys,
    mismatch_label_keys=_label_keys,
)
weighted_terms = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=pod_terms)
pod_affinities = st.none() | st.builds(
    PodAffinity, required=st.lists(pod_terms, max_size=2), preferred=st.lists(weighted_terms, max_size=2)
)
constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=st.sampled_from(("zone", "rack", HOSTNAME)),
    when_unsatisfiable=st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
    label_selector=st.none() | pod_selectors,
    min_domains=st.none() | st.integers(1, 4),
    node_affinity_policy=st.sampled_from(("Honor", "Ignore")),
    node_taints_policy=st.sampled_from(("Honor", "Ignore")),
    match_label_keys=_label_keys,
)
ports = st.builds(
    ContainerPort,
    host_port=st.sampled_from((0, 80, 81)),
    host_ip=st.sampled_from(("", "0.0.0.0", "10.0.0.1", "10.0.0.2")),
    protocol=st.sampled_from(("TCP", "UDP")),
)
_TERMINATING = datetime(2026, 1, 1, tzinfo=UTC)


def affinities(*, pods: bool) -> st.SearchStrategy[Affinity | None]:
    if pods:
        return st.builds(Affinity, pod_affinity=pod_affinities, pod_anti_affinity=pod_affinities)
    return st.none() | st.builds(Affinity, node_affinity=node_affinities)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """One to five nodes, some without labels."""
    count = draw(st.integers(1, 5))
    return [_node(draw, f"n{number}") for number in range(count)]


def _node(draw: st.DrawFn, name: str) -> Node:
    labels = draw(st.dictionaries(st.sampled_from(("zone", "rack", "size")), st.sampled_from(_VALUES), max_size=3))
    if draw(st.booleans()):
        labels[HOSTNAME] = name
    amounts = {"cpu": Quantity("64"), "memory": Quantity("64Gi"), "pods": Quantity("100")}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=draw(st.lists(taints, max_size=2))),
        status=NodeStatus(allocatable=amounts),
    )


@st.composite
def pods(draw: st.DrawFn, name: str, *, node: str = "", about: str = "") -> Pod:
    """A pod with rules about nodes and about other pods: "ports", "affinity" or "spread"; on a node it runs."""
    held = draw(st.lists(ports, max_size=2)) if about == "ports" else []
    main, sidecar = Container(name="main", ports=held), Container(name="main")
    if about == "ports" and draw(st.booleans()):
        restart = draw(st.sampled_from(("", "Always")))
        main, sidecar = Container(name="main"), Container(name="side", ports=held, restart_policy=restart)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=draw(st.sampled_from(NAMESPACES)),
            labels=draw(pod_labels),
            deletion_timestamp=_TERMINATING if node and draw(st.booleans()) else None,
        ),
        spec=PodSpec(
            containers=[main],
            init_containers=[sidecar] if about == "ports" else [],
            node_name=node,
            node_selector=draw(st.dictionaries(st.just("zone"), st.sampled_from(("a", "b")), max_size=1)),
            affinity=draw(affinities(pods=about == "affinity")),
            tolerations=draw(st.lists(tolerations, max_size=2)),
            topology_spread_constraints=draw(st.lists(constraints, max_size=2)) if about == "spread" else (),
        ),
        status=PodStatus(phase="Running" if node else "Pending"),
    )


def namespaces() -> list[Namespace]:
    """Only one of the namespaces has an object, and a label."""
    return [Namespace(metadata=ObjectMeta(name="other", labels={"team": "x"}))]
