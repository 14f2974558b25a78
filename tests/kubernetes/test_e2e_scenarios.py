"""Every scenario of the embedded cluster, on the real parts, with the same expectations."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from muster.testing import load_scenario
from muster.testing.scenario import config_of, differences, objects_of, timeline_of
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.plays import Connect, LivePlay, Play

#: KWOK keeps every node ready, whatever anybody else says.
_NOT_ON_KWOK = "a-node-that-is-not-ready-takes-nothing"
FILES = sorted(path for path in (Path(__file__).parents[1] / "scenarios").glob("*.yaml") if path.stem != _NOT_ON_KWOK)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, connect: Connect, kubectl: Kubectl, request: pytest.FixtureRequest) -> None:
    scenario = load_scenario(path)
    play = Play(objects_of(scenario), config_of(scenario), timeline_of(scenario))
    if any(job.group == "kai" for part in (scenario, *scenario.later) for job in part.jobs):
        request.getfixturevalue("kai_kinds")
    with connect() as listener:
        result = LivePlay(listener, kubectl, play).run()
    # Cycles come when they come, not every second on the second.
    want = msgspec.structs.replace(scenario.want, started=None)
    assert list(differences(want, result, limited=scenario.cycles is not None)) == []
