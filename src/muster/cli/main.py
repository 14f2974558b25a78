"""Entry point of the `muster` command: runs a command, turns errors into one line and an exit code.

    0    done
    1    the cluster or the disk did not answer, a check found errors, or a bug
    2    the input is wrong
    130  interrupted
    141  nobody reads the output any more

Nothing heavy is imported here: `muster --help` must not wait for the compiler of the kernels.
"""

from __future__ import annotations

import copy
import gc
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Final

# Modules make many objects and no garbage: looking through them again and again is a tenth of a short command.
gc.set_threshold(50_000, 20, 50)

import typer  # noqa: E402  # see above

from muster.api.errors import InternalError, MusterError, PluginError  # noqa: E402
from muster.cli.commands import app  # noqa: E402
from muster.cli.volcano_flags import understood  # noqa: E402

INTERRUPTED = 130
BROKEN_PIPE = 141


#: What kubectl looks for when somebody types `kubectl muster`: the same program under another name.
PLUGIN_NAMES = ("kubectl-muster", "kubectl_muster")
#: Old spellings of commands, and the new ones.
_RENAMED: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("queues", "show"): ("queue", "show")}


def main() -> None:
    """Run the command of this process."""
    is_plugin = os.path.basename(sys.argv[0]) in PLUGIN_NAMES  # noqa: PTH119  # importing paths takes longer
    sys.exit(run(sys.argv[1:], "kubectl muster" if is_plugin else "muster"))


def run(arguments: Sequence[str], name: str = "muster") -> int:
    """Run one command and return its exit code; `name` is what the user calls this program."""
    try:
        code = _invoke(arguments, name)
        sys.stdout.flush()
    except BrokenPipeError:
        return _quietly()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _invoke(arguments: Sequence[str], name: str) -> int:
    try:
        given = _in_our_words(arguments) if arguments[:1] == ["run"] else list(arguments)
        given[:2] = _RENAMED.get(tuple(given[:2]), given[:2])
        command = typer.main.get_command(_part_for(given))
        if name != "muster":
            _call_it(command, name)
        code = command.main(args=given, prog_name=name, standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        called = _called(command, name, given) if context is None else context.command_path
        say_error(f"{_said(error)} (see `{called} --help`)")
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


def _called(command: object, name: str, arguments: Sequence[str]) -> str:
    """The command that was called, for errors that do not say."""
    for word in arguments:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            break
        command, name = inner, f"{name} {word}"
    return name


def _part_for(arguments: Sequence[str]) -> typer.Typer:
    """The commands without those that are not asked for: making all of them takes longer than many a command runs."""
    first = arguments[0] if arguments else ""
    if first == "completion":
        return app  # tells of all of them
    commands = [known for known in app.registered_commands if _name_of(known) == first]
    groups = [known for known in app.registered_groups if known.name == first]
    if not commands and not groups:
        return app  # help, or a word that nobody knows
    part = copy.copy(app)
    part.registered_commands, part.registered_groups = commands, groups
    return part


def _name_of(command: typer.models.CommandInfo) -> str:
    return command.name or ("" if command.callback is None else command.callback.__name__)


#: What the library that reads values says, and how everything else here says it.
_WORDS: Final = (
    (r": ('.*') is not a valid int(?:eger)?(?: range)?\.", r": expected an integer such as 3, got \1"),
    (r"(\S+) is not in the range x>=(\S+)\.", r"expected a number of at least \2, got \1"),
    (r": ('.*') is not one of (.*)\.", r": expected one of \2, got \1"),
)


def _said(error: typer.TyperException) -> str:
    """What is wrong with how the command was called; a missing or unknown word in one line."""
    said = " ".join(error.format_message().split())
    for theirs, ours in _WORDS:
        said = re.sub(theirs, ours, said)
    return said


def _call_it(command: object, name: str) -> None:
    """Let the examples in the help of all commands begin with what the user types."""
    for part in (command, *getattr(command, "commands", {}).values()):
        text = getattr(part, "help", None)
        if text and "Example: muster " in text:
            part.help = text.replace("Example: muster ", f"Example: {name} ").replace("| muster ", f"| {name} ")
        if part is not command and hasattr(part, "commands"):
            _call_it(part, name)


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
