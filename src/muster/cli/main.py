"""Entry point of the `muster` command: runs a command, turns errors into one line and an exit code.

    0    done
    1    the cluster or the disk did not answer, a check found errors, or a bug
    2    the input is wrong
    130  interrupted
    141  nobody reads the output any more

Nothing heavy is imported here: `muster --help` must not wait for the compiler of the kernels.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from muster.api.errors import InternalError, MusterError, PluginError
from muster.cli.commands import app
from muster.cli.volcano_flags import understood

INTERRUPTED = 130
BROKEN_PIPE = 141


def main() -> None:
    """Run the command of this process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return _quietly()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _invoke(arguments: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    try:
        given = _in_our_words(arguments) if arguments[:1] == ["run"] else list(arguments)
        code = command.main(args=given, prog_name="muster", standalone_mode=False)
    except typer.TyperException as error:
        say_error(f"{error.format_message()} (see `muster --help`)")
        return error.exit_code
    except (InternalError, PluginError) as error:
        return _bug(error)
    except MusterError as error:
        say_error(str(error))
        return error.exit_code
    except SystemExit as stop:  # the command library's answer to a closed pipe
        raise BrokenPipeError from stop
    except (BrokenPipeError, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001  # whatever else comes out is a bug, and the user should be told so
        return _bug(error)
    return code if isinstance(code, int) else 0


def _in_our_words(arguments: Sequence[str]) -> list[str]:
    """The arguments of `muster run`, also where they are those of Volcano's scheduler. Raises UserError."""
    ours, notes = understood(arguments)
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    return ours


def say_error(text: str) -> None:
    """Write `error: ...` to the standard error stream, in red where colours are wanted."""
    red = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    label = "\x1b[31merror:\x1b[0m" if red else "error:"
    sys.stderr.write(f"{label} {text}\n")


def _bug(error: Exception) -> int:
    from muster.framework.faults import is_of_others, told  # noqa: PLC0415  # imports take a while, and all may be well

    fault = error.__cause__ if isinstance(error.__cause__, Exception) else error
    if not isinstance(fault, PluginError):
        sys.stderr.write("".join(traceback.format_exception(fault)))
    if is_of_others(fault):
        say_error(told(fault))
        return 1
    say_error(f"this is a bug in muster: {str(error) or type(error).__name__}")
    sys.stderr.write(
        "Please report it with the lines above, the command, `muster --version` and, if you can, the input.\n"
    )
    return 1


def _quietly() -> int:
    """Leave without a word; what is still buffered goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return BROKEN_PIPE
