"""Remedies are tried before they are told, and the expected start comes from running the clock forward."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api import KubeObject, Pod
from muster.api.names import EXPECTED_SECONDS, OWNER
from muster.api.objects.pod import ContainerState, ContainerStatus, ContainerTerminated
from muster.explain import Explanation, explain_job, find_job
from muster.explain.remedies import NodesCome, Together
from muster.simulate import Run
from muster.testing import gang, node, pod, pod_group, queue
from muster.whatif.remedies import with_remedies

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def _explained(job: str, objects: list[KubeObject]) -> Explanation:
    run = Run(objects)
    run.go_on()
    session = run.scheduler.last_session
    assert session is not None
    return with_remedies(run, explain_job(session, find_job(session.snapshot, job)))


def _running(name: str, gpus: int, on: str, seconds: float | None = None, **marks: str) -> Pod:
    notes = {**({} if seconds is None else {EXPECTED_SECONDS: f"{seconds:g}"}), **marks}
    made = pod(name, gpu=gpus, node=on, annotations=notes, created=NOW)
    return replace(made, status=replace(made.status, start_time=datetime.fromtimestamp(NOW, UTC)))


def test_room_that_another_job_would_take_is_no_remedy() -> None:
    objects = [node("n1", gpu=8), _running("old", 8, "n1"), pod("first", gpu=8), pod("second", gpu=8)]
    assert _explained("first", objects).advice == (
        "wait for default/pod/old to finish: then it fits",
        "add 1 node like n1 (8 GPUs, 96 CPUs and 1Ti memory)",
    )
    found = _explained("second", objects)
    # Counted alone, the end of one job or one node would do for the second as well.
    assert next(remedy.text for remedy in found.remedies).startswith("wait for default/pod/old to finish")
    assert found.advice == ("add 2 nodes like n1 (8 GPUs, 96 CPUs and 1Ti memory)",)
    assert found.untried == ()


def test_no_more_nodes_are_advised_than_it_takes() -> None:
    """Three nodes would do for the gang alone, the job before it takes one more; six would be too many."""
    objects = [node("n1", gpu=8), _running("old", 8, "n1"), pod("first", gpu=8), *gang("mine", 3, gpu=8)]
    assert "add 4 nodes like n1 (8 GPUs, 96 CPUs and 1Ti memory)" in _explained("mine", objects).advice


@settings(max_examples=15)
@given(held=st.lists(st.integers(1, 4), min_size=1, max_size=4), others=st.lists(st.integers(1, 8), max_size=2))
def test_who_follows_the_advice_on_nodes_gets_the_job_started(held: list[int], others: list[int]) -> None:
    objects: list[KubeObject] = [node(f"n{k}", gpu=4) for k in range(len(held))]
    objects += [pod(f"held-{k}", gpu=gpus, node=f"n{k}") for k, gpus in enumerate(held)]
    objects += [thing for k, pods in enumerate(others) for thing in gang(f"other-{k}", pods, gpu=2)]
    objects += gang("mine", 3, gpu=2)
    for line in _explained("mine", objects).advice:
        if line.startswith("add "):
            run = Run(objects)
            run.go_on()
            run.cluster.add([node(f"n9{k}", gpu=4) for k in range(int(line.split()[1]))])
            for _ in range(3):
                run.scheduler.run_once()
                run.cluster.advance_to(run.cluster.now() + 30.0)
            mine = [one for one in run.cluster.store.all(Pod) if one.metadata.name.startswith("mine-")]
            assert all(one.spec.node_name for one in mine), "the nodes came, and it waits"


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"selector": {"zone": "a"}}, "label the nodes, or change the node selector (1 node)"),
        ({"gpu": 16}, "ask for less per pod: it wants 16 GPUs, and no node where it may run has more than 8 GPUs"),
    ],
)
def test_what_stands_against_pods_is_tried_without_it(wrong: dict[str, object], advice: str) -> None:
    request = {"gpu": 1, **wrong}
    found = _explained("mine", [node("n1", gpu=8), pod("mine", **request)])  # type: ignore[arg-type]  # as the builder takes it
    assert found.advice == (advice,)


def test_a_selector_is_not_to_blame_where_nothing_fits_without_it_either() -> None:
    held = [node("n1", gpu=8), _running("old", 8, "n1")]
    found = _explained("mine", [*held, pod("mine", gpu=8, selector={"zone": "a"})])
    assert found.code == "node-selector"
    assert found.advice == ()


def test_a_missing_queue_and_a_closed_gate_are_tried() -> None:
    objects = [node("n1", gpu=8), *gang("mine", 2, gpu=1, queue="lost")]
    assert _explained("mine", objects).advice == ("create the queue, or name another one",)


def test_a_limit_is_raised_as_far_as_it_takes() -> None:
    objects = [node("n1", gpu=8), queue("small", capability={"gpu": 2}), *gang("mine", 4, gpu=1, queue="small")]
    found = _explained("mine", objects)
    assert found.advice[0].startswith("raise the capability of queue small by 2 GPUs")


def test_a_job_beyond_its_queues_share_is_told_of_nodes_too() -> None:
    """They come without anybody's having to go."""
    objects = [node("n1", gpu=8), queue("a"), queue("b")]
    for name in ("a", "b"):
        objects += [
            pod_group(f"held-{name}", minimum=1, queue=name),
            pod(f"held-{name}-0", group=f"held-{name}", gpu=4, node="n1"),
        ]
    objects += gang("other", 1, gpu=4, queue="b")
    found = _explained("mine", [*objects, *gang("mine", 1, gpu=4, queue="a")])
    assert found.advice == (
        "wait until jobs of queue a have finished",
        "raise the quota of queue a to 8 GPUs: what is promised can be taken back",
        "add 1 node like n1 (8 GPUs, 96 CPUs and 1Ti memory)",
    )


def test_where_neither_a_higher_limit_nor_nodes_are_enough_both_together_are_tried() -> None:
    big = queue("big", weight=100)
    held = [
        node("n1", gpu=8),
        replace(big, spec=replace(big.spec, reclaimable=False)),
        pod_group("old", minimum=1, queue="big"),
        pod("old-0", group="old", gpu=8, node="n1"),
    ]
    found = _explained("mine", [*held, queue("small", capability={"gpu": 2}), *gang("mine", 4, gpu=1, queue="small")])
    raised = "raise the limit of queue small to 4 GPUs"
    assert found.advice == (f"{raised}, and add 1 node like n1 (8 GPUs, 96 CPUs and 1Ti memory)",)
    [remedy] = found.advised
    assert isinstance(remedy.trial, Together)
    assert (remedy.trial.bound.queues, remedy.trial.nodes) == ((("small", 4000),), NodesCome("n1", 1))


def test_a_gang_that_has_too_few_pods_starts_with_a_smaller_minimum() -> None:
    objects: list[KubeObject] = [node("n1", gpu=8), pod_group("mine", minimum=3), pod("mine-0", group="mine", gpu=1)]
    assert _explained("mine", objects).advice == ("lower minMember to 1, or create the missing pods",)


# -- when it starts ----------------------------------------------------------------------------------------------------


def test_the_expected_start_is_when_the_job_before_it_says_that_it_ends() -> None:
    found = _explained("mine", [node("n1", gpu=8), _running("old", 8, "n1", 600), pod("mine", gpu=8, created=NOW)])
    assert found.forecast is not None
    assert found.forecast.seconds == pytest.approx(600, abs=2)
    assert (dict(found.forecast.rests_on), found.forecast.factor) == ({"said": 1}, 1.0)


def test_a_job_that_runs_for_longer_than_it_said_goes_on_for_a_while() -> None:
    old = _running("old", 8, "n1", 60)
    waiting = pod("mine", gpu=8, created=NOW + 600)
    found = _explained("mine", [node("n1", gpu=8), old, waiting])
    assert found.forecast is not None
    # It has run for 600 seconds, and is given half of that again.
    assert found.forecast.seconds == pytest.approx(300, abs=2)


def test_nothing_is_promised_where_nobody_knows_when_others_end() -> None:
    found = _explained("mine", [node("n1", gpu=8), _running("old", 8, "n1"), pod("mine", gpu=8)])
    assert found.forecast is not None
    assert (found.forecast.seconds, found.forecast.text) == (None, "nobody says when default/pod/old ends")


def test_who_lacks_pods_of_its_own_is_not_helped_when_others_end() -> None:
    found = _explained("default/mine", [node("n1", gpu=8), pod_group("mine", minimum=3)])
    assert found.forecast is not None
    assert (found.forecast.seconds, found.forecast.text) == (None, "it is not enough that others end")


def test_a_deadline_is_a_bound() -> None:
    old = _running("old", 8, "n1")
    old = replace(old, spec=replace(old.spec, active_deadline_seconds=900))
    found = _explained("mine", [node("n1", gpu=8), old, pod("mine", gpu=8, created=NOW)])
    assert found.forecast is not None
    assert found.forecast.seconds == pytest.approx(900, abs=2)
    assert found.forecast.text == "one job ends before, at its deadline"


def _finished(name: str, seconds: float) -> Pod:
    made = pod(name, gpu=1, node="n1", phase="Succeeded", annotations={OWNER: "alice"}, created=NOW - 10_000)
    began, ended = (datetime.fromtimestamp(NOW - 9_000 + after, UTC) for after in (0.0, seconds))
    state = ContainerState(terminated=ContainerTerminated(finished_at=ended))
    status = replace(made.status, start_time=began, container_statuses=[ContainerStatus(name="main", state=state)])
    return replace(made, status=status)


def test_what_jobs_of_the_same_owner_took_is_an_estimate_with_its_error() -> None:
    record = [_finished(f"done-{k}", seconds) for k, seconds in enumerate((500.0, 1000.0, 2000.0))]
    old = _running("old", 8, "n1", None, **{OWNER: "alice"})
    found = _explained("mine", [node("n1", gpu=8), *record, old, pod("mine", gpu=8, created=NOW)])
    assert found.forecast is not None
    assert found.forecast.seconds == pytest.approx(1000, abs=2)
    assert (dict(found.forecast.rests_on), found.forecast.factor) == ({"record": 1}, 2.0)
    assert "within a factor of 2" in found.forecast.text


def test_two_finished_jobs_are_no_record() -> None:
    record = [_finished(f"done-{k}", 500.0) for k in range(2)]
    old = _running("old", 8, "n1", None, **{OWNER: "alice"})
    found = _explained("mine", [node("n1", gpu=8), *record, old, pod("mine", gpu=8, created=NOW)])
    assert found.forecast is not None
    assert found.forecast.seconds is None
