"""Traces and nodes from tables: columns have names of their own, and errors say where and what."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from muster.api import HyperNode, Node, UserError
from muster.lab.sources.inputs import WHOLE, notes_on, read_inputs
from muster.lab.sources.tables import JobFilter, read_jobs, read_nodes

HEAD = "job_id,submit_s,duration_s,num_tasks,gpus_per_task,cpus_per_task,mem_gib_per_task,queue,priority,user\n"
SACCT = "JobID|Submit|ElapsedRaw|NNodes|ReqTRES|Partition|User\n"


def table(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_rows_become_jobs_in_the_order_of_their_coming(tmp_path: Path) -> None:
    path = table(tmp_path, HEAD + "B_2,30,60,2,8,4,16,Research,,ann\na1,10,5,1,0.5,,,,3,bob\nc,20,,1,1,,,,,\n")
    trace = read_jobs(path)
    first, second = trace.jobs
    assert (first.name, first.submit_s, first.run_s, first.queue, first.priority) == ("a1", 0, 5, "default", 3)
    assert dict(first.requests) == {"nvidia.com/gpu": "500m"}
    assert (second.name, second.submit_s, second.n_tasks, second.queue) == ("b-2", 20, 2, "research")
    assert dict(second.requests) == {"cpu": "4", "memory": str(16 * 2**30), "nvidia.com/gpu": "8"}
    assert second.gpus == 16
    assert trace.left_out == {"has no duration": 1}


def test_columns_may_have_other_names_and_files_may_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(b"when,took,gpu\n100,7,2\n"))
    columns = {"submit": "when", "duration": "took", "gpus": "gpu"}
    (job,) = read_jobs(path, JobFilter(columns)).jobs
    assert (job.run_s, job.gpus, job.name) == (7, 2, "job-000002")


def test_a_part_of_the_time_begins_at_its_beginning(tmp_path: Path) -> None:
    rows = "".join(f"j{k},{k * 10},5,1,1,,,,,\n" for k in range(10))
    trace = read_jobs(table(tmp_path, HEAD + rows), JobFilter(since_s=25, until_s=60, limit=2, one_queue="all"))
    assert [(job.name, job.submit_s, job.queue) for job in trace.jobs] == [("j3", 5, "all"), ("j4", 15, "all")]
    assert trace.left_out == {"outside of the chosen time": 7, "beyond --limit": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,when\n1,2\n", 'there is no column "submit_s"'),
        (HEAD + "a,x,5,1,1,,,,,\n", 'jobs.csv:2: submit_s: expected a number from 0 on, got "x"'),
        (HEAD + "a,1,5,0.5,1,,,,,\n", "num_tasks: expected a whole number of pods"),
        (HEAD + "a,1,5,1,-1,,,,,\n", "gpus_per_task: expected a number from 0 on"),
        (HEAD + "a,1,5,1,1,,,,,\na,2,5,1,1,,,,,\n", 'got "a" twice'),
        (HEAD, "expected at least one job"),
        ("", 'there is no column "submit_s"; there are none'),
        (HEAD.replace(",", ";"), "jobs.csv:1: expected commas between cells"),
        (HEAD.replace("user", "queue"), 'jobs.csv:1: expected a name of its own for every column, got "queue" twice'),
        (HEAD + "a,1,5,1,1,,,,,,,x\n", "jobs.csv:2: expected as many cells as the first line has, 10, got 12"),
        (HEAD + 'a,1,5,1,1,,,"q,,\nb,1\n', "jobs.csv:4: expected a table of comma-separated values"),
        (HEAD + "a,1,1e309,1,1,,,,,\n", 'duration_s: expected a number below 1e+11, got "1e309"'),
        (HEAD + "a,1,-5,1,1,,,,,\n", 'duration_s: expected a number from 0 on, got "-5"'),
        (HEAD + "a,1,5,1e9,1,,,,,\n", "num_tasks: expected a whole number of pods from 1 to 150000"),
        (HEAD + "a,1,5,1,,,9e9,,,\n", "mem_gib_per_task: expected at most 1048576"),
        (
            HEAD + "a,1,5,1,1,,,,high,\nb,1,5,1,1,,,,3,\n",
            'jobs.csv:2: priority: expected a whole number between -1000000000 and 1000000000, got "high"',
        ),
        (HEAD + "a,1,,1,1,,,,,\n", "expected at least one job, got none that counts (1: has no duration)"),
        (SACCT + "1|31/01/2025 12:00|5|1|cpu=4|p|u\n", "Submit: expected a moment such as 2025-01-31T12:00:00"),
        (SACCT + "1|2025-01-31T12:00:00|01:00:00|1|cpu=4|p|u\n", 'ElapsedRaw: expected a number from 0 on, got "01:00'),
        (SACCT + "1|2025-01-31T12:00:00|5|1K|cpu=4|p|u\n", 'NNodes: expected a number of nodes such as 4, got "1K"'),
        (SACCT + "1|2025-01-31T12:00:00|5|1|cpu=4|p|u|x\n", "jobs.csv:2: expected as many cells as the first line has"),
        (SACCT + "1|2025-01-31T12:00:00|5|1|cpu=four|p|u\n", "ReqTRES: cpu: expected an amount such as 16 or 64G"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        read_jobs(table(tmp_path, text))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("n1,8,64,8,,,\nn1,8,64,8,,,\n", 'nodes.csv:3: name: expected a name of its own for every node, got "n1"'),
        (",8,64,8,,,\n", 'nodes.csv:2: name: expected a name of its own for every node, got ""'),
        ("n1,8,64,0.5,,,\n", "nodes.csv:2 (Node n1): status.allocatable"),
        ("n1,8,64,8,A 100!,,\n", "nodes.csv:2 (Node n1): metadata.labels: expected a value of letters"),
        ("n1,8,64,8,,r1,z1\nn2,8,64,8,,r1,z2\n", 'expected every rack in one zone, got rack "r1" in z1 and z2'),
    ],
)
def test_what_is_wrong_with_nodes_is_said_with_its_place(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        read_nodes(table(tmp_path, "name,cpus,mem_gib,gpus,gpu_type,rack,zone\n" + rows, "nodes.csv"))
    assert said in str(error.value)


def test_classes_of_service_and_parts_of_gpus_are_told(tmp_path: Path) -> None:
    """A column that holds words alone has no order; a word among numbers is refused, see above."""
    text = HEAD + "a,1,5,1,0.5,,,,LS,\nb,1,5,1,1,,,,BE,\nc,1,5,1,0.25,,,,LS,\n"
    found, objects = read_inputs(table(tmp_path, text), "1x8", WHOLE)
    assert [job.priority for job in found.jobs] == [None, None, None]
    notes = "\n".join(notes_on(found, objects))
    assert 'words in column "priority" have no order and count as no priority (LS: 2, BE: 1)' in notes
    assert "2 jobs ask for a part of a GPU" in notes


def test_misspelt_columns_of_nodes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'nodes\.csv:1: unknown column "cpu"; did you mean "cpus"\?'):
        read_nodes(table(tmp_path, "name,cpu\nn1,8\n", "nodes.csv"))


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"\x1f\x8b\x08\x00garbage", id="garbage"),
        pytest.param(gzip.compress(b"when,took\n")[:-9], id="cut off"),
        pytest.param(b"a\xff\xfe", id="not UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(packed)
    with pytest.raises(UserError, match="expected a table in UTF-8, plain or packed with gzip"):
        read_jobs(path)


def test_lines_may_end_as_they_like_and_moments_may_have_a_zone(tmp_path: Path) -> None:
    assert len(read_jobs(table(tmp_path, (HEAD + "a,1,5,1,1,,,,,\nb,2,5\n").replace("\n", "\r")))) == 2
    rows = "1|2025-01-31T12:00:00|5|1|cpu=4|p|u\n2|2025-01-31T15:00:00+02:00|5|1|cpu=4|p|u\n"
    assert [job.submit_s for job in read_jobs(table(tmp_path, SACCT + rows)).jobs] == [0, 3600]


def test_rows_left_out_and_jobs_out_of_reach_are_noted(tmp_path: Path) -> None:
    rows = "a,1,5,1,9,,,,,\nb,2,5,1,8,,,,,\nc,2,5,3,8,,,,,\nd,3,,1,1,,,,,\n"
    trace, objects = read_inputs(table(tmp_path, HEAD + rows), "2x8", WHOLE)
    source, words = f"{tmp_path}/jobs.csv", "a pod asks for 9 nvidia.com/gpu, the largest node has 8"
    assert list(notes_on(trace, objects)) == [
        f"{source}: 1 left out: has no duration",
        f"{source}: 2 jobs can never start, such as a: {words}",
    ]


@pytest.mark.parametrize("nodes", ["99999999x8", "0x8"])
def test_no_cluster_has_so_many_nodes(tmp_path: Path, nodes: str) -> None:
    with pytest.raises(UserError, match="--nodes: expected from 1 to 100,000 nodes"):
        read_inputs(table(tmp_path, HEAD), nodes, WHOLE)


def test_an_export_of_sacct(tmp_path: Path) -> None:
    text = (
        "JobID|Submit|ElapsedRaw|NNodes|ReqTRES|Partition|User\n"
        "7|2025-01-31T12:00:00|3600|2|billing=64,cpu=64,gres/gpu=16,mem=512G,node=2|GPU|ann\n"
        "7.batch|2025-01-31T12:00:00|3600|1|cpu=1|GPU|ann\n"
        "8|2025-01-31T12:01:00|0|1|cpu=1,mem=1G|GPU|ann\n"
        "9|2025-01-31T12:02:00|10|1|cpu=3,mem=1500M|CPU|bob\n"
    )
    trace = read_jobs(table(tmp_path, text, "export.txt"))
    gang, small = trace.jobs
    assert (gang.n_tasks, gang.gpus, gang.run_s, gang.queue, gang.user) == (2, 16, 3600, "gpu", "ann")
    assert dict(gang.requests) == {"cpu": "32000m", "memory": str(256 * 2**30), "nvidia.com/gpu": "8000m"}
    assert (small.submit_s, dict(small.requests)["memory"]) == (120, str(1500 * 2**20))
    assert trace.left_out == {"never ran": 1}


def test_nodes_with_racks_and_zones_become_a_topology(tmp_path: Path) -> None:
    text = "name,cpus,mem_gib,gpus,gpu_type,rack,zone\nn1,48,376,8,V100,r1,z\nn2,,,4,,r1,z\nn3,48,,8,,r2,z\n"
    found = read_nodes(table(tmp_path, text, "nodes.csv"))
    nodes = [thing for thing in found if isinstance(thing, Node)]
    assert str(nodes[0].status.allocatable["nvidia.com/gpu"]) == "8"
    assert nodes[0].metadata.labels["nvidia.com/gpu.product"] == "V100"
    assert [(thing.name, thing.spec.tier) for thing in found if isinstance(thing, HyperNode)] == [
        ("rack-r1", 1),
        ("rack-r2", 1),
        ("zone-z", 2),
    ]
