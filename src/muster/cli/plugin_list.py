"""`muster plugins`: every plugin and action that a configuration may name."""

from __future__ import annotations

import json
import textwrap

import typer
from rich.console import Console
from rich.text import Text

from muster.cli.inventory import OWN_PACKAGE, PartInfo, inventory
from muster.cli.screen import heading, make_console
from muster.scheduler import builtin_registry


def print_plugins(output: str) -> None:
    """Print the inventory as a list for people, or as JSON."""
    parts = inventory(builtin_registry())
    if output == "json":
        typer.echo(json.dumps([part.to_json() for part in parts], indent=2))
        return
    console = make_console()
    for kind in ("plugin", "action"):
        console.print(heading(f"{kind.capitalize()}s"))
        for part in parts:
            if part.kind == kind:
                _print_part(console, part)
        console.print()


def _print_part(console: Console, part: PartInfo) -> None:
    origin = "" if part.package == OWN_PACKAGE else f" (from package {part.package})"
    console.print()
    console.print(Text.assemble("  ", (part.name, "bold cyan"), origin))
    _print_wrapped(console, part.summary)
    if part.points:
        _print_wrapped(console, f"answers {', '.join(part.points)}", style="dim")
    for argument in part.arguments:
        kind = f"{argument.name}  {argument.type}; default {argument.default}"
        first, *more = textwrap.wrap(kind, console.width - 4, subsequent_indent=" " * 4)
        console.print(Text.assemble("    ", (argument.name, "bold"), (first[len(argument.name) :], "dim")))
        for line in more:
            console.print(Text(f"    {line}", style="dim"))
        _print_wrapped(console, argument.meaning, indent=8)


def _print_wrapped(console: Console, text: str, *, indent: int = 4, style: str = "") -> None:
    for line in textwrap.wrap(text, console.width - indent):
        console.print(Text(" " * indent + line, style=style))
