"""The page on commands: the help of each, as the program prints it."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from typer.core import TyperGroup

from muster.cli.commands import app
from muster.docs.markdown import code, page, table

_WIDTH = 100
_EXIT_CODES = (
    ("0", "done"),
    ("1", "the cluster or the disk did not answer, a check found errors, or a bug in muster"),
    ("2", "the input is wrong: a file, an option, a configuration"),
    ("130", "interrupted"),
    ("141", "nobody reads the output any more"),
)


def command_names() -> list[str]:
    """Every command as one types it, without the program's name."""
    return [name for name, _ in _helps()]


def cli_page() -> str:
    """Return the page."""
    sections = [f"## muster {name}".rstrip() + "\n\n" + code(text) for name, text in _helps()]
    return page(
        "Command line",
        "The same texts as `muster COMMAND --help` prints. Errors go to the standard error stream as one line.",
        table(("exit code", "meaning"), _EXIT_CODES),
        *sections,
    )


def _helps() -> Iterator[tuple[str, str]]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    yield "", _help(group, "muster")
    for name, command in group.commands.items():
        yield name, _help(command, f"muster {name}")
        if isinstance(command, TyperGroup):
            for inner, leaf in command.commands.items():
                yield f"{name} {inner}", _help(leaf, f"muster {name} {inner}")


def _help(command: object, name: str) -> str:
    context_class = getattr(command, "context_class")  # noqa: B009  # typer types its commands loosely
    context = context_class(command, info_name=name, terminal_width=_WIDTH, max_content_width=_WIDTH)
    text: str = context.get_help()
    return "\n".join(line.rstrip() for line in text.splitlines())
