from muster.api import KubeObject, Node, OwnerReference, PersistentVolumeClaim, Pod, PodGroup, Queue
from muster.api.objects.claims import PersistentVolumeClaimSpec
from muster.api.objects.pod import EphemeralVolumeSource, PersistentVolumeClaimTemplate, Volume
from muster.cluster.memory import MemoryCluster, start_delay
from muster.snapshot.messages import Bind, Evict, JobUpdate, Nominate
from muster.testing import gang, node, pod, pod_group, queue


def cluster_of(*objects: KubeObject) -> MemoryCluster:
    cluster = MemoryCluster(objects, start=0.0, delay=lambda _: 0.5)
    cluster.poll()
    return cluster


def pod_in(cluster: MemoryCluster, name: str) -> Pod:
    found = cluster.store.get(Pod, f"default/{name}")
    assert found is not None
    return found


def bind(name: str, to: str) -> Bind:
    return Bind(f"default/{name}", to, "default/job", "test")


def evict(name: str) -> Evict:
    return Evict(f"default/{name}", "n1", "default/job", "", "test")


def test_the_first_poll_tells_everything_that_exists() -> None:
    cluster = MemoryCluster([node("n1"), pod("p")])
    events = cluster.poll()
    assert {event.kind for event in events} == {"ADDED"}
    assert [event.object.key for event in events] == ["root", "default", "n1", "default/p"]
    assert cluster.poll() == []


def test_a_queue_of_the_user_is_not_replaced() -> None:
    cluster = MemoryCluster([queue("default", weight=5)])
    kept = cluster.store.get(Queue, "default")
    assert kept is not None
    assert kept.spec.weight == 5


def test_a_bound_pod_starts_and_ends() -> None:
    cluster = cluster_of(node("n1"), pod("p", run_seconds=10))
    assert cluster.bind([bind("p", "n1")]) == []
    assert (pod_in(cluster, "p").status.phase, pod_in(cluster, "p").spec.node_name) == ("Pending", "n1")
    cluster.advance_to(0.5)
    assert pod_in(cluster, "p").status.phase == "Running"
    cluster.advance_to(10.4)
    assert pod_in(cluster, "p").status.phase == "Running"
    cluster.advance_to(10.5)
    assert pod_in(cluster, "p").status.phase == "Succeeded"
    assert [event.kind for event in cluster.poll()] == ["MODIFIED"] * 3
    assert cluster.next_event_at() is None


def test_a_pod_may_end_as_failed() -> None:
    cluster = cluster_of(node("n1"), pod("p", run_seconds=1, exit_as="failed"))
    cluster.bind([bind("p", "n1")])
    cluster.advance_to(5.0)
    assert pod_in(cluster, "p").status.phase == "Failed"


def test_a_pod_without_run_seconds_runs_for_ever() -> None:
    cluster = cluster_of(node("n1"), pod("p"))
    cluster.bind([bind("p", "n1")])
    cluster.advance_to(1.0)
    assert cluster.next_event_at() is None


def test_a_pod_that_runs_at_the_start_ends_after_its_time() -> None:
    cluster = cluster_of(node("n1"), pod("p", node="n1", run_seconds=5))
    cluster.advance_to(5.0)
    assert pod_in(cluster, "p").status.phase == "Succeeded"


def test_an_ended_pod_frees_its_room_and_stays() -> None:
    cluster = cluster_of(node("n1", gpu=1), pod("a", gpu=1, node="n1", run_seconds=5), pod("b", gpu=1))
    (refused,) = cluster.bind([bind("b", "n1")])
    assert refused.error == "node n1 lacks 1 nvidia.com/gpu"
    assert pod_in(cluster, "b").spec.node_name == ""
    cluster.advance_to(5.0)
    assert cluster.bind([bind("b", "n1")]) == []
    assert pod_in(cluster, "a").spec.node_name == "n1"


def test_binds_of_one_batch_share_the_room() -> None:
    cluster = cluster_of(node("n1", gpu=1), pod("a", gpu=1), pod("b", gpu=1))
    failures = cluster.bind([bind("a", "n1"), bind("b", "n1")])
    assert [failure.decision for failure in failures] == [bind("b", "n1")]
    assert cluster.store.used("n1") == {"nvidia.com/gpu": 1000, "pods": 1}


def test_the_pod_limit_of_a_node_holds() -> None:
    cluster = cluster_of(node("n1", pods=1), pod("a"), pod("b"))
    (refused,) = cluster.bind([bind("a", "n1"), bind("b", "n1")])
    assert refused.error == "node n1 lacks 1 pods"


def test_binding_what_is_not_there_fails_as_a_value() -> None:
    cluster = cluster_of(node("n1"), pod("a"), pod("on", node="n1"))
    errors = [failure.error for failure in cluster.bind([bind("a", "n9"), bind("x", "n1"), bind("on", "n1")])]
    assert errors == ["node n9 is gone", "the pod is gone", "the pod is on node n1 already"]


def test_an_evicted_pod_keeps_its_room_for_its_grace_period_and_is_made_anew() -> None:
    cluster = cluster_of(node("n1", gpu=8), *gang("g", 1, gpu=8))
    cluster.bind([bind("g-0", "n1")])
    cluster.advance_to(1.0)
    before = pod_in(cluster, "g-0")
    assert cluster.evict([evict("g-0")]) == []
    assert pod_in(cluster, "g-0").metadata.deletion_timestamp is not None
    assert cluster.store.used("n1")["nvidia.com/gpu"] == 8000
    cluster.advance_to(30.9)
    assert pod_in(cluster, "g-0").spec.node_name == "n1"
    cluster.advance_to(31.0)
    after = pod_in(cluster, "g-0")
    assert (after.spec.node_name, after.status.phase) == ("", "Pending")
    assert after.metadata.uid != before.metadata.uid
    assert after.metadata.deletion_timestamp is None
    assert cluster.store.used("n1") == {}


def test_evicting_twice_changes_nothing() -> None:
    cluster = cluster_of(node("n1"), pod("p", node="n1", group="g"), pod_group("g"))
    cluster.evict([evict("p")])
    cluster.poll()
    assert cluster.evict([evict("p")]) == []
    assert cluster.poll() == []


def test_a_pod_nobody_owns_is_not_made_anew() -> None:
    cluster = cluster_of(node("n1"), pod("p", node="n1", grace_seconds=0))
    cluster.evict([evict("p")])
    assert cluster.store.get(Pod, "default/p") is None


def test_an_owner_reference_counts_as_owner() -> None:
    owned = pod("p", node="n1", grace_seconds=0)
    owned.metadata.owner_references = [OwnerReference(kind="ReplicaSet", name="r")]
    cluster = cluster_of(node("n1"), owned)
    cluster.evict([evict("p")])
    assert pod_in(cluster, "p").status.phase == "Pending"


def test_a_pod_evicted_before_it_started_never_starts() -> None:
    cluster = cluster_of(node("n1"), pod_group("g"), pod("p", group="g", grace_seconds=5))
    cluster.bind([bind("p", "n1")])
    cluster.evict([evict("p")])
    cluster.advance_to(100.0)
    assert pod_in(cluster, "p").status.phase == "Pending"
    assert pod_in(cluster, "p").spec.node_name == ""


def test_pods_of_a_removed_node_are_made_anew() -> None:
    cluster = cluster_of(node("n1", gpu=8), *gang("g", 2, gpu=1))
    cluster.bind([bind("g-0", "n1"), bind("g-1", "n1")])
    cluster.advance_to(1.0)
    removed = cluster.store.get(Node, "n1")
    assert removed is not None
    cluster.delete(removed)
    assert [pod_in(cluster, name).spec.node_name for name in ("g-0", "g-1")] == ["", ""]
    assert cluster.store.used("n1") == {}


def test_a_deleted_podgroup_takes_its_pods_along() -> None:
    cluster = cluster_of(node("n1"), *gang("g", 2), pod("other"))
    cluster.bind([bind("g-0", "n1")])
    group = cluster.store.get(PodGroup, "default/g")
    assert group is not None
    cluster.delete(group)
    assert cluster.store.get(Pod, "default/g-1") is None
    cluster.advance_to(60.0)
    assert [left.name for left in cluster.store.all(Pod)] == ["other"]


def test_a_pod_that_is_leaving_when_its_podgroup_goes_is_not_made_anew() -> None:
    cluster = cluster_of(node("n1"), pod_group("g"), pod("p", group="g", node="n1"))
    cluster.evict([evict("p")])
    group = cluster.store.get(PodGroup, "default/g")
    assert group is not None
    cluster.delete(group)
    cluster.advance_to(60.0)
    assert list(cluster.store.all(Pod)) == []


def test_a_nomination_is_noted_and_cleared_by_binding() -> None:
    cluster = cluster_of(node("n1"), pod("p"))
    assert cluster.nominate([Nominate("default/p", "n1", "default/job", "test")]) == []
    assert pod_in(cluster, "p").status.nominated_node_name == "n1"
    cluster.bind([bind("p", "n1")])
    assert pod_in(cluster, "p").status.nominated_node_name == ""
    (refused,) = cluster.nominate([Nominate("default/p", "n1", "default/job", "test")])
    assert "bound already" in refused.error


def test_job_updates_are_written_and_the_condition_comes_and_goes() -> None:
    cluster = cluster_of(pod_group("g"))
    waits = JobUpdate("default/g", "Inqueue", 0, 0, 0, "gang-incomplete", "only part fits")
    assert cluster.update_jobs([waits]) == []
    group = cluster.store.get(PodGroup, "default/g")
    assert group is not None
    assert (group.status.phase, group.status.conditions[0].reason) == ("Inqueue", "NotEnoughResources")
    cluster.update_jobs([JobUpdate("default/g", "Running", 2, 1, 0)])
    group = cluster.store.get(PodGroup, "default/g")
    assert group is not None
    assert (group.status.running, group.status.succeeded, list(group.status.conditions)) == (2, 1, [])
    cluster.update_jobs([JobUpdate("default/g", "Running", 2, 1, 0, is_scheduled=True)])
    group = cluster.store.get(PodGroup, "default/g")
    assert group is not None
    assert [(known.type, known.status) for known in group.status.conditions] == [("Scheduled", "True")]
    (refused,) = cluster.update_jobs([JobUpdate("default/x", "Running", 0, 0, 0)])
    assert refused.error == "the PodGroup is gone"


def test_start_delays_are_short_and_always_the_same() -> None:
    delays = [start_delay(pod(f"p{i}")) for i in range(50)]
    assert all(0 <= delay <= 1 for delay in delays)
    assert len(set(delays)) > 40
    assert delays == [start_delay(pod(f"p{i}")) for i in range(50)]


def test_claims_of_ephemeral_volumes_come_with_the_pod_and_are_made_anew_with_it() -> None:
    worker = pod("p")
    template = PersistentVolumeClaimTemplate(spec=PersistentVolumeClaimSpec(storage_class_name="fast"))
    worker.spec.volumes = [Volume(name="scratch", ephemeral=EphemeralVolumeSource(volume_claim_template=template))]
    worker.metadata.owner_references = [OwnerReference(kind="Job", name="j")]
    cluster = cluster_of(node("n1"), worker)

    def owner() -> tuple[str | None, str]:
        made = cluster.store.get(PersistentVolumeClaim, "default/p-scratch")
        assert made is not None
        return made.spec.storage_class_name, made.metadata.owner_references[0].uid

    first = pod_in(cluster, "p").metadata.uid
    assert owner() == ("fast", first)
    cluster.bind([bind("p", "n1")])
    cluster.evict([evict("p")])
    cluster.advance_to(100.0)
    assert owner() == ("fast", pod_in(cluster, "p").metadata.uid)
    assert pod_in(cluster, "p").metadata.uid != first
