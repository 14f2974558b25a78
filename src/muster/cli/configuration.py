"""`muster config check`: what a configuration was understood to say, or what is wrong with it; and the profiles."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from muster.cli.inventory import argument_infos, value_text
from muster.cli.screen import heading, make_console, plain_table
from muster.framework import (
    PROFILES,
    Action,
    Plugin,
    PluginOption,
    Registry,
    SchedulerConfig,
    find_config,
    profile_yaml,
)
from muster.scheduler import builtin_registry


def print_profiles(name: str | None) -> None:
    """Print the list of profiles, or one as the file that it stands for."""
    if name is not None:
        typer.echo(profile_yaml(name), nl=False)
        return
    table = plain_table("profile", "what it is")
    for known in PROFILES.values():
        table.add_row(Text(known.name, style="cyan"), Text(known.summary))
    make_console().print(table)


def print_checked(file: str) -> None:
    """Read and check a file or profile; print actions, tiers and plugins with their effective arguments."""
    config = find_config(file)
    registry = builtin_registry()
    registry.check(config, file)
    console = make_console()
    console.print(f"{file}: valid")
    console.print()
    _print_actions(console, config, registry, file)
    for number, tier in enumerate(config.tiers, start=1):
        console.print()
        console.print(heading(f"Tier {number}"))
        for option in tier:
            _print_plugin(console, option, registry, file)


def _print_actions(console: Console, config: SchedulerConfig, registry: Registry, source: str) -> None:
    console.print(heading("Actions, in order"))
    for name in config.actions:
        given = config.arguments_of(name)
        console.print(Text(f"  {name}", style="cyan"))
        _print_arguments(console, registry.make_action(name, given, source), given)


def _print_plugin(console: Console, option: PluginOption, registry: Registry, source: str) -> None:
    flags = "".join(f"  {flag}: {value_text(value)}" for flag, value in sorted(option.flags.items()))
    console.print(Text.assemble("  ", (option.name, "cyan"), flags))
    _print_arguments(console, registry.make_plugin(option, source), option.arguments)


def _print_arguments(console: Console, part: Plugin | Action, given: Mapping[str, object]) -> None:
    """Print each argument's value, and whether the file or the default gave it."""
    values = msgspec.structs.asdict(part.arguments)
    fields = {known.encode_name: known.name for known in msgspec.structs.fields(part.arguments)}
    for info in argument_infos(type(part.arguments)):
        shown = value_text(values[fields[info.name]])
        origin = "" if given.get(info.name) is not None or shown != info.default else "  (default)"
        console.print(Text(f"    {info.name}: {shown}{origin}"))
