"""Exit codes and error lines: what a shell script sees."""

import os
import subprocess
import sys

import pytest

from muster import __version__
from muster.api import BackendError, InternalError, UserError
from muster.cli import commands, main
from muster.cli.demo.story import OBJECTS


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(_output: str) -> None:
        raise error

    monkeypatch.setattr("muster.cli.plugins.print_plugins", fail)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"muster {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["config"], ["config", "--help"]])
def test_help_is_not_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 0
    captured = capsys.readouterr()
    assert "Usage: muster" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "frobnicate"),
        (["simulate"], "FILE"),
        (["simulate", "x.yaml", "--cycles", "0"], "--cycles"),
        (["simulate", "x.yaml", "--cycles", "many"], "integer"),
        (["simulate", "x.yaml", "--output", "xml"], "xml"),
        (["simulate", "x.yaml", "--no-such-option"], "--no-such-option"),
        (["explain"], "JOB"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert error.count("\n") == 1


def test_a_users_mistake_is_one_line_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raising(monkeypatch, UserError("expected a number", place="a.yaml", field="spec.weight"))
    assert main.run(["plugins"]) == 2
    assert capsys.readouterr().err == "error: a.yaml: spec.weight: expected a number\n"


def test_a_backend_that_fails_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raising(monkeypatch, BackendError("no answer", retryable=True))
    assert main.run(["plugins"]) == 1
    assert capsys.readouterr().err == "error: no answer\n"


@pytest.mark.parametrize("error", [InternalError("the books do not balance"), ZeroDivisionError("oops")])
def test_a_bug_is_called_a_bug_and_says_how_to_report_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raising(monkeypatch, error)
    assert main.run(["plugins"]) == 1
    shown = capsys.readouterr().err
    assert f"error: this is a bug in muster: {error}" in shown
    assert "Please report it" in shown
    assert "Traceback" in shown


def test_an_interrupt_is_130_and_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _raising(monkeypatch, KeyboardInterrupt())
    assert main.run(["plugins"]) == 130
    assert capsys.readouterr().err == ""


def test_errors_are_red_on_a_terminal_unless_colours_are_unwanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    main.say_error("no")
    assert capsys.readouterr().err == "\x1b[31merror:\x1b[0m no\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    main.say_error("no")
    assert capsys.readouterr().err == "error: no\n"


def _start(*arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "muster", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-m", "muster", "plugins"], stdout=writer, stderr=subprocess.PIPE
    ) as process:
        os.close(writer)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (141, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"], ["--version"]])
def test_help_does_not_wait_for_the_compiler_of_the_kernels(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom muster.cli.main import run\n"
        f"code = run({arguments!r})\n"
        "heavy = [name for name in ('numba', 'numpy', 'rich') if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_m_muster_is_the_same_command() -> None:
    process = _start("simulate", str(OBJECTS), "--cycles", "2", "--until", "3")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2
    assert error == b"error: --cycles and --until exclude each other; give one of them\n"


@pytest.mark.parametrize("command", [[], ["simulate"], ["topology"], ["job", "list"], ["crds", "print"]])
def test_a_short_option_asks_for_help_everywhere(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*command, "--help"]) == 0
    long = capsys.readouterr().out
    assert main.run([*command, "-h"]) == 0
    assert capsys.readouterr().out == long


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["simulat"], "No such command 'simulat'. Did you mean 'simulate'? (see `muster --help`)"),
        (["queue", "lst"], "No such command 'lst'. Did you mean 'list'? (see `muster queue --help`)"),
        (["explain"], "Missing argument 'JOB'. (see `muster explain --help`)"),
        (["topology", "show", "--tier", "x"], "see `muster topology show --help`"),
    ],
)
def test_wrong_usage_points_to_the_help_of_the_command(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    assert error in capsys.readouterr().err


def test_kubectl_calls_the_same_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-muster", "explain", "--help"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 0
    help_text = capsys.readouterr().out
    assert "Usage: kubectl muster explain" in help_text
    assert "Example: kubectl muster explain" in help_text
    assert main.run(["explain"], "kubectl muster") == 2
    assert "see `kubectl muster explain --help`" in capsys.readouterr().err


def test_every_command_has_an_example_in_its_help() -> None:
    callbacks = [
        command.callback for group in (commands.app, commands.config_app) for command in group.registered_commands
    ]
    assert len(callbacks) >= 6
    for callback in callbacks:
        assert callback is not None
        assert "Example: muster " in (callback.__doc__ or ""), callback


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cycles", "many"], "Invalid value for '--cycles': expected an integer such as 3"),
        (["--cycles", "0"], "Invalid value for '--cycles': expected a number of at least 1"),
        (["-o", "xml"], "expected one of 'table', 'wide', 'json', 'yaml', got 'xml'"),
    ],
)
def test_wrong_values_are_told_in_our_words(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["simulate", "x.yaml", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_option_without_its_value_points_to_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["queue", "show", "x.yaml", "-o"]) == 2
    assert capsys.readouterr().err == "error: Option '-o' requires an argument. (see `muster queue show --help`)\n"


@pytest.mark.parametrize("time", ["nan", "inf", "-1", "0", "1e99", "2d", "5m30", "", "soon"])
def test_times_to_wait_are_durations_that_a_clock_can_wait_for(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["explain", "job", "x.yaml", "--watch", f"--interval={time}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: Invalid value for '--interval': expected a ")
    assert f'got "{time}"' in error
    assert error.count("\n") == 1
