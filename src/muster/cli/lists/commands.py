"""The groups `muster job`, `muster queue` and `muster node`, with their lists; options and help only, as in `commands`.

`muster jobs`, `muster queues` and `muster nodes` are the same lists. Imports inside functions keep the help fast.
"""

# ruff: noqa: PLC0415  # see above

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.options import (
    AllowUnknown,
    Cluster,
    Config,
    Context,
    Cycles,
    Files,
    Interval,
    Kubeconfig,
    Output,
    OutputOption,
    SchedulerNames,
    Seed,
    Timeline,
    Until,
    Watch,
    help_without_command,
    start_small,
)

job_app = typer.Typer(help="List jobs; run, look at, suspend, resume and delete Jobs.", rich_markup_mode=None)
queue_app = typer.Typer(help="List queues and how they share; make, open, close, delete them.", rich_markup_mode=None)
node_app = typer.Typer(help="List nodes.", rich_markup_mode=None)

OnlyQueue = Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only jobs of this queue.")]
Resources = Annotated[
    list[str] | None,
    typer.Option("--resource", metavar="NAME", help="What to show, repeatable; else GPUs and what queues bound."),
]


@job_app.callback(invoke_without_command=True)
def job_root(context: typer.Context) -> None:
    """List jobs; run, look at, suspend, resume and delete Jobs."""
    help_without_command(context)


@queue_app.callback(invoke_without_command=True)
def queue_root(context: typer.Context) -> None:
    """List queues and how they share; make, open, close, delete them."""
    help_without_command(context)


@node_app.callback(invoke_without_command=True)
def node_root(context: typer.Context) -> None:
    """List nodes."""
    help_without_command(context)


@job_app.command("list", short_help="List jobs: state, place in line and why, when they may start.")
def job_list(
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
    queue: OnlyQueue = None,
    forecast: Annotated[
        bool, typer.Option("--forecast/--no-forecast", help="Run on, to say when jobs that wait would start.")
    ] = True,
    output: OutputOption = Output.TABLE,
    watch: Watch = False,
    interval: Interval = 5.0,
) -> None:
    """List jobs: state, how long they wait or run, their place in line and why, when they are expected to start.

    Jobs are shown as they stand after one scheduling cycle, or at --until. Those that wait come first, in the order in
    which the scheduler serves them. When they start is known where it is known when others end.

    Example: muster jobs cluster.yaml jobs.yaml --until 5m
    """
    start_small(files, timeline)
    from muster.cli.lists.tables import print_jobs
    from muster.cli.screen import watched
    from muster.cli.simulation import RunOptions
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
    options = RunOptions(source, config, cycles, until, seed, timeline)
    watched(lambda: print_jobs(options, output.value, queue=queue, forecast=forecast), interval if watch else None)


@queue_app.command("list", short_help="List queues: state, what they hold and may have, who waits.")
def queue_list(
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
    resource: Resources = None,
    output: OutputOption = Output.TABLE,
    watch: Watch = False,
    interval: Interval = 5.0,
) -> None:
    """List queues: whether they are open, what they hold of what they may have, how many jobs run and wait, and why.

    Queues are shown as they stand after one scheduling cycle, or at --until. `muster queue show` draws the tree.

    Example: muster queues cluster.yaml jobs.yaml
    """
    start_small(files, timeline)
    from muster.cli.lists.tables import print_queue_list
    from muster.cli.screen import watched
    from muster.cli.simulation import RunOptions
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
    options = RunOptions(source, config, cycles, until, seed, timeline)
    watched(lambda: print_queue_list(options, output.value, resource or ()), interval if watch else None)


@queue_app.command("show", short_help="Print the tree of queues with their shares.")
def queue_show(
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
    resource: Resources = None,
    output: OutputOption = Output.TABLE,
    watch: Watch = False,
    interval: Interval = 5.0,
) -> None:
    """Print the tree of queues: quota, limit, fair share, what each holds and asks for, who borrows from whom.

    The objects of FILEs, or of a live cluster, are run as by `muster simulate`; the queues are shown as they stand at
    the end, with the jobs that wait and why. Queues may be Volcano's or KAI's. `muster queues show` is the same.

    Example: muster queue show cluster.yaml jobs.yaml --config kai
    """
    start_small(files, timeline)
    from muster.cli.lists.queue_tree import print_queues
    from muster.cli.screen import watched
    from muster.cli.simulation import RunOptions
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
    options = RunOptions(source, config, cycles, until, seed, timeline)
    watched(lambda: print_queues(options, output.value, resource or ()), interval if watch else None)


@node_app.command("list", short_help="List nodes: state, what is free, whose pods they hold.")
def node_list(
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
    resource: Resources = None,
    output: OutputOption = Output.TABLE,
    watch: Watch = False,
    interval: Interval = 5.0,
) -> None:
    """List nodes: state, what is used and free of each resource, pods and jobs; then how many are in each state.

    Nodes are shown as they stand after one scheduling cycle, or at --until.

    Example: muster nodes cluster.yaml jobs.yaml --output wide
    """
    start_small(files, timeline)
    from muster.cli.lists.tables import print_nodes
    from muster.cli.screen import watched
    from muster.cli.simulation import RunOptions
    from muster.cli.sources import ObjectSource

    source = ObjectSource(files or (), cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
    options = RunOptions(source, config, cycles, until, seed, timeline)
    watched(lambda: print_nodes(options, output.value, resource or ()), interval if watch else None)
