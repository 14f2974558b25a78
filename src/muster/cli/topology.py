"""The commands `muster topology …` with their options and help; what they do is in `topology_reports`."""

# ruff: noqa: PLC0415  # imports inside functions keep `muster --help` fast, as in `commands`

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.options import Cluster, Context, Kubeconfig, Output, OutputOption, help_without_command

topology_app = typer.Typer(help="Draw, make and check the network topology.", rich_markup_mode=None)


class ShowOutput(StrEnum):
    """Formats of `muster topology show`."""

    TREE = "tree"
    JSON = "json"
    YAML = "yaml"
    DOT = "dot"
    SVG = "svg"


class Selector(StrEnum):
    """How generated HyperNodes find their nodes."""

    NAME = "name"
    LABEL = "label"


Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE|DIR...", help="YAML or JSON with nodes, HyperNodes and pods; - reads standard input."),
]


@topology_app.callback(invoke_without_command=True)
def topology_root(context: typer.Context) -> None:
    """Draw, make and check the network topology."""
    help_without_command(context)


@topology_app.command("show", short_help="Draw the tree: tiers, switches, nodes, free GPUs.")
def show(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|DIR...",
            help="Files as for `muster simulate`; - or nothing reads standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[ShowOutput, typer.Option("--output", "-o", help="How to draw it.")] = ShowOutput.TREE,
    tier: Annotated[
        int | None, typer.Option("--tier", min=0, metavar="N", help="Leave out nodes and domains below tier N.")
    ] = None,
    resource: Annotated[
        str, typer.Option("--resource", metavar="NAME", help="What to count; else GPUs, or CPUs if there are none.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Fold nothing, however large the tree is.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Run the scheduler first, and show where pods end up.")] = False,
) -> None:
    """Draw the topology tree: tiers with their names, switches and nodes, free and total GPUs of each.

    With --cluster, the tree is that of a live cluster. What is wrong with a HyperNode is shown on it. Large trees are
    folded in tree and dot unless --all is given.

    Example: muster topology show cluster.yaml --output svg > topology.svg
    """
    from muster.cli.sources import ObjectSource
    from muster.cli.topology_reports import ShowOptions, print_topology

    source = ObjectSource(files or (), cluster, kubeconfig, context)
    print_topology(source, ShowOptions(output.value, tier, resource, everything, run))


@topology_app.command("generate", short_help="Write HyperNodes from node labels.")
def generate(
    files: Files,
    *,
    from_labels: Annotated[
        str,
        typer.Option("--from-labels", metavar="KEY[,KEY...]", help="Node labels, from the narrowest to the widest."),
    ],
    tier_names: Annotated[
        str,
        typer.Option("--tier-names", metavar="A[,B...]", help="A name per tier; else the last part of each label."),
    ] = "",
    prefix: Annotated[str, typer.Option("--prefix", metavar="P", help="Put before every name.")] = "",
    selector: Annotated[
        Selector,
        typer.Option("--selector", help="Find nodes by name, or by label so that new ones join by themselves."),
    ] = Selector.NAME,
) -> None:
    """Write HyperNodes, one tier per label, for the nodes of FILEs.

    Nodes that lack a label are named on the standard error stream and left out of that tier. Exits with 2 when a
    value of a narrow label stands under two values of a wider one.

    Example: muster topology generate --from-labels rack,spine nodes.yaml | muster topology show nodes.yaml -
    """
    from muster.cli.topology_reports import print_generated
    from muster.topology.generate import make_plan

    plan = make_plan(from_labels, tier_names, prefix, by_label=selector is Selector.LABEL)
    print_generated(files, plan)


@topology_app.command("check", short_help="Report what is wrong with HyperNodes and constraints.")
def check(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|DIR...",
            help="YAML or JSON with nodes, HyperNodes and pods; - reads standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Report everything that is wrong with HyperNodes, and PodGroups whose constraints cannot be met.

    Exits with 0 when there are no errors (warnings and notes may be there), with 1 when there are, with 2 when the
    input cannot be read.

    Example: muster topology check nodes.yaml hypernodes.yaml jobs/
    """
    from muster.cli.sources import ObjectSource
    from muster.cli.topology_reports import print_findings

    if print_findings(ObjectSource(files or (), cluster, kubeconfig, context), output.value):
        raise typer.Exit(1)
