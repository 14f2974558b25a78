"""A command line for Volcano's scheduler starts `muster run` as it is."""

from __future__ import annotations

import pytest

from muster.api import UserError
from muster.cli.main import run
from muster.cli.options import label_selector
from muster.cli.volcano_flags import understood


def ours(*arguments: str) -> list[str]:
    return understood(arguments)[0]


def notes(*arguments: str) -> list[str]:
    return understood(arguments)[1]


@pytest.mark.parametrize(
    ("theirs", "own"),
    [
        (["--scheduler-conf=/etc/volcano.conf"], ["--config", "/etc/volcano.conf"]),
        (["--scheduler-conf", "/etc/volcano.conf"], ["--config", "/etc/volcano.conf"]),
        (["--schedule-period=500ms"], ["--period", "0.5"]),
        (["--listen-address=:8080"], ["--listen", ":8080"]),
        (["--leader-elect=false"], ["--no-leader-elect"]),
        (["--leader-elect=true"], ["--leader-elect"]),
        (["--leader-elect"], ["--leader-elect"]),
        (["--leader-elect-resource-namespace=volcano-system"], ["--lease-namespace", "volcano-system"]),
        (["--lock-object-namespace", "volcano-system"], ["--lease-namespace", "volcano-system"]),
        (["--leader-elect-resource-name=vc"], ["--lease-name", "vc"]),
        (["--tls-cert-file=a", "--tls-private-key-file=b"], ["--cert", "a", "--key", "b"]),
        (["--scheduler-sharding-mode=soft", "--scheduler-sharding-name=s1"], ["--shard", "s1", "--shard-mode", "soft"]),
        (["--scheduler-sharding-mode=hard"], ["--shard", "volcano", "--shard-mode", "hard"]),
        (["--scheduler-sharding-name=s1"], []),
    ],
)
def test_flags_of_another_name_are_translated(theirs: list[str], own: list[str]) -> None:
    assert ours("run", *theirs, "--scheduler-name=volcano") == [
        "run",
        *(own if "--shard" not in own else []),
        "--scheduler-name=volcano",
        *(own if "--shard" in own else []),
    ]


def test_our_own_flags_are_left_as_they_are() -> None:
    given = ["run", "--config", "muster", "--no-leader-elect", "--node-selector", "a=b", "--shard", "s", "--period=2"]
    assert understood(given) == (given, [])


def test_flags_without_effect_are_dropped_with_a_note_each() -> None:
    given = [
        "run",
        "--kube-api-qps",
        "2000",
        "--kube-api-burst=2000",
        "--enable-metrics",
        "-v",
        "3",
        "--csi-storage=false",
    ]
    assert ours(*given) == ["run"]
    assert notes(*given)[0] == "--kube-api-qps has no effect: requests are paced by what the server answers"
    assert len(notes(*given)) == 5
    assert len(notes("run", "--v=3", "--v=5")) == 1


@pytest.mark.parametrize("flag", ["--default-queue=other", "--priority-class=false"])
def test_flags_that_would_change_decisions_are_refused(flag: str) -> None:
    with pytest.raises(UserError, match="nothing else is supported here"):
        understood(["run", flag])
    name = flag.partition("=")[0]
    assert ours("run", "--default-queue=default", "--priority-class") == ["run"]
    assert name in " ".join(notes("run", "--default-queue=default", "--priority-class=true"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--schedule-period=soon"], "--schedule-period: "),
        (["--leader-elect=perhaps"], "--leader-elect: expected true or false"),
        (["--kube-api-qps"], "--kube-api-qps: expected a value, got nothing"),
    ],
)
def test_values_that_cannot_be_read_are_refused(given: list[str], text: str) -> None:
    with pytest.raises(UserError, match=text):
        understood(["run", *given])


def test_a_flag_that_loads_code_is_no_flag_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--plugins-dir=/plugins", "--kube-api-qps=9"]) == 2
    said = capsys.readouterr().err
    assert "note: --kube-api-qps has no effect" in said
    assert "--plugins-dir" in said


def test_only_run_takes_them() -> None:
    assert run(["simulate", "--kube-api-qps=9"]) == 2


@pytest.mark.parametrize(
    ("given", "selector"),
    [
        (None, ""),
        (["a=b,c"], "a=b,c"),
        (["a=b", "!c"], "a=b,!c"),
        (["a in (b,c)"], "a in (b,c)"),
        (["volcano.sh/role:train"], "volcano.sh/role=train"),
        (["role:train", "role:serve"], "role in (serve,train)"),
        (["role:train,role:serve"], "role in (serve,train)"),
    ],
)
def test_nodes_are_selected_in_either_way_of_writing(given: list[str] | None, selector: str) -> None:
    assert label_selector(given) == selector


@pytest.mark.parametrize("given", [["a:b", "c:d"], ["a:b,c=d"], ["a:b", "c"]])
def test_alternatives_of_several_labels_cannot_be_said(given: list[str]) -> None:
    with pytest.raises(UserError, match="expected values of one label"):
        label_selector(given)
