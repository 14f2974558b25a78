"""The commands `muster snapshot …`: what a live cluster looks like now, in a file that every command reads."""

# ruff: noqa: PLC0415  # imports inside functions keep `muster --help` fast, as in `commands`

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import (
    Context,
    Kubeconfig,
    NodePool,
    NodeSelector,
    SchedulerNames,
    ShardMode,
    ShardModeOption,
    ShardName,
    label_selector,
)

snapshot_app = typer.Typer(help="Store what the scheduler sees of a live cluster.", rich_markup_mode=None)


@snapshot_app.callback(invoke_without_command=True)
def snapshot_root(context: typer.Context) -> None:
    """Store what the scheduler sees of a live cluster."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


@snapshot_app.command("save", short_help="Store everything that a cycle would see now.")
def snapshot_save(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to: .jsonl, .json or .yaml, and .gz after it to pack it.")
    ],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
    node_selector: NodeSelector = None,
    node_pool: NodePool = None,
    shard: ShardName = "",
    shard_mode: ShardModeOption = ShardMode.HARD,
    all_annotations: Annotated[
        bool, typer.Option("--all-annotations", help="Keep annotations that no plugin of Muster's reads, too.")
    ] = False,
) -> None:
    """Store everything that a scheduling cycle would see of a live cluster now, so that it can be replayed.

    Kept are the kinds and fields that scheduling reads: no Secrets or ConfigMaps, and of pods neither commands nor
    environment. `muster simulate FILE` and `muster explain JOB FILE` decide as the scheduler would have at that moment;
    a scheduler that works on a part of the cluster needs the options here that say so to `muster run`.

    Example: muster snapshot save before.jsonl.gz
    """
    from muster.cli.snapshot_files import save
    from muster.cli.sources import SCHEDULER_NAMES
    from muster.cluster.kubernetes import Shard
    from muster.cluster.kubernetes.client.shards import Target

    names = tuple(scheduler_name or SCHEDULER_NAMES)
    target = Target(
        kubeconfig, context, Shard(label_selector(node_selector), node_pool, shard, shard_mode.value), names
    )
    save(file, target, all_annotations=all_annotations)
