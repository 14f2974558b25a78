"""Each change does what it says, and what cannot be changed is said with what would be right."""

from pathlib import Path

import pytest

from muster.api import KubeObject, UserError, load_files, load_text
from muster.api.objects.meta import OwnerReference
from muster.framework import find_config
from muster.testing import gang, node, priority_class, queue
from muster.testing import pod as make_pod
from muster.whatif import (
    AddNodes,
    Change,
    Comparison,
    Delete,
    Difference,
    Drain,
    Options,
    Outcome,
    SetPriority,
    SetQueue,
    Submit,
    read_flags,
    what_if,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "whatif"
JOB = EXAMPLE / "job.yaml"


def _ask(*changes: Change, options: Options | None = None) -> Comparison:
    return what_if(load_files([EXAMPLE / "cluster.yaml"]), changes, options)


def _of(found: Comparison, job: str) -> tuple[Difference, Outcome | None, float | None]:
    known = found.of(job)
    assert known is not None
    fate = known.within
    return known.difference, None if fate is None else fate.outcome, None if fate is None else fate.starts_s


def test_without_changes_the_gang_that_waits_starts_when_the_other_ends() -> None:
    found = _ask().of("research/tune")
    assert found is not None
    assert found.without is not None
    assert (found.without.outcome, found.without.starts_s) == (Outcome.STARTS, 3600.0)
    assert found.without.basis is not None
    assert found.without.basis.to_json() == {"jobs": {"said": 1, "deadline": 0, "record": 0}, "factor": 1.0}


def test_more_nodes_let_it_start_now() -> None:
    found = _ask(AddNodes(2, "gpu-1"))
    assert _of(found, "research/tune") == (Difference.EARLIER, Outcome.STARTS, 0.0)
    assert found.within.gpus == found.without.gpus + 16


def test_one_node_more_is_not_enough() -> None:
    assert _of(_ask(AddNodes(1, "gpu-1")), "research/tune")[2] == 3600.0


def test_nodes_of_a_file_are_added(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: big}, status: {allocatable: {cpu: '64', nvidia.com/gpu: '16'}}}"
    )
    found = _ask(*(flag.change for flag in read_flags([("--add-nodes", f"2x{file}")])))
    assert found.within.gpus == 24 + 32
    assert _of(found, "research/tune")[2] == 0.0


def test_a_drained_node_takes_nobody_and_its_pods_go_elsewhere() -> None:
    found = _ask(Drain("gpu-3"))
    difference, outcome, starts = _of(found, "product/serve")
    assert (difference, outcome, starts) == (Difference.EVICTED, Outcome.RESTARTS, 3600.0)
    fate = found.of("product/serve")
    assert fate is not None
    assert fate.within is not None
    # Four GPUs since 08:00, and it is 09:00.
    assert fate.within.lost_gpu_s == 4 * 3600
    assert "gpu-3" not in fate.within.nodes


def test_pods_of_a_node_itself_stay_when_it_is_drained() -> None:
    daemon = make_pod("agent", node="n1", gpu=1)
    daemon.metadata.owner_references = [OwnerReference(kind="DaemonSet", name="agent", uid="d")]
    found = what_if([node("n1", gpu=8), node("n2", gpu=8), daemon], [Drain("n1")])
    assert found.within.evicted_pods == 0


def test_a_pod_that_nobody_owns_does_not_come_back_and_that_is_said() -> None:
    found = what_if([node("n1", gpu=8), make_pod("lone", node="n1", gpu=1)], [Drain("n1")])
    assert found.notes == ("Pod default/lone on node n1 has no owner: nobody would make it anew",)
    assert _of(found, "default/pod/lone")[:2] == (Difference.GONE, Outcome.EVICTED)


def test_a_submitted_gang_takes_back_what_its_queue_was_promised_and_the_cost_is_told() -> None:
    found = _ask(Submit(tuple(load_files([JOB]).objects)))
    assert _of(found, "product/launch")[:2] == (Difference.NEW, Outcome.STARTS)
    fate = found.of("research/train")
    assert fate is not None
    assert fate.within is not None
    (eviction,) = fate.within.evictions
    assert (eviction.beneficiary, eviction.action, eviction.breaks) == ("product/launch", "gangreclaim", True)
    assert eviction.lost_gpu_s == 16 * 3600
    assert found.within.lost_gpu_s == 16 * 3600
    assert found.without.lost_gpu_s == 0


def test_a_submitted_job_of_volcano_gets_its_pods() -> None:
    job = load_text(
        """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: many, namespace: default}
spec:
  minAvailable: 2
  tasks:
  - name: w
    replicas: 2
    template: {spec: {containers: [{name: m, image: i, resources: {requests: {nvidia.com/gpu: "1"}}}]}}
"""
    ).objects
    found = what_if([node("n1", gpu=8)], [Submit(tuple(job))])
    (new,) = found.differences
    assert new.difference is Difference.NEW
    assert new.within is not None
    assert (new.within.outcome, new.within.placed) == (Outcome.STARTS, 2)


def test_a_deleted_job_makes_room() -> None:
    found = _ask(Delete("train"))
    assert _of(found, "research/tune")[:2] == (Difference.EARLIER, Outcome.STARTS)
    assert _of(found, "research/train")[0] is Difference.GONE


@pytest.mark.parametrize("priority", ["urgent", "500"])
def test_a_higher_priority_takes_the_place_of_others(priority: str) -> None:
    found = _ask(SetPriority("research/tune", priority))
    assert _of(found, "research/train")[:2] == (Difference.EVICTED, Outcome.EVICTED)
    assert _of(found, "research/tune")[0] is Difference.EARLIER


def _two_queues() -> list[KubeObject]:
    """A queue that borrows everything, and one whose gang waits."""
    made: list[KubeObject] = [node("n1", gpu=8), queue("a", deserved={"gpu": 8}), queue("b")]
    made += [make_pod(f"old-{k}", node="n1", gpu=1, group="old") for k in range(8)]
    made += [gang("old", 0, minimum=8, queue="a")[0], *gang("young", 4, gpu=1, queue="b")]
    return made


@pytest.mark.parametrize("change", [SetQueue("b", "quota", "4"), SetQueue("b", "quota", "4", "nvidia.com/gpu")])
def test_a_quota_lets_a_queue_take_back(change: SetQueue) -> None:
    lowered = SetQueue("a", "quota", "4")
    found = what_if(_two_queues(), [change, lowered])
    assert _of(found, "default/young")[:2] == (Difference.STARTS, Outcome.STARTS)


def test_a_limit_keeps_a_gang_waiting() -> None:
    objects = [node("n1", gpu=8), queue("a"), *gang("g", 4, gpu=1, queue="a")]
    found = what_if(objects, [SetQueue("a", "limit", "2")])
    assert _of(found, "default/g")[:2] == (Difference.WAITS, Outcome.WAITS)


KAI_QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec:
  resources:
    gpu: {quota: 8, limit: -1, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1}
    memory: {quota: -1, limit: -1}
"""


def test_queues_of_kai_have_the_same_words() -> None:
    objects = [*load_text(KAI_QUEUE).objects, node("n1", gpu=8), *gang("g", 4, gpu=1, queue="team")]
    options = Options(config=find_config("kai"))
    assert not what_if(objects, [SetQueue("team", "quota", "4")], options).differences
    found = what_if(objects, [SetQueue("team", "limit", "2")], options)
    assert _of(found, "default/g")[:2] == (Difference.WAITS, Outcome.WAITS)
    with pytest.raises(UserError, match="queues of KAI know gpu, cpu and memory"):
        what_if(objects, [SetQueue("team", "limit", "2", "example.com/dpu")], options)


def test_another_configuration_is_a_change() -> None:
    (flag,) = read_flags([("--config", "volcano")])
    found = what_if(_two_queues(), [SetQueue("b", "quota", "4"), flag], Options())
    assert found.changes == ("quota 4 for queue b", "configuration volcano")


@pytest.mark.parametrize(
    ("flag", "value", "error"),
    [
        ("--drain", "n1", '--drain n1: there is no node "n1"; nodes: gpu-1, gpu-2, gpu-3'),
        ("--drain", "gpu1", '--drain gpu1: there is no node "gpu1"; did you mean "gpu-1"?'),
        ("--add-nodes", "2xcpu", '--add-nodes 2xcpu: there is no node "cpu"; nodes: gpu-1, gpu-2, gpu-3'),
        ("--add-nodes", "0xgpu-1", "--add-nodes 0xgpu-1: expected so many nodes like one that is there"),
        ("--delete", "tran", "--delete tran: there is no job 'tran'; did you mean research/train or research/tune?"),
        (
            "--queue",
            "resarch.quota=4",
            '--queue resarch.quota=4: there is no queue "resarch"; did you mean "research"?',
        ),
        ("--queue", "research.qota=4", 'a queue has no "qota" to change; did you mean "quota"?'),
        ("--queue", "research", "expected QUEUE.FIELD=VALUE"),
        ("--queue", "research.weight=x", 'weight: expected a whole number from 1 on, got "x"'),
        ("--queue", "research.quota=-4", "expected an amount of zero or more"),
        (
            "--queue",
            "research.quota.nvidia.com/gpus=4",
            'no node has "nvidia.com/gpus"; did you mean "nvidia.com/gpu"?',
        ),
        ("--priority", "train=urgnt", 'got "urgnt", which is neither; did you mean "urgent"?'),
        ("--priority", "train", "expected JOB=CLASS or JOB=NUMBER"),
        ("--priority", "train=99999999999", "expected a number of 32 bits"),
        ("--submit", "nothing.yaml", "--submit nothing.yaml: nothing.yaml: cannot read the file"),
        ("--config", "kia", "--config kia: "),
    ],
)
def test_errors_name_the_flag_the_thing_and_what_would_be_right(flag: str, value: str, error: str) -> None:
    with pytest.raises(UserError) as caught:
        what_if(load_files([EXAMPLE / "cluster.yaml"]), read_flags([(flag, value)]))
    assert error in str(caught.value)


def test_what_is_there_already_cannot_be_submitted() -> None:
    with pytest.raises(UserError, match="exists already"):
        _ask(Submit(tuple(load_files([EXAMPLE / "cluster.yaml"]).objects[:1])))


def test_a_queue_with_several_resources_has_to_hear_which_one() -> None:
    objects = [node("n1", gpu=8), queue("a", deserved={"gpu": 4, "cpu": 8}), priority_class("p", 1)]
    with pytest.raises(UserError, match=r"say which resource is meant, one of cpu, nvidia.com/gpu: a.quota.cpu=2"):
        what_if(objects, [SetQueue("a", "quota", "2")])
    assert what_if(objects, [SetQueue("a", "quota", "2", "gpu")]).changes == ("quota of gpu 2 for queue a",)
