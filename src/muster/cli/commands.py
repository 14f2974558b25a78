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
from muster.cli.installation import crds_app, snapshot_app, webhooks_app
from muster.cli.options import (
    Cluster,
    Config,
    Context,
    Files,
    Kubeconfig,
    NodePool,
    NodeSelector,
    SchedulerNames,
    ShardMode,
    ShardModeOption,
    ShardName,
    help_without_command,
    label_selector,
)
from muster.cli.topology import topology_app

app = typer.Typer(
    name="muster",
    help="A batch scheduler for Kubernetes: gangs, queues and topology, on your cluster or an embedded one.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Check and show scheduler configurations.", rich_markup_mode=None)
queues_app = typer.Typer(help="Show queues and their shares.", rich_markup_mode=None)
plugins_app = typer.Typer(help="List plugins and actions, and begin a plugin of your own.", rich_markup_mode=None)
app.add_typer(config_app, name="config")
app.add_typer(queues_app, name="queues")
app.add_typer(plugins_app, name="plugins")
app.add_typer(topology_app, name="topology")
app.add_typer(crds_app, name="crds")
app.add_typer(snapshot_app, name="snapshot")
app.add_typer(webhooks_app, name="webhooks")


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
    """Formats of `muster plugins` and `muster queues show`."""

    TABLE = "table"
    JSON = "json"


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
    help_without_command(context)


root.__doc__ = None  # the help of the app stands above


@config_app.callback(invoke_without_command=True)
def config_root(context: typer.Context) -> None:
    """Check and show scheduler configurations."""
    help_without_command(context)


@queues_app.callback(invoke_without_command=True)
def queues_root(context: typer.Context) -> None:
    """Show queues and their shares."""
    help_without_command(context)


@app.command(short_help="Run the scheduler on an embedded cluster.")
def simulate(
    files: Files = None,
    *,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
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

    With --cluster, the objects are those of a live cluster, and the decisions are what would happen to them.
    The clock is virtual: it jumps to the next moment something happens, until nothing changes any more or
    the limit of --cycles or --until is reached. Exits with 2 when the input is wrong.

    Example: muster simulate cluster.yaml jobs/ --until 10m --output json
    """
    from muster.cli.simulation import RunOptions, print_simulation
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()))
    print_simulation(RunOptions(source, config, cycles, until, seed, timeline), output.value)


@app.command(short_help="Say why a job is not running.")
def explain(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="Name of the job or of one of its pods, or namespace/name.")
    ],
    files: Files = None,
    *,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
    config: Config = None,
    cycles: Cycles = None,
    until: Until = None,
    seed: Seed = 0,
    timeline: Timeline = None,
    output: Annotated[ExplainOutput, typer.Option("--output", help="How to print it.")] = ExplainOutput.TEXT,
) -> None:
    """Say why JOB is not running, with the numbers behind it, and what would let it start.

    The objects of FILEs, or of a live cluster, are run as by `muster simulate`; the job is explained as it stands at
    the end, and every eviction of its pods with the reason they were chosen.

    Example: muster explain team-a/train cluster.yaml jobs.yaml
    """
    from muster.cli.simulation import RunOptions, print_explanation
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()))
    print_explanation(job, RunOptions(source, config, cycles, until, seed, timeline), output.value)


@queues_app.command("show", short_help="Print the tree of queues with their shares.")
def queues_show(
    files: Files = None,
    *,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
    config: Config = None,
    cycles: Cycles = None,
    until: Until = None,
    seed: Seed = 0,
    timeline: Timeline = None,
    resource: Annotated[
        list[str] | None,
        typer.Option("--resource", metavar="NAME", help="What to show; else GPUs and what queues bound."),
    ] = None,
    output: Annotated[ListOutput, typer.Option("--output", help="How to print it.")] = ListOutput.TABLE,
) -> None:
    """Print the tree of queues: quota, limit, fair share, what each holds and asks for, who borrows from whom.

    The objects of FILEs, or of a live cluster, are run as by `muster simulate`; the queues are shown as they stand at
    the end, with the jobs that wait and why. Queues may be Volcano's or KAI's.

    Example: muster queues show cluster.yaml jobs.yaml --config kai
    """
    from muster.cli.queues import print_queues
    from muster.cli.simulation import RunOptions
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()))
    print_queues(RunOptions(source, config, cycles, until, seed, timeline), output.value, resource or ())


@config_app.command("check", short_help="Read a configuration, print what it says.")
def config_check(
    file: Annotated[
        str, typer.Argument(metavar="FILE|PROFILE", help="The configuration to read, or the name of a profile.")
    ],
) -> None:
    """Read a scheduler configuration and print what it was understood to say.

    Plugins, actions and arguments are checked against what is installed. Exits with 2 when something is wrong.

    Example: muster config check volcano-scheduler.conf
    """
    from muster.cli.plugins import print_checked

    print_checked(file)


@config_app.command("show")
def config_show() -> None:
    """Print the configuration that is used when none is given.

    Example: muster config show > scheduler.yaml
    """
    from muster.framework.config import DEFAULT_YAML

    typer.echo(DEFAULT_YAML, nl=False)


@config_app.command("profiles", short_help="List ready configurations, or print one.")
def config_profiles(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The profile to print as a file.", show_default=False)
    ] = None,
) -> None:
    """List the ready configurations, or print one of them as a file that --config takes.

    Everywhere a configuration is asked for, the name of a profile will do: --config kai, or --config profile:kai
    where a file has that name.

    Example: muster config profiles kai > scheduler.yaml
    """
    from muster.cli.plugins import print_profiles

    print_profiles(name)


@plugins_app.callback(invoke_without_command=True)
def plugins(
    context: typer.Context,
    *,
    output: Annotated[ListOutput, typer.Option("--output", help="How to print the list.")] = ListOutput.TABLE,
) -> None:
    """List every plugin and action: arguments with type, default and meaning, and extension points.

    Plugins of installed packages are marked with their package.

    Example: muster plugins --output json
    """
    if context.invoked_subcommand is None:
        from muster.cli.plugins import print_plugins

        print_plugins(output.value)


@plugins_app.command("new", short_help="Write a plugin to begin with, and its test.")
def plugins_new(
    name: Annotated[str, typer.Argument(help="Its name in the scheduler configuration, such as cheap-power.")],
    directory: Annotated[Path, typer.Option("--directory", help="Where its folder is made.")] = Path(),
) -> None:
    """Write a package with a plugin that scores nodes, its test, and a configuration that names it.

    What else a plugin can answer: docs/how-to/write-a-plugin.md.

    Example: muster plugins new cheap-power
    """
    from muster.cli.plugins import write_plugin

    write_plugin(name, directory)


@app.command(short_help="Schedule pods on a Kubernetes cluster.")
def run(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = None,
    scheduler_name: Annotated[
        list[str],
        typer.Option("--scheduler-name", metavar="NAME", help="Serve pods that name this; repeatable."),
    ] = ["volcano"],  # noqa: B006  # the command library copies it
    node_selector: NodeSelector = None,
    node_pool: NodePool = None,
    shard: ShardName = "",
    shard_mode: ShardModeOption = ShardMode.HARD,
    leader_elect: Annotated[
        bool, typer.Option("--leader-elect/--no-leader-elect", help="Let one of several replicas decide.")
    ] = True,
    lease_name: Annotated[
        str,
        typer.Option("--lease-name", metavar="NAME", help="The lease that replicas share; else muster and the shard."),
    ] = "",
    lease_namespace: Annotated[
        str,
        typer.Option("--lease-namespace", metavar="NAME", help="Its namespace; else our own, or kube-system."),
    ] = "",
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="Where /healthz, /readyz and /metrics are answered.")
    ] = ":8080",
    cert: Annotated[
        Path | None,
        typer.Option(
            "--cert",
            metavar="FILE",
            help="Certificate in PEM to answer over HTTPS with; read again when it changes.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Its key in PEM; read again when it changes.", show_default=False),
    ] = None,
    metrics_auth: Annotated[
        bool,
        typer.Option(
            "--metrics-auth/--no-metrics-auth",
            help="Tell metrics only to those whose token the cluster allows to get /metrics; needs --cert.",
        ),
    ] = False,
    period: Annotated[
        float, typer.Option("--period", metavar="SECONDS", min=0.05, help="Time between cycles while pods wait.")
    ] = 1.0,
) -> None:
    """Schedule the pods of a Kubernetes cluster that name this scheduler, until SIGTERM.

    The cluster is the one of the kubeconfig, of $KUBECONFIG or, inside a pod, of its service account. The configuration
    file is read again when it changes. Decisions are logged to the standard error stream, one line each.

    Example: muster run --kubeconfig ~/.kube/config --config volcano-scheduler.conf
    """
    from muster.cli.services import RunSettings, serve
    from muster.cluster.kubernetes import Shard

    serve(
        RunSettings(
            kubeconfig=kubeconfig,
            context=context,
            config=config,
            scheduler_names=tuple(scheduler_name),
            shard=Shard(label_selector(node_selector), node_pool, shard, shard_mode.value),
            leader_elect=leader_elect,
            lease_namespace=lease_namespace,
            lease_name=lease_name,
            listen=listen,
            cert=cert,
            key=key,
            metrics_auth=metrics_auth,
            period_s=period,
        )
    )


@app.command(short_help="See gangs queued, placed and explained.")
def demo() -> None:
    """Show how gangs are queued, placed and explained on a small cluster.

    Example: muster demo
    """
    from muster.cli.demo.story import tell

    tell()
