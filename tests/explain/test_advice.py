"""Advice is a promise: who follows it gets the job started."""

import re

from hypothesis import given
from hypothesis import strategies as st

from muster.explain import Explanation, JobState
from tests.explain.clusters import PEACEFUL, explain, gang, node, pod, queue

#: Per node: GPUs in use, by lone pods of these sizes.
HELD = st.lists(st.lists(st.integers(1, 4), max_size=2), min_size=1, max_size=4)


def _cluster(held: list[list[int]]) -> list[str]:
    nodes = [node(f"n{i}") for i in range(len(held))]
    pods = [pod(f"held-{i}-{k}", gpus, on=f"n{i}") for i, row in enumerate(held) for k, gpus in enumerate(row)]
    return nodes + pods


def _number(pattern: str, found: Explanation) -> int | None:
    matches = [match for advice in found.advice if (match := re.search(pattern, advice))]
    return int(matches[0][1]) if matches else None


@given(held=HELD, pods=st.integers(1, 4), gpus=st.integers(1, 8))
def test_adding_the_nodes_that_it_names_starts_the_job_and_one_less_does_not(
    held: list[list[int]], pods: int, gpus: int
) -> None:
    cluster, job = _cluster(held), gang("train", pods, gpus)
    found = explain("train", *cluster, *job)
    n_nodes = _number(r"add (\d+) nodes? like", found)
    assert (n_nodes is None) == (found.state is JobState.RUNNING)
    if n_nodes is not None:
        more = [node(f"new{i}") for i in range(n_nodes)]
        assert explain("train", *cluster, *more, *job).state is JobState.RUNNING
        # Who may move others can get by with less; nobody else can.
        assert explain("train", *cluster, *more[1:], *job, config=PEACEFUL).state is JobState.WAITING


@given(held=HELD, pods=st.integers(2, 4), gpus=st.integers(1, 8))
def test_the_smaller_minimum_that_it_names_starts_the_job(held: list[list[int]], pods: int, gpus: int) -> None:
    cluster = _cluster(held)
    smaller = _number(r"lower minMember from \d+ to (\d+)", explain("train", *cluster, *gang("train", pods, gpus)))
    if smaller is not None:
        assert explain("train", *cluster, *gang("train", pods, gpus, smaller)).state is not JobState.WAITING
        larger = gang("train", pods, gpus, smaller + 1)
        assert explain("train", *cluster, *larger, config=PEACEFUL).state is JobState.WAITING


@given(held=HELD, pods=st.integers(1, 3), gpus=st.integers(1, 8))
def test_when_the_jobs_that_it_names_are_gone_the_job_starts(held: list[list[int]], pods: int, gpus: int) -> None:
    cluster, job = _cluster(held), gang("train", pods, gpus)
    named = [advice for advice in explain("train", *cluster, *job).advice if advice.startswith("wait for")]
    for advice in named:
        jobs = re.findall(r"team/pod/(held-\d+-\d+)", advice)
        one_is_enough = " or " in advice or len(jobs) == 1
        for gone in [[name] for name in jobs] if one_is_enough else [jobs]:
            rest = [text for text in cluster if not any(f"name: {name}," in text for name in gone)]
            assert explain("train", *rest, *job).state is JobState.RUNNING


RAISED = "- at: 1m\n  patch: {target: Queue/a, merge: {spec: {deserved: {nvidia.com/gpu: %d}}}}\n"


def test_the_quota_that_it_names_lets_a_gang_beyond_its_share_start() -> None:
    gangs = [("one", 4, "a"), ("two", 4, "b"), ("three", 2, "a"), ("four", 2, "b")]
    cluster = [node("n1"), queue("a"), queue("b")]
    cluster += [
        text for name, pods, where in gangs for text in gang(name, pods, 1, 1 if name == "two" else pods, where)
    ]
    found = explain("three", *cluster)
    quota = _number(r"raise the quota of queue a to (\d+) GPUs", found)
    assert (found.state, quota) == (JobState.WAITING, 6)
    assert explain("three", *cluster, later=RAISED % 6).state is JobState.RUNNING
    assert not any("add" in advice for advice in found.advice), "others would have the nodes"


def test_jobs_that_help_only_both_at_once_have_to_end_together() -> None:
    found = explain("train", *_cluster([[4, 4]]), *gang("train", 1, 8))
    assert found.advice[0] == "wait for team/pod/held-0-0 and team/pod/held-0-1 to finish together: then it fits"
    assert "together" not in explain("train", *_cluster([[4, 4]]), *gang("train", 1, 4)).advice[0]
