"""What a simulation prints about a job that waits is what an explanation says, and true as far as the objects tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from muster.api import KubeObject, encode, load_text
from muster.cli.main import run
from muster.explain import JobState, explain_job, headline, queue_overview, waiting_reason
from muster.framework import profile
from muster.simulate import simulate
from tests.properties.busy_worlds import World, worlds

PROFILES = ("muster", "volcano", "kai")
_AFFINITY = (
    "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: nobody}}}]}}, "
)
#: What is wrong with a pod, the fields that make it so, and the reasons that are true then.
ODDITIES = {
    "near nobody": (_AFFINITY, {"pod-affinity"}),
    "no such label": ("nodeSelector: {disk: none}, ", {"node-selector"}),
    "gated": ("schedulingGates: [{name: example.com/wait}], ", {"gated"}),
}


def _pod(name: str, oddity: str, request: str) -> str:
    return f"""---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: odd, annotations: {{scheduling.volcano.sh/queue-name: default}}}}
spec: {{{oddity}containers: [{{name: c, resources: {{requests: {{{request}}}}}}}]}}
"""


EMPTY_GROUP = """---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: empty, namespace: odd}
spec: {minMember: 2}
"""


@st.composite
def odd_pods(draw: st.DrawFn) -> tuple[str, dict[str, set[str]]]:
    """Objects as YAML, and for each job the reasons that may be given."""
    text, expected = EMPTY_GROUP, {"odd/empty": {"too-few-pods", "no-pods", "not-admitted"}}
    for number, oddity in enumerate(draw(st.lists(st.sampled_from(sorted(ODDITIES)), max_size=3))):
        fields, codes = ODDITIES[oddity]
        asks = draw(st.sampled_from(["", "cpu: 1"]))
        text += _pod(f"p{number}", fields, asks)
        expected[f"odd/pod/p{number}"] = codes
    if draw(st.booleans()):
        text += _pod("nowhere", "", "example.com/fpga: 1")
        expected["odd/pod/nowhere"] = {"no-such-resource"}
    return text, expected


def _objects(world: World, more: str) -> list[KubeObject]:
    return [*world.objects(), *(loaded.object for loaded in load_text(more, "odd.yaml"))]


@pytest.mark.parametrize("name", PROFILES)
@settings(max_examples=25, deadline=None)
@given(world=worlds(), odd=odd_pods(), cycles=st.sampled_from([1, 3, 40]))
def test_simulate_and_explain_never_disagree(
    name: str, world: World, odd: tuple[str, dict[str, set[str]]], cycles: int
) -> None:
    text, expected = odd
    result = simulate(_objects(world, text), profile(name), cycles=cycles)
    session = result.last_session
    assert session is not None
    told: dict[str, int] = {}
    for job, report in result.jobs.items():
        explanation = explain_job(session, session.snapshot.jobs.index[job])
        if report.reason:
            event(report.reason.partition(":")[0])
            assert explanation.state is JobState.WAITING
            assert report.reason == waiting_reason(explanation)
            assert headline(explanation) == f"{job} waits: {report.reason.partition(': ')[2]}"
        elif report.phase not in ("Running", "Completed"):
            assert explanation.state is not JobState.WAITING, f"{job} waits, and nobody says why"
        if explanation.code:
            told[explanation.code] = told.get(explanation.code, 0) + 1
    for job, codes in expected.items():
        assert result.jobs[job].reason.partition(":")[0] in codes
    queues = {reason.code for queue in queue_overview(session).walk() for reason, _ in queue.reasons}
    assert queues <= set(told)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds(), odd=odd_pods())
def test_the_commands_print_the_same(
    world: World, odd: tuple[str, dict[str, set[str]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "world.json"
    items = [encode(thing) for thing in _objects(world, odd[0])]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    capsys.readouterr()
    assert run(["simulate", str(file), "--cycles", "3", "--output", "json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    for job, entry in list(jobs.items())[:6]:
        assert run(["explain", job, str(file), "--cycles", "3"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert not entry["reason"] or said.startswith(f"{job} waits: {entry['reason'].partition(': ')[2]}")
