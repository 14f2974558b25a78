import json

import pytest

from muster.cli.demo.story import OBJECTS
from muster.cli.main import run

DEMO = str(OBJECTS)


def test_text_says_why_and_what_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "pretrain", DEMO, "--until", "60"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "research/pretrain waits: no node has room for 2 of 2 pods"
    assert "    - wait for research/train and product/serve to finish: then it fits" in lines


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
    assert run(["explain", "pretran", DEMO]) == 2
    assert capsys.readouterr().err == (
        "error: there is no job 'pretran'; did you mean research/pretrain or research/train?\n"
    )
