"""The examples of the document on network topology, one after the other, as an operator would try them.

The trees are the files in `examples/trees`; jobs are PodGroups as the job controller would write them.
"""

from pathlib import Path

import pytest

from muster.api import KubeObject, load_files, load_text
from muster.api.names import PREEMPTABLE
from muster.engine.constraints import Constraint
from muster.engine.domains import ROOT, gradients
from muster.simulate import SimulationResult, simulate
from muster.snapshot import NO_ROW, Mirror, Snapshot, TopologyTable
from muster.snapshot.hypernodes import ROOT as ROOT_NAME
from muster.snapshot.messages import Bind
from muster.testing import node, pod

TREES = Path(__file__).resolve().parent.parent.parent / "examples" / "trees"


def tree(name: str) -> list[KubeObject]:
    return load_files([TREES / f"{name}.yaml"]).objects


def snapshot_of(things: list[KubeObject]) -> Snapshot:
    mirror = Mirror()
    for thing in things:
        mirror.upsert(thing)
    return mirror.snapshot()


def domains_by_tier(topology: TopologyTable) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name, tier in zip(topology.names, topology.tier.tolist(), strict=True):
        found.setdefault(tier, []).append(name)
    return found


def group(name: str, minimum: int, topology: str = "", policies: str = "") -> list[KubeObject]:
    return load_text(
        "apiVersion: scheduling.volcano.sh/v1beta1\n"
        "kind: PodGroup\n"
        f"metadata: {{name: {name}}}\n"
        f"spec:\n  minMember: {minimum}\n"
        + (f"  networkTopology: {topology}\n" if topology else "")
        + (f"  subGroupPolicy:\n{policies}" if policies else "")
    ).objects


def gang(name: str, pods: int, topology: str) -> list[KubeObject]:
    """Pods that take a whole node each."""
    return [*group(name, pods, topology), *(pod(f"{name}-{i}", group=name, gpu=8) for i in range(pods))]


def placed(result: SimulationResult, job: str) -> dict[str, str]:
    """Nodes by pod of a job, pods without the job's name."""
    bound = [made for cycle in result.cycles for made in cycle.decisions if isinstance(made, Bind)]
    start = f"default/{job}-"
    return {made.pod.removeprefix(start): made.node for made in bound if made.pod.startswith(start)}


def reason(result: SimulationResult, job: str) -> str:
    return result.jobs[f"default/{job}"].reason.partition(":")[0]


# -- example 1: a spine-leaf tree of three levels --------------------------------------------------------------

LEAVES = [{"node0", "node1"}, {"node2", "node3"}, {"node4", "node5"}, {"node6", "node7"}]
SPINES = [LEAVES[0] | LEAVES[1], LEAVES[2] | LEAVES[3]]


def test_example_1_three_levels_of_switches_connect_eight_nodes() -> None:
    topology = snapshot_of(tree("spine-leaf")).topology
    assert topology.forest.ready
    assert domains_by_tier(topology) == {
        1: ["s0", "s1", "s2", "s3"],
        2: ["s4", "s5"],
        3: ["s6"],
        4: [ROOT_NAME],
    }


@pytest.mark.parametrize(
    ("a", "b", "together"), [("node0", "node1", "s0"), ("node0", "node3", "s4"), ("node3", "node4", "s6")]
)
def test_example_1_the_domain_that_two_nodes_share(a: str, b: str, together: str) -> None:
    snapshot = snapshot_of(tree("spine-leaf"))
    topology = snapshot.topology
    leaves = [int(topology.leaf[snapshot.nodes.index[name]]) for name in (a, b)]
    assert topology.names[topology.lca(*leaves)] == together


@pytest.mark.parametrize(("pods", "tier", "homes"), [(2, 1, LEAVES), (4, 2, SPINES), (3, 2, SPINES)])
def test_example_1_a_job_stays_within_its_tier(pods: int, tier: int, homes: list[set[str]]) -> None:
    job = gang("train", pods, f"{{mode: hard, highestTierAllowed: {tier}}}")
    nodes = set(placed(simulate([*tree("spine-leaf"), *job]), "train").values())
    assert len(nodes) == pods
    assert any(nodes <= home for home in homes)


def test_example_1_the_lowest_tier_that_has_room_is_taken() -> None:
    """Use case 1: all pods in one tier 1 zone if they fit, else in one tier 2 zone."""
    job = gang("train", 2, "{mode: hard, highestTierAllowed: 3}")
    nodes = set(placed(simulate([*tree("spine-leaf"), *job]), "train").values())
    assert nodes in LEAVES
    busy = [pod(f"busy-{name}", gpu=8, node=name) for name in ("node1", "node3", "node5", "node6")]
    nodes = set(placed(simulate([*tree("spine-leaf"), *busy, *job]), "train").values())
    assert nodes in ({"node0", "node2"}, {"node4", "node7"})


def test_example_1_a_job_larger_than_its_tier_waits_and_says_why() -> None:
    result = simulate([*tree("spine-leaf"), *gang("train", 3, "{mode: hard, highestTierAllowed: 1}")])
    assert placed(result, "train") == {}
    assert reason(result, "train") == "topology"


def test_example_1_soft_prefers_what_hard_would_insist_on() -> None:
    busy = [pod(f"busy-{name}", gpu=8, node=name) for name in ("node0", "node2")]
    soft = gang("train", 2, "{mode: soft, highestTierAllowed: 1}")
    assert set(placed(simulate([*tree("spine-leaf"), *busy, *soft]), "train").values()) in LEAVES[2:]
    large = gang("train", 6, "{mode: soft, highestTierAllowed: 1}")
    assert len(placed(simulate([*tree("spine-leaf"), *busy, *large]), "train")) == 6


# -- example 2: two RoCE networks of two NVLink networks --------------------------------------------------------

NVLINK = [{f"node{2 * i + 1}", f"node{2 * i + 2}"} for i in range(4)]
ROCE = [NVLINK[0] | NVLINK[1], NVLINK[2] | NVLINK[3]]


def test_example_2_several_trees_meet_in_the_virtual_root() -> None:
    topology = snapshot_of(tree("roce-nvlink")).topology
    assert domains_by_tier(topology) == {
        1: ["nvlink-network0", "nvlink-network1", "nvlink-network2", "nvlink-network3"],
        2: ["roce-network0", "roce-network1"],
        3: [ROOT_NAME],
    }


def test_example_2_a_tier_may_be_named() -> None:
    job = gang("train", 4, "{mode: hard, highestTierName: roce}")
    assert set(placed(simulate([*tree("roce-nvlink"), *job]), "train").values()) in ROCE
    small = gang("small", 2, "{mode: hard, highestTierName: nvlink}")
    assert set(placed(simulate([*tree("roce-nvlink"), *small]), "small").values()) in NVLINK


def test_example_2_no_roce_network_holds_five() -> None:
    result = simulate([*tree("roce-nvlink"), *gang("train", 5, "{mode: hard, highestTierName: roce}")])
    assert reason(result, "train") == "topology"
    whole = simulate([*tree("roce-nvlink"), *gang("train", 5, "{mode: hard, highestTierAllowed: 3}")])
    assert len(placed(whole, "train")) == 5


def test_neighbours_in_rank_are_neighbours_in_the_network() -> None:
    nodes = placed(simulate([*tree("roce-nvlink"), *gang("train", 8, "{mode: soft}")]), "train")
    for first in range(0, 8, 2):
        assert {nodes[str(first)], nodes[str(first + 1)]} in NVLINK
    for first in (0, 4):
        assert {nodes[str(index)] for index in range(first, first + 4)} in ROCE


@pytest.mark.parametrize("constraint", ["{mode: hard, highestTierName: zone}", "{mode: hard}"])
def test_a_constraint_that_names_no_tier_fails_closed(constraint: str) -> None:
    result = simulate([*tree("roce-nvlink"), *gang("train", 2, constraint)])
    assert placed(result, "train") == {}
    assert reason(result, "train") == "topology-tier"


def test_a_job_that_needs_what_two_claim_waits_and_others_go_on() -> None:
    wrong = load_text(
        "apiVersion: topology.volcano.sh/v1alpha1\n"
        "kind: HyperNode\n"
        "metadata: {name: roce-network9}\n"
        "spec: {tier: 2, members: [{type: HyperNode, selector: {exactMatch: {name: nvlink-network0}}}]}\n"
    ).objects
    plain = [*group("plain", 2), *(pod(f"plain-{i}", group="plain", gpu=8) for i in range(2))]
    # Both that claim nvlink-network0 are out of use: one roce-network is left.
    jobs = [
        *gang("first", 3, "{mode: hard, highestTierAllowed: 2}"),
        *gang("second", 3, "{mode: hard, highestTierAllowed: 2}"),
    ]
    result = simulate(
        [*tree("roce-nvlink"), *wrong, *jobs, *gang("third", 2, "{mode: hard, highestTierAllowed: 1}"), *plain]
    )
    assert len(placed(result, "first")) == 3
    assert "out of use: HyperNode roce-network0: HyperNode 'nvlink-network0'" in result.jobs["default/second"].reason
    assert reason(result, "second") == "topology"
    assert [len(placed(result, name)) for name in ("third", "plain")] == [2, 2]


# -- the gradient example: HyperNode0 to HyperNode5 -------------------------------------------------------------

#: Each of HyperNode0 to HyperNode3 has two nodes with room for two pods of 4 CPUs each.
SIX = "".join(
    "apiVersion: topology.volcano.sh/v1alpha1\n"
    "kind: HyperNode\n"
    f"metadata: {{name: hypernode{number}}}\n"
    f"spec: {{tier: {tier}, members: [{members}]}}\n---\n"
    for number, tier, members in [
        *((i, 1, f'{{type: Node, selector: {{regexMatch: {{pattern: "^node{i}-"}}}}}}') for i in range(4)),
        *(
            (
                4 + i,
                2,
                ", ".join(
                    f"{{type: HyperNode, selector: {{exactMatch: {{name: hypernode{2 * i + k}}}}}}}" for k in (0, 1)
                ),
            )
            for i in range(2)
        ),
    ]
)


def six_hypernodes() -> list[KubeObject]:
    nodes = [node(f"node{i}-{k}", cpu=8) for i in range(4) for k in (0, 1)]
    return [*load_text(SIX).objects, *nodes]


@pytest.mark.parametrize(
    ("limit", "inside", "wanted"),
    [
        (2, ROOT_NAME, [["hypernode0", "hypernode1", "hypernode2", "hypernode3"], ["hypernode4", "hypernode5"]]),
        (1, ROOT_NAME, [["hypernode0", "hypernode1", "hypernode2", "hypernode3"]]),
        (1, "hypernode4", [["hypernode0", "hypernode1"]]),
    ],
    ids=["the job in the cluster", "the sub-group in the cluster", "the sub-group in HyperNode4"],
)
def test_the_gradients_of_the_document(limit: int, inside: str, wanted: list[list[str]]) -> None:
    topology = snapshot_of(six_hypernodes()).topology
    steps = gradients(topology, Constraint(limit), topology.index[inside], NO_ROW)
    assert [sorted(topology.names[row] for row in step) for step in steps] == wanted


def test_without_a_constraint_only_the_given_domain_is_tried() -> None:
    topology = snapshot_of(six_hypernodes()).topology
    [step] = gradients(topology, Constraint(), ROOT, NO_ROW)
    assert [topology.names[row] for row in step] == [ROOT_NAME]


def test_what_is_already_allocated_bounds_the_gradients() -> None:
    """HyperNodes whose lowest common ancestor with the allocated one is above the tier are left out."""
    topology = snapshot_of(six_hypernodes()).topology
    steps = gradients(topology, Constraint(2), ROOT, topology.index["hypernode3"])
    assert [sorted(topology.names[row] for row in step) for step in steps] == [
        ["hypernode2", "hypernode3"],
        ["hypernode5"],
    ]


# -- the two-level job: eight pods in two partitions ------------------------------------------------------------

PARTITIONS = """\
  - name: t0
    subGroupSize: 4
    labelSelector: {matchLabels: {volcano.sh/task-spec: t0}}
    matchLabelKeys: [volcano.sh/partition-id]
    networkTopology: {mode: hard, highestTierAllowed: 1}
"""


def two_level_job(minimum: int = 4) -> list[KubeObject]:
    """The job of the document: at tier 2 as a whole, each partition at tier 1, four pods are enough to start."""
    pods = [
        pod(
            f"job-t0-{index}",
            group="job",
            role="t0",
            cpu=4,
            labels={"volcano.sh/task-spec": "t0", "volcano.sh/partition-id": str(index // 4)},
        )
        for index in range(8)
    ]
    return [*group("job", minimum, "{mode: hard, highestTierAllowed: 2}", PARTITIONS), *pods]


def homes(result: SimulationResult) -> list[set[str]]:
    """For each partition, the numbers of the HyperNodes that its pods are in."""
    nodes = placed(result, "job-t0")
    found: list[set[str]] = [set(), set()]
    for index, name in nodes.items():
        found[int(index) // 4].add(name.removeprefix("node").partition("-")[0])
    return found


def test_each_partition_has_a_domain_of_its_own_inside_that_of_the_job() -> None:
    result = simulate([*six_hypernodes(), *two_level_job()])
    assert len(placed(result, "job-t0")) == 8
    first, second = homes(result)
    assert (len(first), len(second)) == (1, 1)
    assert first | second in ({"0", "1"}, {"2", "3"})


def test_a_job_that_needs_both_partitions_goes_where_both_fit() -> None:
    busy = pod("busy", cpu=8, node="node1-0")
    first, second = homes(simulate([*six_hypernodes(), busy, *two_level_job(minimum=8)]))
    assert first | second == {"2", "3"}


def test_one_partition_may_start_alone_and_the_other_follows_beside_it() -> None:
    """No domain of tier 2 has room for both at first; in time the second must come to where the first is."""
    busy = [pod(f"busy{i}", cpu=8, node=f"node{i}-0", run_seconds=60 + i) for i in (1, 3)]
    result = simulate([*six_hypernodes(), *busy, *two_level_job()])
    in_first_cycle = [made for made in result.cycles[0].decisions if isinstance(made, Bind)]
    assert len(in_first_cycle) == 4
    assert len(placed(result, "job-t0")) == 8
    first, second = homes(result)
    assert (len(first), len(second)) == (1, 1)
    assert first | second in ({"0", "1"}, {"2", "3"})


def test_a_partition_starts_whole_or_not_at_all() -> None:
    # Pods that nobody may move: else one is, and the partition has its room.
    busy = [pod(f"busy{i}", cpu=4, node=f"node{i}-0", annotations={PREEMPTABLE: "false"}) for i in range(4)]
    result = simulate([*six_hypernodes(), *busy, *two_level_job()])
    assert placed(result, "job-t0") == {}
    assert reason(result, "job") == "topology"


def test_a_pod_that_is_made_anew_returns_to_the_domain_of_the_others() -> None:
    """The allocated domain is recovered from the running pods."""
    job = two_level_job()
    for thing in job[1:5]:
        assert thing.name.startswith("job-t0-")
        where = "node3-0" if int(thing.name[-1]) < 2 else "node3-1"
        thing.spec.node_name, thing.status.phase = where, "Running"  # type: ignore[attr-defined]
    lost = job.pop(4)
    lost.spec.node_name, lost.status.phase = "", "Pending"  # type: ignore[attr-defined]
    nodes = placed(simulate([*six_hypernodes(), *job[:4], lost]), "job-t0")
    assert nodes == {"3": "node3-1"}
