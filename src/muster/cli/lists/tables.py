"""The lists of jobs, queues and nodes as tables, and as documents for programs.

What is shown is the cluster after one cycle, or at the time that the options name. When a job will start comes from
running on: that is known as far as it is known when pods end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from muster.api import UserError
from muster.api.fields import did_you_mean
from muster.cli.lists.queue_tree import checked_resources, shown_amount, telling_resources
from muster.cli.screen import make_console, plain_table, print_document
from muster.cli.simulation import Prepared, RunOptions, prepare
from muster.explain import JobRow, ListState, NodeRow, QueueView, job_rows, node_rows, queue_overview
from muster.explain.words import amounts_text, counted, duration_text, joined, reason_text, resource_word
from muster.framework import Session
from muster.snapshot import UNLIMITED
from muster.snapshot.messages import Bind
from muster.whatif import picture_of

_STYLES = {
    ListState.RUNNING: "green",
    ListState.GROWING: "green",
    ListState.STARTING: "cyan",
    ListState.PROMISED: "cyan",
    ListState.WAITING: "yellow",
    ListState.FINISHED: "dim",
}
#: Further than this nobody looks ahead: in cycles, and in seconds.
_FORECAST_CYCLES = 2000
_FORECAST_S = 7 * 24 * 3600.0
_MAX_NODES = 3


def print_jobs(options: RunOptions, output: str, *, queue: str | None, forecast: bool) -> None:
    """Print the list of jobs. Raises UserError for a queue that nobody has heard of."""
    prepared = prepare(options)
    session, now = _session(prepared)
    rows = job_rows(session, now)
    if queue is not None:
        names = {record.name for record in session.snapshot.queues.records} | {row.queue for row in rows}
        if queue not in names:
            known = did_you_mean(queue, names) or f"; there are {', '.join(sorted(names))}"
            raise UserError(f'--queue: there is no queue "{queue}"{known}')
    if forecast and any(row.state in (ListState.WAITING, ListState.PROMISED) for row in rows):
        rows = job_rows(session, now, _starts(prepared, now))
    rows = [row for row in rows if queue is None or row.queue == queue]
    if print_document({"jobs": [row.to_json() for row in rows]}, output):
        return
    console = make_console(wide=output == "wide")
    counts = Counter(row.state for row in rows)
    console.print(
        Text(_summary(len(rows), "job", [f"{counts[state]} {state.value}" for state in ListState if counts[state]]))
    )
    if rows:
        console.print(_job_table(rows, wide=output == "wide"))


def _job_table(rows: Sequence[JobRow], *, wide: bool) -> Table:
    more = ("made by", "asks for", "in queue", "order") if wide else ()
    table = plain_table(
        "#",
        "job",
        "queue",
        "state",
        "pods",
        "prio",
        "age",
        "start",
        *more,
        "why or where",
        right=("#", "pods", "prio", "age"),
    )
    for row in rows:
        place = row.place
        cells = [
            Text(str(place.overall) if place else ""),
            Text(row.job),
            Text(row.queue),
            Text(row.state.value, style=_STYLES[row.state]),
            Text(f"{row.placed}/{row.placed + row.pending}"),
            Text(str(row.priority)),
            Text(duration_text(round(row.running if row.running is not None else row.age))),
            Text(_start_text(row)),
        ]
        if wide:
            cells += [
                Text(" ".join(row.owner or ())),
                Text(amounts_text(row.asks)),
                Text(str(place.in_queue) if place else ""),
                Text(place.why if place else ""),
            ]
        table.add_row(*cells, Text(_why_or_where(row, wide=wide)))
    return table


def _start_text(row: JobRow) -> str:
    if row.starts_in is None:
        return "?" if row.state in (ListState.WAITING, ListState.PROMISED) else ""
    return "now" if row.starts_in <= 0 else f"in {duration_text(round(row.starts_in))}"


def _why_or_where(row: JobRow, *, wide: bool) -> str:
    shown = row.nodes if wide else row.nodes[:_MAX_NODES]
    more = len(row.nodes) - len(shown)
    where = ", ".join(shown) + (f" and {more} more" if more else "")
    if row.state is ListState.WAITING and not wide and row.place and row.place.in_queue > 1:
        return f"{row.reason}; {row.place.why}"
    return "; ".join(part for part in (where, row.reason) if part)


def _starts(prepared: Prepared, now: float) -> dict[str, float]:
    """When jobs first get nodes after a moment, in seconds since the epoch; pods end when they are expected to."""
    ahead = picture_of(prepared.start(cycles=0)).run
    ahead.go_on(cycles=_FORECAST_CYCLES, until=_FORECAST_S)
    starts: dict[str, float] = {}
    for cycle in ahead.cycles:
        for made in cycle.decisions if cycle.time > now else ():
            if isinstance(made, Bind):
                starts.setdefault(made.job, cycle.time)
    return starts


def _session(prepared: Prepared) -> tuple[Session, float]:
    """The cluster after one cycle, or at the time that the options name; and that moment."""
    seconds = prepared.options.seconds
    is_given = prepared.options.cycles is not None or seconds is not None
    result = prepared.run_as_told() if is_given else prepared.run(cycles=1)
    session = result.last_session
    assert session is not None  # the first cycle is at time zero, whatever the limit
    return session, session.now if seconds is None else result.start + seconds


def _summary(n: int, noun: str, parts: Sequence[str]) -> str:
    return f"{counted(n, noun)}{': ' if parts else ''}{joined(parts)}"


# -- queues ----------------------------------------------------------------------------------------------------------


def print_queue_list(options: RunOptions, output: str, resources: Sequence[str]) -> None:
    """Print the list of queues."""
    tree = queue_overview(_session(prepare(options))[0])
    shown = checked_resources(tree, resources) if resources else telling_resources(tree)
    queues = list(tree.walk())
    if print_document({"queues": [queue.to_json() for queue in queues]}, output):
        return
    console = make_console(wide=output == "wide")
    n_waiting = sum(queue.waiting for queue in queues)
    waits = f"{counted(n_waiting, 'job')} {'waits' if n_waiting == 1 else 'wait'}"
    console.print(Text(_summary(len(queues), "queue", [waits] if queues else [])))
    if not queues:
        return
    wide = output == "wide"
    names = shown if wide else shown[:2]
    more = ("parent", "priority") if wide else ()
    used = [f"{resource_word(name)} held/share" for name in names]
    right = ("weight", "priority", "running", "waiting", *used)
    table = plain_table("queue", *more, "state", "weight", "running", "waiting", *used, "why jobs wait", right=right)
    for queue in queues:
        cells = [Text(queue.name)]
        if wide:
            cells += [Text(queue.parent), Text(str(queue.priority))]
        cells += [
            Text("open" if queue.is_open else "closed", style="green" if queue.is_open else "red"),
            Text(f"{queue.resources[names[0]].weight:g}" if names else ""),
            Text(str(queue.running)),
            Text(str(queue.waiting)),
            *(Text(_held(queue, name)) for name in names),
        ]
        table.add_row(*cells, Text(_waits(queue)))
    console.print(table)


def _held(queue: QueueView, name: str) -> str:
    amounts = queue.resources[name]
    share = amounts.fair_share
    bound = "-" if share is None else "all" if share >= UNLIMITED else shown_amount(name, share)
    return f"{shown_amount(name, amounts.held)}/{bound}"


def _waits(queue: QueueView) -> str:
    if queue.fault:
        return queue.fault
    return "; ".join(f"{reason.code}: {reason_text(reason.text)}" for reason, _ in queue.reasons[:1])


# -- nodes -----------------------------------------------------------------------------------------------------------


def print_nodes(options: RunOptions, output: str, resources: Sequence[str]) -> None:
    """Print the list of nodes. Raises UserError for a resource that no node has."""
    rows = node_rows(_session(prepare(options))[0])
    known = sorted(
        {name for row in rows for name in row.allocatable} - {"pods"}, key=lambda name: ("/" not in name, name)
    )
    for name in resources:
        if name not in known:
            raise UserError(f'--resource: no node has "{name}"; there is {", ".join(known) or "nothing"}')
    if print_document({"nodes": [row.to_json() for row in rows]}, output):
        return
    wide = output == "wide"
    console = make_console(wide=wide)
    counts = Counter(row.state for row in rows)
    console.print(Text(_summary(len(rows), "node", [f"{n} {state}" for state, n in sorted(counts.items())])))
    if rows:
        console.print(_node_table(rows, list(resources) or (known if wide else known[:3]), wide=wide))


def _node_table(rows: Sequence[NodeRow], names: Sequence[str], *, wide: bool) -> Table:
    amounts = [f"{resource_word(name)} used/all" for name in names]
    table = plain_table(
        "node", "state", *amounts, "pods", *(("taints",) if wide else ()), "jobs", right=(*amounts, "pods")
    )
    for row in rows:
        jobs = row.jobs if wide else row.jobs[:_MAX_NODES]
        more = len(row.jobs) - len(jobs)
        table.add_row(
            Text(row.name),
            Text(row.state, style="" if row.state == "ready" else "red"),
            *(Text(_of(row, name)) for name in names),
            Text(str(row.pods)),
            *((Text(", ".join(row.taints)),) if wide else ()),
            Text(", ".join(jobs) + (f" and {more} more" if more else "")),
        )
    return table


def _of(row: NodeRow, name: str) -> str:
    if name not in row.allocatable:
        return "-"
    return f"{shown_amount(name, row.used.get(name, 0))}/{shown_amount(name, row.allocatable[name])}"
