"""Where the objects of a command come from: files, or a live cluster that is read once and left as it is.

Whatever the source, the commands run the same way afterwards, on the embedded cluster.
"""

# ruff: noqa: PLC0415  # commands on files must not wait for the client of a cluster

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from muster.api import KubeObject, Loaded, LoadedFiles, UserError, load_files
from muster.explain.words import counted

if TYPE_CHECKING:
    from muster.cluster.kubernetes.client.commands import Listing
    from muster.cluster.kubernetes.client.shards import Target

#: The name that Volcano's users write into their pods, and that `muster run` serves by default.
SCHEDULER_NAMES = ("volcano",)
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """What the options of a command say, as given."""

    files: Sequence[str] = ()
    cluster: bool = False
    kubeconfig: Path | None = None
    context: str | None = None
    #: Whose pods are scheduled; none: as the source says.
    scheduler_names: tuple[str, ...] = ()


def read(source: ObjectSource, *, checked: bool = True) -> Sequence[KubeObject | Loaded]:
    """Return the objects, and say on the standard error stream what was left out. Raises MusterError."""
    _check(source)
    if source.cluster:
        from muster.cluster.kubernetes.client.shards import Target

        names = source.scheduler_names or SCHEDULER_NAMES
        return read_cluster(Target(source.kubeconfig, source.context, scheduler_names=names)).objects
    loaded = load_files(source.files, checked=checked)
    _report_skipped(loaded)
    return loaded


def _check(source: ObjectSource) -> None:
    if source.cluster and source.files:
        raise UserError(f"--cluster and files exclude each other; leave out --cluster or {source.files[0]}")
    if not source.cluster and not source.files:
        raise UserError("expected a FILE with nodes, queues and pods, or --cluster for those of a live cluster")
    if not source.cluster and (source.kubeconfig is not None or source.context is not None):
        option = "--context" if source.kubeconfig is None else "--kubeconfig"
        raise UserError(f"{option} says which cluster to read; give --cluster as well, and no files")


def read_cluster(target: Target) -> Listing:
    """List a cluster, with a line on the terminal that says how far it is. Raises MusterError."""
    from muster.cluster.kubernetes.client.commands import list_cluster

    console = Console(stderr=True, highlight=False)
    counts: dict[str, int] = {}
    with console.status("connecting ...") as status:

        def progress(kind: str, count: int) -> None:
            counts[kind] = count
            status.update(f"reading the cluster: {sum(counts.values()):,} objects, {count:,} {kind}")

        listing = list_cluster(target, progress)
    for text in listing.left_out[:_MAX_NAMED]:
        sys.stderr.write(f"note: {text}\n")
    if more := len(listing.left_out) - _MAX_NAMED:
        sys.stderr.write(f"note: {more} more left out\n" if more > 0 else "")
    return listing


def _report_skipped(loaded: LoadedFiles) -> None:
    """Say what was left out, where it does not disturb the output."""
    if not loaded.skipped:
        return
    names = [f"{skipped.kind} {skipped.name}" for skipped in loaded.skipped[:_MAX_NAMED]]
    more = len(loaded.skipped) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    left_out = counted(len(loaded.skipped), "object")
    sys.stderr.write(f"note: {left_out} that scheduling does not need left out: {listed}\n")
