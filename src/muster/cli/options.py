"""Options that several commands share, with their help."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from muster.api.errors import UserError
from muster.api.quantity import parse_seconds

#: The longest that a command waits between two looks, in seconds: a day.
_LONGEST_S: Final = 86_400.0


def waiting_time(least: float) -> Callable[[str], float]:
    """What reads the value of an option that says how long to wait."""

    def read(text: str) -> float:
        try:
            seconds = parse_seconds(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        if not least <= seconds <= _LONGEST_S:
            raise typer.BadParameter(f'expected a time from {least:g}s to 24h, got "{text}"')
        return seconds

    return read


Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE|DIR...",
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
AllowUnknown = Annotated[
    bool, typer.Option("--allow-unknown", help="Note fields of files that nobody knows, instead of refusing them.")
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


class Output(StrEnum):
    """How commands print: for people, narrow or wide, or for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class DocumentOutput(StrEnum):
    """Formats of commands that print objects."""

    YAML = "yaml"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print it; wide: with more on a line.")]
DocumentOption = Annotated[DocumentOutput, typer.Option("--output", "-o", help="How to print them.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print it again whenever it changes, until interrupted.")]
Interval = Annotated[
    float,
    typer.Option(
        "--interval",
        metavar="TIME",
        parser=waiting_time(0.1),
        show_default=False,
        help="With --watch: how long to wait before looking again; else 5s.",
    ),
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
#: More bytes than this are more work than loading the compiler of the kernels; packed ones stand for many.
_SMALL_BYTES = 100_000
_PACKED = 20


def start_small(files: Sequence[str] | None, timeline: Path | None = None) -> None:
    """Before the scheduler is imported: where there is little to do, let it begin without the compiler.

    Only a hint, by the size of the files: the compiler is loaded when there turns out to be much (`kernels.jit`).
    """
    if files is None or "muster.kernels.jit" in sys.modules:
        return
    if sum(_size(Path(file)) for file in (*files, timeline) if file) <= _SMALL_BYTES:
        os.environ.setdefault("MUSTER_KERNELS", "late")


def _size(path: Path) -> int:
    """Bytes; of standard input, and of what is no file, nobody knows."""
    if path.is_dir():
        return sum(map(_size, filter(Path.is_file, path.rglob("*"))))
    return path.stat().st_size * (_PACKED if path.suffix == ".gz" else 1) if path.is_file() else _SMALL_BYTES + 1


_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_TERM = (
    rf"\s*(?:!?\s*{_LABEL}|{_LABEL}\s*(?:==?|!=)\s*{_VALUE}"
    rf"|{_LABEL}\s+(?:in|notin)\s*\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))\s*"
)
_SELECTOR = re.compile(rf"{_TERM}(?:,{_TERM})*")


def label_selector(given: Sequence[str] | None) -> str:
    """What several node selectors say together, as kubectl writes it. Raises UserError.

    Volcano's `key:value` are alternatives, which a selector of labels can only say about one key.
    """
    parts = [part.strip() for text in given or () for part in text.split(",") if ":" in part]
    pairs = [part.partition(":") for part in parts]
    plain = [text for text in given or () if text and ":" not in text]
    if not pairs:
        for text in plain:
            if _SELECTOR.fullmatch(text) is None:
                raise UserError(f'--node-selector: expected labels such as "a=b,c" or "a in (b, c)", got "{text}"')
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
