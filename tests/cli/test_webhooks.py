from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import pytest
import yaml

from muster.admission.hooks import Address, configurations
from muster.cli.main import run

PEM = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"


def test_what_is_printed_registers_the_service_of_the_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["webhooks", "print"]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == configurations(Address(), scheduler_names=("volcano",))


def test_certificates_and_policy_go_into_every_webhook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ca.crt").write_text(PEM)
    options = ["--ca-file", str(tmp_path / "ca.crt"), "--failure-policy", "Ignore", "--service", "a/b"]
    assert run(["webhooks", "print", *options, "--output", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["items"]
    for webhook in (webhook for each in listed for webhook in each["webhooks"]):
        assert base64.b64decode(webhook["clientConfig"]["caBundle"]).decode() == PEM
        assert webhook["clientConfig"]["service"].items() >= {"namespace": "a", "name": "b"}.items()
        assert webhook["failurePolicy"] == "Ignore"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--service", "muster"], "--service: expected NAMESPACE/NAME"),
        (["--url", "http://host"], "--url: expected an address that begins with https://"),
        (["--ca-file", "absent.crt"], "absent.crt: cannot read the file"),
        (["--ca-file", str(Path(__file__).with_name("conftest.py"))], "expected certificates in PEM"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["webhooks", "print", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_server_without_its_certificate_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    ours = logging.getLogger("muster")
    before = ours.level, list(ours.handlers)
    assert run(["webhooks", "serve", "--cert", "absent.crt", "--key", "absent.key"]) == 2
    assert "absent.crt: cannot read the file" in capsys.readouterr().err
    assert (ours.level, ours.handlers) == before, "a server that has ended must not go on logging for what follows"
