import json

import pytest

from muster.cli.demo.story import OBJECTS, TIMELINE
from muster.cli.main import run

DEMO = str(OBJECTS)


def test_text_says_why_and_what_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "serve", DEMO, "--timeline", str(TIMELINE), "--until", "5m"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "product/serve runs with 4 pods; 6 more pods wait: no node has room for 6 of 6 pods"
    assert "    - wait for research/pretrain to finish: then it fits" in lines


def test_a_gang_that_was_promised_nodes_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "pretrain", DEMO, "--timeline", str(TIMELINE), "--until", "125"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "research/pretrain waits: its nodes are promised to it, and pods have yet to leave them"


def test_a_running_job_is_explained_as_of_the_end_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "research/train", DEMO, "--until", "5m"]) == 0
    title = capsys.readouterr().out.splitlines()[0]
    assert title.startswith("research/train runs on ")
    assert "for 4m" in title or "for 5m" in title


def test_json_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "evaluate", DEMO, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["reason"]["code"]) == ("waiting", "node-selector")
    assert document["nodeSelector"] == {"accelerator": "h200"}


def test_an_unknown_job_suggests_a_known_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "evalute", DEMO]) == 2
    assert capsys.readouterr().err == (
        "error: there is no job 'evalute'; did you mean product/serve or research/evaluate?\n"
    )
