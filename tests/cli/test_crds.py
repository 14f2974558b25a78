from __future__ import annotations

import json

import pytest
import yaml

from muster.api.definitions import definitions
from muster.cli.main import run


def test_what_is_printed_is_the_definitions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "print"]) == 0
    text = capsys.readouterr().out
    assert list(yaml.safe_load_all(text)) == definitions()
    assert "&id" not in text  # no references between parts: people read this


def test_kinds_are_chosen_by_any_of_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "print", "hn", "PodGroup"]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [document["spec"]["names"]["kind"] for document in found] == ["PodGroup", "HyperNode"]


def test_json_is_one_document_that_kubectl_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "print", "--output", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["kind"], len(whole["items"])) == ("List", len(definitions()))
    assert run(["crds", "print", "queues", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "queues.scheduling.volcano.sh"


def test_an_unknown_kind_is_the_users_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "print", "Pod"]) == 2
    assert 'error: no definition of a kind "Pod"' in capsys.readouterr().err
