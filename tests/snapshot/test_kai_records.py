"""KAI's queues and PodGroups become the same records as Volcano's, in base units."""

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api import (
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    ObjectMeta,
    PriorityClass,
    Queue,
    Topology,
    UserError,
    decode,
)
from muster.api.names import (
    KAI_OLD_QUEUE,
    KAI_QUEUE,
    KAI_STALE_STAMP,
    KAI_START_STAMP,
    KAI_SUBGROUP,
    PREEMPT_MIN_RUNTIME,
    RECLAIM_MIN_RUNTIME,
    STALE_GRACE,
    START_STAMP,
)
from muster.snapshot import UNLIMITED, GroupConstraint, JobRecord, Mirror, QueueRecord
from muster.snapshot.kai_records import job_from_kai, queue_from_kai
from muster.snapshot.records import job_from_group, job_from_pod, queue_from_volcano, read_stamp, stamp_text
from tests.snapshot.objects import group, node, pod

GPU = "nvidia.com/gpu"
NEW_YEAR = 1767225600.0


def kai(kind: str, name: str, spec: dict[str, Any], **meta: Any) -> KubeObject:
    version = "scheduling.run.ai/v2" if kind == "Queue" else "scheduling.run.ai/v2alpha2"
    return decode({"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec})


def kai_queue(name: str = "q", **spec: Any) -> KaiQueue:
    made = kai("Queue", name, spec)
    assert isinstance(made, KaiQueue)
    return made


def kai_group(name: str = "g", *, annotations: dict[str, str] | None = None, **spec: Any) -> KaiPodGroup:
    made = kai("PodGroup", name, spec, namespace="ns", annotations=annotations or {})
    assert isinstance(made, KaiPodGroup)
    return made


def queue_record(**spec: Any) -> QueueRecord:
    return queue_from_kai(kai_queue(**spec))


def job_record(**spec: Any) -> JobRecord:
    return job_from_kai(kai_group(**spec))


# -- queues ------------------------------------------------------------------------------------------------


def test_quotas_limits_and_weights_in_base_units() -> None:
    found = queue_record(
        parentQueue="top",
        priority=7,
        resources={
            "gpu": {"quota": 0.7, "limit": 2.5, "overQuotaWeight": 1.5},
            "cpu": {"quota": 1500, "limit": 4000, "overQuotaWeight": 1},
            "memory": {"quota": 3, "limit": 10, "overQuotaWeight": 0},
        },
    )
    assert found.deserved == {GPU: 700, "cpu": 1500, "memory": 3_000_000}
    assert found.capability == {GPU: 2500, "cpu": 4000, "memory": 10_000_000}
    assert found.over_quota_weights == {GPU: 1.5, "cpu": 1.0, "memory": 0.0}
    assert (found.name, found.parent, found.priority) == ("q", "top", 7)


def test_minus_one_is_a_quota_without_end_and_no_limit() -> None:
    found = queue_record(resources={"gpu": {"quota": -1, "limit": -1}})
    assert found.deserved[GPU] == UNLIMITED
    assert GPU not in found.capability


def test_an_amount_too_large_to_count_is_without_end() -> None:
    assert queue_record(resources={"gpu": {"quota": 1e300}}).deserved[GPU] == UNLIMITED


def test_a_queue_without_resources_has_and_may_have_nothing() -> None:
    found = queue_record()
    nothing = {GPU: 0, "cpu": 0, "memory": 0}
    assert (found.deserved, found.capability) == (nothing, nothing)
    assert found.over_quota_weights == nothing
    assert found.priority == 100


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(None, None), ("0s", 0.0), ("30s", 30.0), ("1h30m", 5400.0), (90, 90.0), ("90", 90.0), (1.5, 1.5)],
)
def test_minimum_runtimes(given: str | float | None, seconds: float | None) -> None:
    spec = {} if given is None else {"preemptMinRuntime": given, "reclaimMinRuntime": given}
    found = queue_record(**spec)
    assert (found.preempt_min_runtime, found.reclaim_min_runtime) == (seconds, seconds)


@pytest.mark.parametrize("given", ["-5m", "soon", -3])
def test_a_minimum_runtime_that_makes_no_sense_is_zero_and_told(
    given: str | float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "muster.snapshot"):
        assert queue_record(reclaimMinRuntime=given).reclaim_min_runtime == 0.0
    assert "queue=q field=spec.reclaimMinRuntime" in caplog.text


def test_minimum_runtimes_of_volcano_queues_are_annotations() -> None:
    marks = {PREEMPT_MIN_RUNTIME: "2m", RECLAIM_MIN_RUNTIME: "45"}
    found = queue_from_volcano(Queue(metadata=ObjectMeta(name="q", annotations=marks)))
    assert (found.preempt_min_runtime, found.reclaim_min_runtime) == (120.0, 45.0)
    plain = queue_from_volcano(Queue(metadata=ObjectMeta(name="q")))
    assert (plain.preempt_min_runtime, plain.reclaim_min_runtime) == (None, None)


# -- jobs --------------------------------------------------------------------------------------------------


def test_a_plain_pod_group() -> None:
    found = job_record(queue="q", minMember=3, priorityClassName="build")
    assert (found.id, found.queue, found.min_member, found.priority_class) == ("ns/g", "q", 3, "build")
    assert (found.min_roles, found.groups) == ({}, None)


def test_a_gang_has_at_least_one_member() -> None:
    assert job_record().min_member == 1


@pytest.mark.parametrize("labels", [{KAI_QUEUE: "q"}, {KAI_OLD_QUEUE: "q"}, {KAI_QUEUE: "q", KAI_OLD_QUEUE: "old"}])
def test_the_queue_may_be_a_label(labels: dict[str, str]) -> None:
    labelled = kai("PodGroup", "g", {}, labels=labels)
    assert isinstance(labelled, KaiPodGroup)
    assert job_from_kai(labelled).queue == "q"
    lone = pod("p")
    lone.metadata.labels = labels
    assert job_from_pod(lone).queue == "q"


@pytest.mark.parametrize(
    ("word", "preemptible"),
    [("", None), ("preemptible", True), ("non-preemptible", False), ("semi-preemptible", False)],
)
def test_preemptibility(word: str, preemptible: bool | None) -> None:
    found = job_record(preemptibility=word)
    assert (found.preemptible, found.preemptible_below) == (preemptible, 100)


def test_sub_groups_become_roles_and_their_sum_the_minimum() -> None:
    found = job_record(minMember=99, subGroups=[{"name": "a", "minMember": 2}, {"name": "b"}])
    assert (dict(found.min_roles), found.min_member) == ({"a": 2, "b": 1}, 3)
    assert found.groups is None


def test_only_sub_groups_without_children_are_roles() -> None:
    nested = [{"name": "top"}, {"name": "a", "minMember": 2, "parent": "TOP"}, {"name": "b", "minMember": 0}]
    assert dict(job_record(subGroups=nested).min_roles) == {"a": 2, "b": 0}


def test_groups_inside_groups_are_a_tree_even_where_nobody_asks_for_a_level() -> None:
    nested = [{"name": "top"}, {"name": "a", "parent": "top"}, {"name": "b"}]
    inner = GroupConstraint("top", groups=(GroupConstraint("a", roles=("a",)),))
    assert job_record(subGroups=nested).groups == GroupConstraint(groups=(inner, GroupConstraint("b", roles=("b",))))


def test_topology_levels_form_a_tree() -> None:
    rack = {"topology": "t", "requiredTopologyLevel": "rack"}
    zone = {"topology": "t", "preferredTopologyLevel": "zone"}
    found = job_record(
        topologyConstraint=zone,
        subGroups=[
            {"name": "top", "topologyConstraint": rack},
            {"name": "a", "minMember": 2, "parent": "top"},
            {"name": "b", "minMember": 1},
        ],
    )
    assert found.groups == GroupConstraint(
        topology="t",
        preferred="zone",
        groups=(
            GroupConstraint("top", "t", "rack", groups=(GroupConstraint("a", roles=("a",)),)),
            GroupConstraint("b", roles=("b",)),
        ),
    )


def test_a_constraint_of_the_whole_job() -> None:
    found = job_record(topologyConstraint={"topology": "t", "requiredTopologyLevel": "rack"})
    assert found.groups == GroupConstraint(topology="t", required="rack")


@pytest.mark.parametrize(
    "sub_groups",
    [
        [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
        [{"name": "a", "parent": "nobody"}],
        [{"name": "a"}, {"name": "a", "parent": "a"}],
        [{"name": ""}],
        [{"name": "0"}, *({"name": str(n), "parent": str(n - 1)} for n in range(1, 60))],
    ],
)
def test_sub_groups_that_are_no_tree_are_refused(sub_groups: list[dict[str, str]]) -> None:
    with pytest.raises(UserError, match=r"PodGroup ns/g: spec\.subGroups: expected a tree"):
        job_record(subGroups=sub_groups)


# -- stamps ------------------------------------------------------------------------------------------------


def test_stamps_are_read_back_to_the_second() -> None:
    assert stamp_text(NEW_YEAR + 0.9) == "2026-01-01T00:00:00Z"
    assert read_stamp(stamp_text(NEW_YEAR)) == NEW_YEAR


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00"])
def test_what_is_no_stamp(text: str) -> None:
    assert read_stamp(text) is None


def test_stamps_of_kai_count_where_muster_has_none() -> None:
    marks = {KAI_START_STAMP: "2026-01-01T01:00:00+01:00", KAI_STALE_STAMP: "2026-01-01T00:00:10Z"}
    found = job_from_kai(kai_group(annotations=marks))
    assert (found.started, found.stale_since) == (NEW_YEAR, NEW_YEAR + 10)
    newer = job_from_kai(kai_group(annotations={**marks, START_STAMP: "2026-01-01T00:01:00Z"}))
    assert newer.started == NEW_YEAR + 60


def test_volcano_pod_groups_are_stamped_too() -> None:
    item = group("g", 2)
    item.metadata.annotations = {START_STAMP: "2026-01-01T00:00:00Z", STALE_GRACE: "2m"}
    found = job_from_group(item)
    assert (found.started, found.stale_since, found.stale_grace) == (NEW_YEAR, None, 120.0)


def test_the_grace_of_a_broken_gang() -> None:
    assert job_record(stalenessGracePeriod="-1s").stale_grace == -1.0
    assert job_from_kai(kai_group(annotations={STALE_GRACE: "90"}, stalenessGracePeriod="5m")).stale_grace == 90.0
    assert job_record().stale_grace is None


# -- the mirror --------------------------------------------------------------------------------------------


def mirror_of(*objects: KubeObject) -> Mirror:
    mirror = Mirror()
    for item in objects:
        mirror.upsert(item)
    return mirror


def test_both_families_fill_the_same_tables() -> None:
    unlimited = {"gpu": {"quota": 2, "limit": -1}}
    mirror = mirror_of(
        node("n", gpu="4"),
        kai_queue("top", resources=unlimited),
        kai_queue("leaf", parentQueue="top", resources=unlimited),
        Queue(metadata=ObjectMeta(name="default")),
        kai_group("k", queue="leaf", minMember=2),
        pod("k-0", "k", on="n", phase="Running", gpu="1"),
        group("v", 1),
    )
    snapshot = mirror.snapshot()
    queues, jobs = snapshot.queues, snapshot.jobs
    assert [record.name for record in queues.records] == ["default", "leaf", "top"]
    assert queues.leaves().tolist() == [True, True, False]
    top, gpu = queues.index["top"], snapshot.axis.index[GPU]
    assert queues.tree_allocated[top, gpu] == 1000
    assert sorted(jobs.index) == ["ns/k", "ns/v"]
    assert queues.records[jobs.queue[jobs.index["ns/k"]]].name == "leaf"


def test_quotas_alone_bring_a_resource_onto_the_axis() -> None:
    assert GPU in mirror_of(kai_queue(resources={"gpu": {"quota": 1}})).snapshot().axis.names


def test_pod_sets_are_counted_by_the_label_of_kai() -> None:
    worker = pod("g-0", "g", on="n", phase="Running")
    worker.metadata.labels = {KAI_SUBGROUP: "workers"}
    mirror = mirror_of(node("n"), kai_group(subGroups=[{"name": "workers", "minMember": 2}]), worker)
    snapshot = mirror.snapshot()
    (role,) = snapshot.jobs.roles[snapshot.jobs.index["ns/g"]]
    assert (snapshot.roles.names[role], snapshot.roles.minimum[role]) == ("workers", 2)
    assert snapshot.roles.counts[role].sum() == 1


@pytest.mark.parametrize(
    ("name", "priority", "preemptible"),
    [
        ("", 50, True),
        ("train", 50, True),
        ("interactive-preemptible", 75, True),
        ("build-preemptible", 75, True),
        ("build", 100, False),
        ("inference", 125, False),
        ("unheard-of", 50, True),
    ],
)
def test_the_classes_of_kai_hold_without_objects(name: str, priority: int, preemptible: bool) -> None:
    jobs = mirror_of(kai_group(priorityClassName=name)).snapshot().jobs
    assert (int(jobs.priority[0]), bool(jobs.preemptible[0])) == (priority, preemptible)


def test_priority_classes_of_the_cluster_win() -> None:
    classes = [
        PriorityClass(metadata=ObjectMeta(name="train"), value=80),
        PriorityClass(metadata=ObjectMeta(name="usual"), value=110, global_default=True),
    ]
    jobs = mirror_of(*classes, kai_group("a", priorityClassName="train"), kai_group("b")).snapshot().jobs
    assert [int(jobs.priority[jobs.index[job]]) for job in ("ns/a", "ns/b")] == [80, 110]


def test_names_of_kai_mean_nothing_to_volcano_jobs() -> None:
    jobs = mirror_of(group("g", 1, priority_class_name="inference")).snapshot().jobs
    assert int(jobs.priority[0]) == 0


def _made(thing: KubeObject, year: int) -> KubeObject:
    made = msgspec.structs.replace(thing.metadata, creation_timestamp=datetime(year, 1, 1, tzinfo=UTC))
    return msgspec.structs.replace(thing, metadata=made)


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (Queue(metadata=ObjectMeta(name="q")), kai_queue(), "scheduling.volcano.sh/v1beta1"),
        (kai_queue(), Queue(metadata=ObjectMeta(name="q")), "scheduling.run.ai/v2"),
        (group("g", 1), kai_group(), "scheduling.volcano.sh/v1beta1"),
        (kai_group(), group("g", 1), "scheduling.run.ai/v2alpha2"),
    ],
)
def test_a_name_belongs_to_the_family_that_came_first(first: KubeObject, second: KubeObject, named: str) -> None:
    first, second = _made(first, 2025), _made(second, 2026)
    mirror = mirror_of(first)
    with pytest.raises(UserError, match=f"{second.api_version}: there is a {first.kind} of {named}"):
        mirror.upsert(second)
    mirror.delete(second)  # was never in
    snapshot = mirror.snapshot()
    queues = [record.source for record in snapshot.queues.records]
    jobs = [record.source for record in snapshot.jobs.records]
    assert queues + jobs == [first]
    mirror.delete(first)
    mirror.upsert(second)


def test_a_pod_group_of_kai_that_is_gone_leaves_its_pods_waiting_for_one() -> None:
    item = kai_group()
    mirror = mirror_of(item, pod("g-0", "g"))
    mirror.delete(item)
    jobs = mirror.snapshot().jobs
    assert not jobs.has_group[jobs.index["ns/g"]]


def test_topologies_are_kept_for_plugins() -> None:
    levels = {"levels": [{"nodeLabel": "rack"}]}
    made = decode(
        {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}, "spec": levels}
    )
    mirror = Mirror()
    before = mirror.placement_revision
    mirror.upsert(made)
    assert mirror.placement_revision > before
    found = mirror.snapshot().objects["Topology"]["t"]
    assert isinstance(found, Topology)
    assert [level.node_label for level in found.spec.levels] == ["rack"]
