"""Options that several commands share, with their help."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.api.errors import UserError

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE|DIR",
        help="YAML or JSON with nodes, queues, PodGroups and pods, or a saved snapshot; - reads standard input.",
        show_default=False,
    ),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="Read a live cluster instead of files. It is not changed.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="How to reach the cluster; else $KUBECONFIG or the pod's own."),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig to use.")]
SchedulerNames = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name",
        metavar="NAME",
        help="Schedule pods that name this; repeatable. Else volcano with a cluster, all pods of files.",
        show_default=False,
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE|PROFILE",
        help="Scheduler configuration, as Volcano's, or a profile such as kai; else the default.",
    ),
]
NodeSelector = Annotated[
    list[str] | None,
    typer.Option(
        "--node-selector",
        metavar="LABELS",
        help="Work on nodes with these labels only: a=b,c; as Volcano's, with either of two: a:b,a:c. Repeatable.",
        show_default=False,
    ),
]
NodePool = Annotated[
    str | None,
    typer.Option(
        "--node-pool",
        metavar="NAME",
        help="Work on one of KAI's pools of nodes, queues and gangs; an empty name: on what is in no pool.",
        show_default=False,
    ),
]


class ShardMode(StrEnum):
    """What nodes outside of a shard are."""

    HARD = "hard"
    SOFT = "soft"


ShardName = Annotated[
    str, typer.Option("--shard", metavar="NAME", help="Work on the nodes that this NodeShard of Volcano's names.")
]
ShardModeOption = Annotated[
    ShardMode, typer.Option("--shard-mode", help="Whether other nodes are no choice, or the last one.")
]


def label_selector(given: Sequence[str] | None) -> str:
    """What several node selectors say together, as kubectl writes it. Raises UserError.

    Volcano's `key:value` are alternatives, which a selector of labels can only say about one key.
    """
    parts = [part.strip() for text in given or () for part in text.split(",") if ":" in part]
    pairs = [part.partition(":") for part in parts]
    plain = [text for text in given or () if text and ":" not in text]
    if not pairs:
        return ",".join(plain)
    keys = {key for key, _, _ in pairs}
    if len(keys) > 1 or plain or any("=" in part for text in given or () for part in text.split(",")):
        shown = " ".join(given or ())
        raise UserError(f'--node-selector: expected values of one label such as "a:b,a:c", or "a=b,c=d", got "{shown}"')
    values = sorted({value.strip() for _, _, value in pairs})
    return f"{keys.pop()} in ({','.join(values)})" if len(values) > 1 else f"{keys.pop()}={values[0]}"


def help_without_command(context: typer.Context) -> None:
    """Show what a group of commands has, where somebody names the group alone."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
