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
from muster.cli.dashboard.command import ui
from muster.cli.installation import crds_app, snapshot_app, webhooks_app
from muster.cli.lab.commands import compare, replay
from muster.cli.lists.commands import job_list, node_app, node_list, queue_list
from muster.cli.options import (
    AllowUnknown,
    Cluster,
    Config,
    Context,
    Cycles,
    Files,
    Interval,
    Kubeconfig,
    NodePool,
    NodeSelector,
    Output,
    OutputOption,
    SchedulerNames,
    Seed,
    ShardMode,
    ShardModeOption,
    ShardName,
    Timeline,
    Until,
    Watch,
    help_without_command,
    label_selector,
    start_small,
    waiting_time,
)
from muster.cli.topology import topology_app
from muster.cli.workloads.commands import job_app, queue_app

app = typer.Typer(
    name="muster",
    help="A batch scheduler for Kubernetes: gangs, queues and topology, on your cluster or an embedded one.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Check and show scheduler configurations.", rich_markup_mode=None)
plugins_app = typer.Typer(help="List plugins and actions, and begin a plugin of your own.", rich_markup_mode=None)
app.add_typer(job_app, name="job")
app.add_typer(queue_app, name="queue")
app.add_typer(node_app, name="node")
app.add_typer(config_app, name="config")
app.add_typer(plugins_app, name="plugins")
app.add_typer(topology_app, name="topology")
app.add_typer(crds_app, name="crds")
app.add_typer(snapshot_app, name="snapshot")
app.add_typer(webhooks_app, name="webhooks")


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


@app.command(short_help="Run the scheduler on an embedded cluster.")
def simulate(
    files: Files = None,
    *,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
    allow_unknown: AllowUnknown = False,
    config: Config = None,
    cycles: Cycles = None,
    until: Until = None,
    seed: Seed = 0,
    timeline: Timeline = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the scheduler on an embedded cluster with the objects of FILEs, and print every decision.

    With --cluster, the objects are those of a live cluster, and the decisions are what would happen to them.
    The clock is virtual: it jumps to the next moment something happens, until nothing changes any more or
    the limit of --cycles or --until is reached. Exits with 2 when the input is wrong.

    Example: muster simulate cluster.yaml jobs/ --until 10m --output json
    """
    start_small(files, timeline)
    from muster.cli.simulation import RunOptions, print_simulation
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
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
    allow_unknown: AllowUnknown = False,
    config: Config = None,
    cycles: Cycles = None,
    until: Until = None,
    seed: Seed = 0,
    timeline: Timeline = None,
    output: OutputOption = Output.TABLE,
    watch: Watch = False,
    interval: Interval = 5.0,
) -> None:
    """Say why JOB is not running, with the numbers behind it, and what would let it start.

    The objects of FILEs, or of a live cluster, are run as by `muster simulate`; the job is explained as it stands at
    the end, and every eviction of its pods with the reason they were chosen.

    Example: muster explain team-a/train cluster.yaml jobs.yaml
    """
    start_small(files, timeline)
    from muster.cli.screen import watched
    from muster.cli.simulation import RunOptions, print_explanation
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
    options = RunOptions(source, config, cycles, until, seed, timeline)
    watched(lambda: print_explanation(job, options, output.value), interval if watch else None)


@app.command(short_help="Say what changes would do, and change nothing.")
def whatif(
    files: Files = None,
    *,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
    allow_unknown: AllowUnknown = False,
    add_nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--add-nodes",
            metavar="NxNODE",
            help="So many more nodes like NODE, 8xgpu-1, or like those of a file.",
            show_default=False,
        ),
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option("--drain", metavar="NODE", help="Cordon NODE and let its pods leave.", show_default=False),
    ] = None,
    submit: Annotated[
        list[str] | None,
        typer.Option(
            "--submit",
            metavar="FILE",
            help="Create the objects of FILE: a job with all that it needs.",
            show_default=False,
        ),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="JOB", help="Delete JOB with its pods.", show_default=False),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="QUEUE.FIELD=VALUE",
            help="Another quota, limit, guarantee, weight or priority: a.quota=40, a.limit.cpu=64.",
            show_default=False,
        ),
    ] = None,
    priority: Annotated[
        list[str] | None,
        typer.Option(
            "--priority",
            metavar="JOB=CLASS",
            help="Another priority for JOB: a class, or a number.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE|PROFILE", help="Another scheduler configuration, as a change."),
    ] = None,
    base_config: Annotated[
        str | None,
        typer.Option(
            "--base-config", metavar="FILE|PROFILE", help="The configuration without changes; else the default."
        ),
    ] = None,
    cycles: Cycles = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="How far to look ahead, such as 2h; else until nothing changes."),
    ] = None,
    seed: Seed = 0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say what changes would do: who would start, wait, be evicted or move, when and at what cost.

    The scheduler runs twice on an embedded cluster with the objects of FILEs, of a saved snapshot or of a live cluster,
    without the changes and with them, and both are printed beside each other. Nothing is changed: with --cluster,
    rights to read are enough. Pods end when they are expected to, as far as that is known. Changes may be repeated.

    Example: muster whatif cluster.yaml jobs.yaml --drain n1 --queue research.quota=16
    """
    start_small(files)
    from muster.cli.lab.whatif import WhatIfCommand, print_what_if
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
    given = {
        "--config": [config] if config is not None else [],
        "--queue": queue,
        "--add-nodes": add_nodes,
        "--drain": drain,
        "--submit": submit,
        "--priority": priority,
        "--delete": delete,
    }
    changes = tuple((flag, value) for flag, values in given.items() for value in values or ())
    print_what_if(WhatIfCommand(source, changes, base_config, cycles, duration, seed), output.value)


app.command(short_help="Replay a trace of jobs, and report on waits, utilisation and lost work.")(replay)
app.command(short_help="Replay traces under several configurations, and say which is better at what.")(compare)

# The plural of each is what people type first.
app.command("jobs", short_help="List jobs: state, place in line and why, when they may start.")(job_list)
app.command("queues", short_help="List queues: state, what they hold and may have, who waits.")(queue_list)
app.command("nodes", short_help="List nodes: state, what is free, whose pods they hold.")(node_list)
app.command("ui", short_help="Show cluster, queues, jobs and decisions in a browser.")(ui)


@config_app.command("check", short_help="Read a configuration, print what it says.")
def config_check(
    file: Annotated[
        str, typer.Argument(metavar="FILE|PROFILE", help="The configuration to read, or the name of a profile.")
    ],
    *,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read a scheduler configuration and print what it was understood to say.

    Plugins, actions and arguments are checked against what is installed. Exits with 2 when something is wrong.

    Example: muster config check volcano-scheduler.conf
    """
    from muster.cli.plugins import print_checked

    print_checked(file, output.value)


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
    *,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the ready configurations, or print one of them as a file that --config takes.

    Everywhere a configuration is asked for, the name of a profile will do: --config kai, or --config profile:kai
    where a file has that name.

    Example: muster config profiles kai > scheduler.yaml
    """
    from muster.cli.plugins import print_profiles

    print_profiles(name, output.value)


@plugins_app.callback(invoke_without_command=True)
def plugins(
    context: typer.Context,
    *,
    output: OutputOption = Output.TABLE,
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
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name in the scheduler configuration, such as cheap-power.")
    ],
    directory: Annotated[Path, typer.Option("--directory", metavar="DIR", help="Where its folder is made.")] = Path(),
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
        float,
        typer.Option(
            "--period",
            metavar="TIME",
            parser=waiting_time(0.05),
            show_default=False,
            help="Time between cycles while pods wait; else 1s.",
        ),
    ] = 1.0,
    components: Annotated[
        str,
        typer.Option(
            "--components",
            metavar="NAMES",
            help="Parts to run: scheduler, controllers, admission, ui; "
            "else the first two, and admission if there is a certificate.",
        ),
    ] = "",
    webhook_cert: Annotated[
        Path | None,
        typer.Option(
            "--webhook-cert", metavar="FILE", help="Certificate in PEM to answer webhooks with.", show_default=False
        ),
    ] = None,
    webhook_key: Annotated[
        Path | None, typer.Option("--webhook-key", metavar="FILE", help="Its key in PEM.", show_default=False)
    ] = None,
    webhook_listen: Annotated[
        str, typer.Option("--webhook-listen", metavar="ADDRESS", help="Where webhooks are answered.")
    ] = ":8443",
    discovery: Annotated[
        str,
        typer.Option(
            "--discovery",
            metavar="NAMESPACE/NAME",
            help="ConfigMap that says where controllers learn of the network.",
        ),
    ] = "volcano-system/volcano-controller-configmap",
    take_over_jobs: Annotated[
        bool,
        typer.Option(
            "--take-over-jobs",
            help="Serve Jobs also where Volcano is installed; its own controllers have to be off.",
        ),
    ] = False,
    ui_listen: Annotated[
        str,
        typer.Option(
            "--ui-listen",
            metavar="ADDRESS",
            help="Where the dashboard answers, HOST:PORT; beyond loopback whoever the cluster knows may read.",
        ),
    ] = "127.0.0.1:8330",
) -> None:
    """Schedule the pods of a Kubernetes cluster that name this scheduler, and make those of Jobs, until SIGTERM.

    The cluster is the one of the kubeconfig, of $KUBECONFIG or, inside a pod, of its service account. The configuration
    file is read again when it changes. Decisions are logged to the standard error stream, one line each.

    Example: muster run --kubeconfig ~/.kube/config --config volcano-scheduler.conf
    """
    from muster.cli.services import RunSettings, components_of, serve, webhooks_of
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
            components=components_of(components),
            take_over_jobs=take_over_jobs,
            webhooks=webhooks_of(webhook_cert, webhook_key, webhook_listen, kubeconfig, context, scheduler_name),
            discovery=discovery,
            ui_listen=ui_listen,
        )
    )


@app.command(short_help="Print JSON Schemas of files, for editors.")
def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The schema to print; else all are listed.", show_default=False)
    ] = None,
) -> None:
    """Print the JSON Schema of a file that Muster reads, so that editors complete and check it.

    There is one for files with objects of any kind, one for each kind, and one each for the scheduler configuration and
    for timelines. How to tell an editor: docs/how-to/edit.md.

    Example: muster schema objects > muster-objects.json
    """
    from muster.cli.schemas import print_schema

    print_schema(name)


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command(short_help="Print a script that lets a shell complete commands.")
def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]
) -> None:
    """Print a script that lets a shell complete commands, options and their values.

    In ~/.bashrc: source <(muster completion bash). In ~/.zshrc, after compinit: source <(muster completion zsh).
    For fish: muster completion fish > ~/.config/fish/completions/muster.fish

    Example: muster completion bash > /etc/bash_completion.d/muster
    """
    from muster.cli.completion import print_script

    assert context.parent is not None
    print_script(shell.value, context.parent.command)


@app.command(short_help="See gangs queued, placed and explained.")
def demo() -> None:
    """Show how gangs are queued, placed and explained on a small cluster.

    Example: muster demo
    """
    start_small([])
    from muster.cli.demo.story import tell

    tell()
