"""One dominant reason per situation, with the numbers behind it."""

from dataclasses import replace

from muster.explain import JobState, explain_job, explanation_lines, find_job, headline
from muster.framework.profiles import profile
from tests.explain.clusters import PEACEFUL, explain, gang, group, node, pod, queue, run

WRONG_QUEUE = """
- at: 1m
  add:
  - apiVersion: v1
    kind: Pod
    metadata: {name: lost, namespace: team, annotations: {scheduling.volcano.sh/queue-name: top}}
    spec: {containers: [{name: main, resources: {requests: {nvidia.com/gpu: 1}}}]}
"""


def test_a_gang_that_runs_is_shown_with_its_nodes() -> None:
    found = explain("train", node("n1"), *gang("train", 2, 4))
    assert found.state is JobState.RUNNING
    assert [(p.pod, p.node, p.status) for p in found.placements] == [
        ("team/train-0", "n1", "Running"),
        ("team/train-1", "n1", "Running"),
    ]
    assert headline(found).startswith("team/train runs on n1 for ")
    assert (found.code, found.advice, found.groups) == ("", (), ())


def test_a_job_whose_pods_are_done_has_finished() -> None:
    done = pod("once", 1, notes='muster.sh/run-seconds: "5"')
    found = explain("once", node("n1"), done)
    assert found.state is JobState.FINISHED
    assert headline(found) == "team/pod/once has finished: 1 succeeded"


def test_room_in_pieces_is_told_from_room_in_total() -> None:
    held = [pod(f"held-{n}", 5, on=n) for n in ("n1", "n2")]
    found = explain("train", node("n1"), node("n2"), *held, *gang("train", 1, 4))
    gpu = next(need for need in found.needs if need.resource == "nvidia.com/gpu")
    assert (found.code, gpu.needed, gpu.free, gpu.missing) == ("insufficient-resources", 4000, 6000, 0)
    assert found.closest is not None
    assert (found.closest.name, found.closest.lacks) == ("n1", {"nvidia.com/gpu": 1000})
    assert headline(found) == "team/train waits: no node has room for 1 of 1 pod"


def test_part_of_a_gang_counts_how_many_fit() -> None:
    found = explain("train", node("n1"), *gang("train", 3, 4))
    assert (found.still_needed, found.placed) == (3, 2)
    assert headline(found) == "team/train waits: no node has room for 1 of 3 pods"
    assert "lower minMember from 3 to 2: that many fit now" in found.advice


def test_a_selector_that_matches_nothing_is_the_reason_not_the_lack_of_room() -> None:
    chosen = pod("picky", 1, extra="  nodeSelector: {disk: ssd}\n")
    found = explain("picky", node("n1"), node("n2", labels="disk: hdd"), chosen)
    assert found.code == "node-selector"
    assert found.node_counts == {"node-selector": 2}
    assert dict(found.selector) == {"disk": "ssd"}
    assert found.advice == ("label the nodes, or change the node selector (2 nodes)",)


def test_a_pod_larger_than_every_node_is_told_the_largest() -> None:
    found = explain("huge", node("n1"), node("n2", gpus=4), pod("huge", 16))
    assert found.code == "node-too-small"
    assert found.advice == (
        "ask for less per pod: it wants 16 GPUs, and no node where it may run has more than 8 GPUs",
    )


def test_nodes_are_grouped_by_size_and_reason() -> None:
    nodes = [node("a1"), node("a2"), node("b1", gpus=2), node("c1", gpus=0)]
    found = explain("train", *nodes, pod("x", 8, on="a1"), pod("y", 8, on="a2"), *gang("train", 1, 4))
    assert [(g.code, g.nodes, g.examples) for g in found.groups] == [
        ("insufficient-resources", 2, ("a1", "a2")),
        ("node-too-small", 1, ("b1",)),
        ("node-too-small", 1, ("c1",)),
    ]
    assert found.node_counts == {"insufficient-resources": 2, "node-too-small": 2}


def test_a_queue_at_its_capability_says_by_how_much() -> None:
    limited = queue("small", 'weight: 1, capability: {nvidia.com/gpu: "2"}')
    found = explain("train", node("n1"), limited, *gang("train", 2, 2, minimum=1, queue="small"))
    assert found.state is JobState.GROWING
    assert found.code in ("queue-limit", "queue-overused")
    assert found.queues[0].limit == {"nvidia.com/gpu": 2000}
    assert found.queues[0].allocated["nvidia.com/gpu"] == 2000
    assert found.advice[0].startswith("raise the capability of queue small by 2 GPUs (now 2 GPUs)")


def test_what_a_queue_deserves_is_shown() -> None:
    queues = [queue("a", "weight: 1"), queue("b", "weight: 1")]
    jobs = [*gang("one", 8, 1, minimum=1, queue="a"), *gang("two", 8, 1, minimum=1, queue="b")]
    found = explain("one", node("n1"), *queues, *jobs)
    assert (found.queues[0].name, found.queues[0].fair_share["nvidia.com/gpu"]) == ("a", 4000)
    assert "a has a fair share of 4 GPUs and holds 4 GPUs; one more pod asks for 1 GPU" in headline(found)
    assert found.advice == ("wait until jobs of queue a have finished, or other queues ask for less",)
    by_weight = explain("one", node("n1"), *queues, *jobs, config=profile("volcano"))
    assert by_weight.queues[0].deserved["nvidia.com/gpu"] == 4000
    assert "a deserves 4 GPUs and holds 4 GPUs; one more pod asks for 1 GPU" in headline(by_weight)


def test_a_share_that_nobody_disputes_is_not_the_reason() -> None:
    picky = pod("picky", 8, extra="  nodeSelector: {disk: ssd}\n")
    found = explain("one", node("n1"), queue("a"), picky, *gang("one", 10, 1, minimum=1, queue="a"))
    assert found.queues[0].fair_share["nvidia.com/gpu"] < 8000
    assert headline(found) == "team/one runs with 8 pods; 2 more pods wait: no node has room for 2 of 2 pods"
    assert "add 1 node like n1 (8 GPUs, 64 CPUs and 256Gi memory)" in found.advice


def test_a_quota_is_told_from_a_share() -> None:
    promised = queue("a", 'weight: 1, deserved: {nvidia.com/gpu: "2"}')
    found = explain("one", node("n1"), promised, *gang("one", 10, 1, minimum=1, queue="a"))
    assert "queue     a (weight 1) holds 8 GPUs, has a quota of 2 GPUs, has a fair share of 8 GPUs" in "\n".join(
        explanation_lines(found)
    )


def test_a_gang_that_may_not_be_evicted_and_has_no_quota_left_says_so() -> None:
    promised = queue("a", 'weight: 1, deserved: {nvidia.com/gpu: "2"}')
    members = [pod(f"firm-{i}", group="firm", notes='volcano.sh/preemptable: "false"') for i in range(4)]
    found = explain("firm", node("n1"), promised, group("firm", 4, "a"), *members)
    assert found.code == "over-quota"
    assert (found.needs[-1].needed, found.needs[-1].free) == (4000, 8000)
    assert found.advice == ("raise the queue's quota, or make the job preemptible",)


def test_a_gang_in_a_queue_with_queues_below_it_makes_nobody_leave() -> None:
    queues = [queue("top"), queue("leaf", "parent: top"), queue("other")]
    result = run(node("n1"), *queues, *gang("many", 8, 1, minimum=1, queue="other"), later=WRONG_QUEUE)
    session = result.last_session
    assert session is not None
    assert explain_job(session, find_job(session.snapshot, "lost")).code == "queue-not-a-leaf"
    assert not [entry for entry in result.to_json()["decisions"] if entry["kind"] == "evict"]


def test_a_gang_of_which_too_few_pods_are_free_of_gates_says_so() -> None:
    gate = "  schedulingGates: [{name: example.com/wait}]\n"
    members = [pod(f"train-{i}", group="train", extra=gate if i else "") for i in range(2)]
    found = explain("train", node("n1"), group("train", 2), *members)
    assert (found.code, found.advice) == ("gated", ("remove the gates",))


def test_a_gang_that_waits_for_others_to_leave_is_promised_its_nodes() -> None:
    held = [pod(f"held-{n}", 4, group=f"held-{n}", on=n) for n in ("n1", "n2")]
    groups = [group(f"held-{n}", 1) for n in ("n1", "n2")]
    documents = (node("n1"), node("n2"), *groups, *held, *gang("whole", 1, 8))
    found = explain("whole", *documents, cycles=2)
    assert (found.code, found.state) == ("promised", JobState.WAITING)
    assert run(*documents, cycles=2).jobs["team/whole"].reason.startswith("promised: ")
    assert found.advice == ("wait for the pods to leave",)


def test_a_queue_that_does_not_exist() -> None:
    found = explain("train", node("n1"), *gang("train", 1, 1, queue="nowhere"))
    assert (found.code, found.queues, found.groups) == ("queue-missing", (), ())
    assert "create the queue or name another one" in found.advice


def test_pods_whose_group_does_not_exist() -> None:
    found = explain("ghost", node("n1"), pod("ghost-0", 1, group="ghost"))
    assert found.code == "podgroup-missing"


def test_a_group_with_too_few_pods() -> None:
    found = explain("train", node("n1"), group("train", 3), pod("train-0", 1, group="train"))
    assert found.code == "too-few-pods"
    assert found.groups == ()


def test_a_group_without_pods_can_be_explained_too() -> None:
    found = explain("train", node("n1"), group("train", 3))
    assert found.state is JobState.WAITING
    assert (found.task, found.request) == ("", {})


def test_gates_are_the_reason_before_anything_else_is_looked_at() -> None:
    gated = pod("gated", 1, extra="  schedulingGates: [{name: example.com/wait}]\n")
    found = explain("gated", node("n1"), gated)
    assert found.code == "gated"
    assert found.advice == ("remove the gates",)


def test_a_cluster_without_nodes() -> None:
    found = explain("train", *gang("train", 1, 1))
    assert found.state is JobState.WAITING
    assert found.n_nodes == 0
    assert "add a node" in found.advice


def test_roles_are_counted() -> None:
    roles = group("mixed", 2, extra=", minTaskMember: {leader: 1, worker: 1}")
    members = [
        pod("mixed-leader-0", 1, group="mixed", notes="volcano.sh/task-spec: leader"),
        pod("mixed-worker-0", 16, group="mixed", notes="volcano.sh/task-spec: worker"),
    ]
    found = explain("mixed", node("n1"), roles, *members)
    assert [(role.name, role.minimum, role.ready) for role in found.roles] == [("leader", 1, 0), ("worker", 1, 0)]
    assert found.task == "team/mixed-worker-0"
    assert found.code == "node-too-small"


def test_holders_are_only_those_who_are_in_the_way() -> None:
    labelled = node("n1", labels="pool: a")
    jobs = [pod("here", 8, on="n1"), pod("elsewhere", 8, on="n2")]
    wants = pod("wants", 4, extra="  nodeSelector: {pool: a}\n")
    found = explain("wants", labelled, node("n2"), *jobs, wants)
    assert [(holder.job, holder.amount) for holder in found.holders] == [("team/pod/here", 8000)]
    assert found.advice[0] == "wait for team/pod/here to finish: then it fits"


def test_explaining_twice_gives_the_same_and_changes_nothing() -> None:
    documents = (node("n1"), node("n2", gpus=2), *gang("train", 3, 4), *gang("other", 2, 2))
    assert explain("train", *documents) == explain("train", *documents)


def test_a_resource_that_no_node_has_is_called_that() -> None:
    found = explain("train", node("n1", gpus=0), node("n2", gpus=0), pod("train", 1))
    assert headline(found) == "team/pod/train waits: no node has nvidia.com/gpu"
    assert (found.code, found.advice) == ("no-such-resource", ("add nodes that have nvidia.com/gpu",))
    misspelt = pod("typo", 0).replace('cpu: "1"', 'cpu: "1", nvidia.com/gpus: "1"')
    assert explain("typo", node("n1"), misspelt).advice == ("ask for nvidia.com/gpu, which nodes have",)


def test_pods_that_ask_for_nothing_say_what_refuses_them() -> None:
    nothing = pod("idle", 0, extra="  nodeSelector: {disk: ssd}\n").replace('{cpu: "1"}', "{}")
    for name in ("muster", "volcano", "kai"):
        assert explain("idle", node("n1"), nothing, config=profile(name)).code == "node-selector"
    free = pod("idle", 0).replace('{cpu: "1"}', "{}")
    alone = replace(profile("volcano"), actions=("enqueue", "allocate"))
    found = explain("idle", node("n1"), free, config=alone)
    assert (found.code, found.groups) == ("no-backfill", ())


def test_a_group_without_pods_and_without_a_minimum_says_that_it_has_none() -> None:
    result = run(node("n1"), group("train", 0), config=profile("volcano"))
    assert result.jobs["team/train"].reason == "no-pods: it has no pods yet"


def test_room_that_is_promised_to_others_is_not_said_to_be_free() -> None:
    """The verdict of a job that finds its node kept for another must not say that it fits there."""
    promised = pod("first-0", 4, group="first") + "status: {phase: Pending, nominatedNodeName: n1}\n"
    objects = [node("n1", gpus=4), group("first", 2), promised, pod("first-1", 4, group="first"), pod("second", 4)]
    assert run(*objects, cycles=1, config=PEACEFUL).jobs["team/pod/second"].reason == (
        "insufficient-resources: no node has room for 1 of 1 pod"
    )


def test_of_a_gang_of_several_kinds_the_one_without_room_is_told_of() -> None:
    """The cycle names the head, which fits; what keeps the gang out are its workers."""

    def member(name: str, role: str, gpus: int) -> str:
        return pod(f"ray-{name}", gpus, group="ray", notes=f"volcano.sh/task-spec: {role}")

    members = [member("head", "head", 0), member("worker-0", "worker", 8), member("worker-1", "worker", 8)]
    held = [pod(f"held-{name}", 8, on=name) for name in ("n1", "n2")]
    ray = group("ray", 3, extra=", minTaskMember: {head: 1, worker: 2}, networkTopology: {mode: soft}")
    found = explain("ray", node("n1"), node("n2"), *held, ray, *members)
    assert (found.code, found.task) == ("topology", "team/ray-worker-0")
    assert found.detail == "3 tasks are needed together; the whole cluster comes closest with room for 1"
    assert found.node_counts == {"insufficient-resources": 2}
    assert found.closest is not None
    assert found.closest.lacks == {"nvidia.com/gpu": 8000}


def test_a_quota_without_end_is_no_amount() -> None:
    endless = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: a}
spec: {resources: {gpu: {quota: -1, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1, overQuotaWeight: 1}}}
"""
    waits = pod("waits", 16, extra="  schedulerName: kai-scheduler\n")
    waits = waits.replace("metadata: {", "metadata: {labels: {kai.scheduler/queue: a}, ")
    found = explain("waits", node("n1"), endless, waits, config=profile("kai"))
    assert found.queues[0].deserved == {}
    assert "2305843009213693952" not in str(found.to_json())


def test_what_most_nodes_are_short_of_is_what_is_looked_for() -> None:
    """In all there is enough of everything; the closest node lacks a CPU, most lack a GPU."""
    nodes = [node("a", cpus=1), node("b"), node("c")]
    held = [pod("cpu", 0, on="a"), pod("one", 8, on="b"), pod("two", 8, on="c")]
    found = explain("train", *nodes, *held, *gang("train", 1, 1))
    assert not any(need.missing for need in found.needs)
    assert found.closest is not None
    assert found.closest.lacks == {"cpu": 1000}
    assert list(found.short_of.items()) == [("nvidia.com/gpu", 2), ("cpu", 1)]
    assert [(holder.job, holder.resource) for holder in found.holders] == [
        ("team/pod/one", "nvidia.com/gpu"),
        ("team/pod/two", "nvidia.com/gpu"),
    ]
