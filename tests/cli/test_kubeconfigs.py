"""Whatever is wrong with a kubeconfig is said in one line, with exit code 2, and never with a traceback."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli.main import run
from muster.cli.options import label_selector

ABSENT = "there-is-no-such-program"


def config(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    whole |= {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in whole.items() if value is not None}


def cluster(**fields: Any) -> list[dict[str, Any]]:
    server = {"server": "https://127.0.0.1:1"}
    return [{"name": "c", "cluster": server | {name.replace("_", "-"): value for name, value in fields.items()}}]


def user(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "u", "user": {name.replace("_", "-"): value for name, value in fields.items()}}]


def pem(what: str) -> str:
    return base64.b64encode(f"-----BEGIN {what}-----\n".encode()).decode()


NO_PEM = base64.b64encode(b"no certificate").decode()
WRONG: list[tuple[object, str]] = [
    ("", "the kubeconfig is empty; name another with --kubeconfig or $KUBECONFIG"),
    ("- a\n- b\n", "expected a mapping with clusters, contexts and users, got a list"),
    ("just text\n", 'expected a mapping with clusters, contexts and users, got "just text"'),
    ("a: [1\n", "not YAML: "),
    (
        config(current_context=None),
        "current-context: expected the name of a context (here), got nothing; or give --context",
    ),
    (
        config(current_context=""),
        "current-context: expected the name of a context (here), got nothing; or give --context",
    ),
    (config(current_context=["here"]), "current-context: expected a name, got a list"),
    (config(current_context="hre"), 'current-context: there is no context "hre"; did you mean "here"?'),
    (config(contexts=None), 'current-context: there is no context "here"; there are no contexts in it'),
    (config(contexts={"here": {}}), "contexts: expected a list, got a mapping"),
    (config(contexts=["here"]), 'contexts[0]: expected a mapping with a name, got "here"'),
    (config(contexts=[{"name": "here"}]), "contexts here: context: expected a mapping, got nothing"),
    (
        config(contexts=[{"name": "here", "context": {"user": "u"}}]),
        "contexts here: cluster: expected the name of a cluster, got nothing",
    ),
    (config(clusters=[]), 'contexts here: cluster: there is no cluster "c"; there are no clusters in it'),
    (config(users=[]), 'contexts here: user: there is no user "u"; there are no users in it'),
    (config(clusters=[{"name": "c", "cluster": None}]), "clusters c: cluster: expected a mapping, got nothing"),
    (
        config(clusters=[{"name": "c", "cluster": {}}]),
        'clusters c: server: expected an address such as "https://10.0.0.1:6443", got nothing',
    ),
    (
        config(clusters=cluster(server=6443)),
        'clusters c: server: expected an address such as "https://10.0.0.1:6443", got 6443',
    ),
    (
        config(clusters=cluster(server="10.0.0.1")),
        'clusters c: server: expected an address such as "https://10.0.0.1:6443", got "10.0.0.1"',
    ),
    (
        config(clusters=cluster(certificate_authority_data="%%%")),
        "clusters c: certificate-authority-data: expected text in base64, got something else",
    ),
    (
        config(clusters=cluster(certificate_authority_data=NO_PEM)),
        "clusters c: certificate-authority-data: expected a certificate in PEM, got something else",
    ),
    (
        config(clusters=cluster(certificate_authority="nowhere.crt")),
        'clusters c: certificate-authority: "nowhere.crt" cannot be read: No such file or directory',
    ),
    (
        config(users=user(client_certificate_data="%%%", client_key_data="%%%")),
        "users u: client-certificate-data: expected text in base64, got something else",
    ),
    (
        config(users=user(client_certificate_data=NO_PEM, client_key_data=NO_PEM)),
        "users u: client-certificate-data: expected a certificate in PEM, got something else",
    ),
    (
        config(users=user(client_certificate_data=NO_PEM)),
        "users u: expected a client certificate with its key, got one of the two",
    ),
    (
        config(clusters=[{"name": "c", "cluster": {"server": "https://127.0.0.1:99999"}}]),
        'clusters c: server: expected an address such as "https://10.0.0.1:6443", got "https://127.0.0.1:99999"',
    ),
    (
        config(users=[{"name": "u", "user": {"tokenFile": "nowhere"}}]),
        'users u: tokenFile: "nowhere" cannot be read: No such file or directory',
    ),
    (
        config(users=user(exec={"command": "sh", "args": "-c"})),
        'users u: exec.args: expected a list, got "-c"',
    ),
    (
        config(users=user(**{"client-certificate-data": pem("PRIVATE KEY"), "client-key-data": pem("CERTIFICATE")})),
        "users u: client-certificate-data: expected a certificate in PEM, got something else",
    ),
    (
        config(users=user(**{"client-certificate-data": pem("CERTIFICATE"), "client-key-data": pem("CERTIFICATE")})),
        "users u: client-key-data: expected a private key in PEM, got something else",
    ),
    (
        config(clusters=cluster(**{"insecure-skip-tls-verify": "yes"})),
        'clusters c: insecure-skip-tls-verify: expected true or false, got "yes"',
    ),
    (config(users=user(tokenFile="/dev/null")), 'users u: tokenFile: expected a token in "/dev/null", got nothing'),
    (
        yaml.safe_dump(config()) + "---\nkind: Config\n",
        "expected one document, got 2; several files may stand in $KUBECONFIG",
    ),
    (config(users=user(token=[1])), "users u: token: expected a string, got a list"),
    (
        config(users=user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": ABSENT})),
        f'users u: exec.command: there is no program "{ABSENT}", which gets the credentials',
    ),
    (config(users=user(exec="get-token")), 'users u: exec: expected a mapping with a command, got "get-token"'),
]


@pytest.mark.parametrize(("content", "line"), WRONG, ids=[line for _, line in WRONG])
def test_what_is_wrong_with_a_kubeconfig_is_one_line(
    content: object, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    assert run(["simulate", "--cluster", "--kubeconfig", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {file}")
    assert said.partition(": ")[2].partition(": ")[2].startswith(line)
    assert said.count("\n") == 1


def test_a_directory_and_a_missing_file_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, line in (
        (tmp_path, "expected a kubeconfig, got a directory; name another with --kubeconfig or $KUBECONFIG"),
        (tmp_path / "nowhere", "no such kubeconfig; name another with --kubeconfig or $KUBECONFIG"),
    ):
        assert run(["simulate", "--cluster", "--kubeconfig", str(path)]) == 2
        assert capsys.readouterr().err == f"error: {path}: {line}\n"


def test_a_context_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config()))
    assert run(["simulate", "--cluster", "--kubeconfig", str(file), "--context", "there"]) == 2
    assert capsys.readouterr().err == f'error: {file}: --context: there is no context "there"; did you mean "here"?\n'


def test_a_server_that_does_not_answer_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(config(clusters=cluster(server=f"http://127.0.0.1:{taken.getsockname()[1]}"))))
        assert run(["simulate", "--cluster", "--kubeconfig", str(file)]) == 1
    said = capsys.readouterr().err
    assert (said.startswith("error: "), said.count("\n")) == (True, 1)


@pytest.mark.parametrize("selector", ["a=b=c,,", ",", "a=b,", "=b", "a in b", "a in (b", "a b", "a~b"])
def test_a_selector_of_labels_that_cannot_be_read_is_one_line(
    selector: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "--node-selector", selector]) == 2
    expected = 'expected labels such as "a=b,c" or "a in (b, c)"'
    assert capsys.readouterr().err == f'error: --node-selector: {expected}, got "{selector}"\n'


@pytest.mark.parametrize("selector", ["a", "!a", "a=b,c", "a==b, c!=d", "x.y/z in (b, c),d", "a notin (b)", "a="])
def test_selectors_that_kubectl_takes_are_taken(selector: str) -> None:
    assert label_selector([selector]) == selector
