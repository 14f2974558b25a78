import json

from muster.explain import explanation_lines, waiting_reason
from tests.explain.clusters import explain, gang, node, pod


def test_the_whole_text_of_a_gang_that_waits() -> None:
    found = explain("train", node("n1"), node("n2", gpus=0), pod("held", 6, on="n1"), *gang("train", 2, 4))
    assert explanation_lines(found) == [
        "team/train waits: no node has room for 2 of 2 pods",
        "  pods      2 pending; minimum 2",
        "  asks for  4 GPUs and 1 CPU (team/train-0)",
        "  needs     8 GPUs in all; 2 GPUs free where it may run, 6 GPUs missing",
        "  queue     default (weight 1) holds 6 GPUs, has a fair share of 8 GPUs",
        "  nodes     2 in all: 1 lacks free resources (n1) and 1 is too small even when empty (n2)",
        "  closest   n1 lacks 2 GPUs",
        "  evictions none: consolidation: moving others would not make room for it (8 nvidia.com/gpu asked",
        "            for, 2 free in all); gangreclaim: its queue would have more than its fair share (queue",
        "            default: nvidia.com/gpu: 6 of 8 taken, 8 wanted); gangpreempt: nobody may be evicted for",
        "            it",
        "  to let it start, one of",
        "    - wait for team/pod/held to finish: then it fits",
        "    - add 1 node like n1 (8 GPUs, 64 CPUs and 256Gi memory)",
    ]


def test_lines_keep_to_the_width() -> None:
    nodes = [node(f"a-node-with-quite-a-long-name-{i}") for i in range(4)]
    found = explain("train", *nodes, *gang("train", 9, 4))
    lines = explanation_lines(found, 60)
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("  ") for line in lines[1:])


def test_json_holds_the_same_numbers_as_the_text() -> None:
    found = explain("train", node("n1"), pod("held", 6, on="n1"), *gang("train", 2, 4))
    document = json.loads(json.dumps(found.to_json()))
    assert document["reason"]["code"] == "insufficient-resources"
    assert document["needs"][-1] == {"resource": "nvidia.com/gpu", "needed": "8", "free": "2", "missing": "6"}
    assert document["nodes"]["byReason"] == {"insufficient-resources": 1}
    assert document["nodes"]["closest"]["lacks"] == {"nvidia.com/gpu": "2"}
    assert document["holders"] == [{"job": "team/pod/held", "resource": "nvidia.com/gpu", "amount": "6"}]
    assert document["advice"] == list(found.advice)


def test_the_reason_in_one_line_is_empty_for_a_job_that_runs() -> None:
    assert waiting_reason(explain("train", node("n1"), *gang("train", 1, 4))) == ""
    waits = explain("train", node("n1"), *gang("train", 1, 9))
    assert waiting_reason(waits) == "node-too-small: the only node is too small even when empty"
