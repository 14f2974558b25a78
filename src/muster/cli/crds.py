"""The commands `muster crds …`: the definitions of the kinds that Muster works with."""

# ruff: noqa: PLC0415  # imports inside functions keep `muster --help` fast, as in `commands`

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.options import Context, Kubeconfig

crds_app = typer.Typer(help="Print and install the definitions of Muster's kinds.", rich_markup_mode=None)


class DefinitionOutput(StrEnum):
    """Formats of `muster crds print`."""

    YAML = "yaml"
    JSON = "json"


@crds_app.callback(invoke_without_command=True)
def crds_root(context: typer.Context) -> None:
    """Print and install the definitions of PodGroup, Queue, HyperNode and Job."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


@crds_app.command("print", short_help="Print the definitions, for kubectl or a chart.")
def crds_print(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND", help="PodGroup, Queue, HyperNode or Job; all when none is named.", show_default=False
        ),
    ] = None,
    *,
    output: Annotated[DefinitionOutput, typer.Option("--output", help="How to print them.")] = DefinitionOutput.YAML,
) -> None:
    """Print the definitions of KINDs, or of all, for kubectl or a chart.

    Example: muster crds print | kubectl create -f -
    """
    from muster.cli.crd_reports import print_definitions

    print_definitions(kinds or (), output.value)


@crds_app.command("install", short_help="Install the definitions in a cluster.")
def crds_install(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the server check everything, and change nothing.")
    ] = False,
) -> None:
    """Install the definitions in a cluster, and bring those up to date that Muster installed before.

    Definitions that somebody else installed, such as Volcano's own, are left as they are and used. Exits with 1 when
    one of those does not serve the version that Muster needs.

    Example: muster crds install --kubeconfig ~/.kube/config
    """
    from muster.cli.crd_reports import print_installed

    if not print_installed(kubeconfig, context, dry_run=dry_run):
        raise typer.Exit(1)
