"""The commands with their options and help; what they do stands in the modules that they import when run.

The help of every command, and the reference page made from it, comes from the signatures and docstrings here.
Imports inside functions are on purpose: they keep `muster --help` and shell completion fast.
"""

# ruff: noqa: PLC0415  # see above

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster import __version__
from muster.cli.topology import topology_app

app = typer.Typer(
    name="muster",
    help="A batch scheduler for Kubernetes: gangs, queues and topology, on an embedded cluster.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Check and show scheduler configurations.", rich_markup_mode=None)
app.add_typer(config_app, name="config")
app.add_typer(topology_app, name="topology")


class SimulateOutput(StrEnum):
    """Formats of `muster simulate`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ExplainOutput(StrEnum):
    """Formats of `muster explain`."""

    TEXT = "text"
    JSON = "json"


class ListOutput(StrEnum):
    """Formats of `muster plugins`."""

    TABLE = "table"
    JSON = "json"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|DIR",
        help="YAML or JSON with nodes, queues, PodGroups and pods; - reads standard input.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Scheduler configuration, as Volcano's; else the default."),
]
Cycles = Annotated[int | None, typer.Option("--cycles", min=1, metavar="N", help="Stop after N scheduling cycles.")]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Stop at this time of the virtual clock, such as 90s or 10m."),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of everything random; the same seed, the same decisions.")
]
Timeline = Annotated[
    Path | None,
    typer.Option("--timeline", metavar="FILE", help="What happens later: objects and nodes that come and go."),
]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Show the version or, without a command, the help."""
    if version:
        typer.echo(f"muster {__version__}")
        raise typer.Exit
    _help_without_command(context)


root.__doc__ = None  # the help of the app stands above


@config_app.callback(invoke_without_command=True)
def config_root(context: typer.Context) -> None:
    """Check and show scheduler configurations."""
    _help_without_command(context)


def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


@app.command(short_help="Run the scheduler on an embedded cluster.")
def simulate(
    files: Files,
    *,
    config: Config = None,
    cycles: Cycles = None,
    until: Until = None,
    seed: Seed = 0,
    timeline: Timeline = None,
    output: Annotated[SimulateOutput, typer.Option("--output", help="How to print the result.")] = (
        SimulateOutput.TABLE
    ),
) -> None:
    """Run the scheduler on an embedded cluster with the objects of FILEs, and print every decision.

    The clock is virtual: it jumps to the next moment something happens, until nothing changes any more or
    the limit of --cycles or --until is reached. Exits with 2 when the input is wrong.

    Example: muster simulate cluster.yaml jobs/ --until 10m --output json
    """
    from muster.cli.runs import RunOptions, print_simulation

    print_simulation(RunOptions(files, config, cycles, until, seed, timeline), output.value)


@app.command(short_help="Say why a job is not running.")
def explain(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="Name of the job or of one of its pods, or namespace/name.")
    ],
    files: Files,
    *,
    config: Config = None,
    cycles: Cycles = None,
    until: Until = None,
    seed: Seed = 0,
    timeline: Timeline = None,
    output: Annotated[ExplainOutput, typer.Option("--output", help="How to print it.")] = ExplainOutput.TEXT,
) -> None:
    """Say why JOB is not running, with the numbers behind it, and what would let it start.

    The objects of FILEs are run as by `muster simulate`; the job is explained as it stands at the end, and every
    eviction of its pods with the reason they were chosen.

    Example: muster explain team-a/train cluster.yaml jobs.yaml
    """
    from muster.cli.runs import RunOptions, print_explanation

    print_explanation(job, RunOptions(files, config, cycles, until, seed, timeline), output.value)


@config_app.command("check", short_help="Read a configuration, print what it says.")
def config_check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration to read.")],
) -> None:
    """Read a scheduler configuration and print what it was understood to say.

    Plugins, actions and arguments are checked against what is installed. Exits with 2 when something is wrong.

    Example: muster config check volcano-scheduler.conf
    """
    from muster.cli.configuration import print_checked

    print_checked(file)


@config_app.command("show")
def config_show() -> None:
    """Print the configuration that is used when none is given.

    Example: muster config show > scheduler.yaml
    """
    from muster.framework.config import DEFAULT_YAML

    typer.echo(DEFAULT_YAML, nl=False)


@app.command(short_help="List every plugin and action.")
def plugins(
    *,
    output: Annotated[ListOutput, typer.Option("--output", help="How to print the list.")] = ListOutput.TABLE,
) -> None:
    """List every plugin and action: arguments with type, default and meaning, and extension points.

    Plugins of installed packages are marked with their package.

    Example: muster plugins --output json
    """
    from muster.cli.plugin_list import print_plugins

    print_plugins(output.value)


@app.command(short_help="See gangs queued, placed and explained.")
def demo() -> None:
    """Show how gangs are queued, placed and explained on a small cluster.

    Example: muster demo
    """
    from muster.cli.demo.story import tell

    tell()
