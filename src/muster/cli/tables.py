"""The result of a simulation as tables: decisions cycle by cycle, and how jobs stand.

Decisions of one cycle that differ only in pod and node are one line; JSON has each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from muster.cli.screen import plain_table
from muster.explain.words import counted, duration_text

#: An entry of "decisions" or "jobs" of the documented JSON.
Entry = Mapping[str, Any]  # Any: strings and numbers, as documented
_MAX_NODES = 4
_STYLES = {"bind": "green", "evict": "red", "nominate": "yellow", "move": "magenta"}
_PHASES = {"Running": "green", "Completed": "green", "Pending": "yellow", "Inqueue": "yellow", "Unknown": "red"}


def decision_table(decisions: Iterable[Entry]) -> Table:
    """Return the decisions in the order in which they were made."""
    table = plain_table("cycle", "decision", "job", "pods", "node", "why")
    before = None
    for (cycle, kind, job, why, beneficiary), group in groupby(decisions, key=_alike):
        entries = list(group)
        first = cycle != before
        before = cycle
        table.add_row(
            Text(f"{cycle}, {duration_text(entries[0]['time'])}" if first else ""),
            Text(kind, style=_STYLES.get(kind, "")),
            Text(job),
            Text(_pods(entries)),
            Text(node_counts(entries)),
            Text(f"{why}; for {beneficiary}" if beneficiary and beneficiary not in why else why),
        )
    return table


def _alike(entry: Entry) -> tuple[int, str, str, str, str]:
    return (entry["cycle"], entry["kind"], entry["job"], entry["why"], entry["beneficiary"] or "")


def _pods(entries: Sequence[Entry]) -> str:
    if len(entries) > 1:
        return counted(len(entries), "pod")
    return str(entries[0]["pod"]).rpartition("/")[2]


def node_counts(entries: Sequence[Entry]) -> str:
    """Return the nodes of some decisions, with the number of pods where it is more than one."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry["node"]] = counts.get(entry["node"], 0) + 1
    parts = [f"{node} ×{n}" if n > 1 else node for node, n in sorted(counts.items())]
    more = len(parts) - _MAX_NODES
    return ", ".join(parts[:_MAX_NODES]) + (f" and {more} more" if more > 0 else "")


def job_table(jobs: Mapping[str, Entry]) -> Table:
    """Return how every job stands, by id."""
    table = plain_table("job", "phase", "running", "pending", "reason", right=("running", "pending"))
    for name in sorted(jobs):
        entry = jobs[name]
        table.add_row(
            Text(name),
            Text(entry["phase"], style=_PHASES.get(entry["phase"], "")),
            Text(str(entry["running"])),
            Text(str(entry["pending"])),
            Text(entry["reason"] or ""),
        )
    return table
