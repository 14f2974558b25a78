"""`muster queue show`: the tree of queues as tables, one per resource, then who borrows and who waits.

The tables show the resources that some queue has a quota or a limit for, and GPUs wherever there are some; JSON has
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.api import UserError, format_amount
from muster.api.resources import unit_of
from muster.cli.screen import heading, make_console, plain_table, print_document
from muster.cli.simulation import RunOptions, run_simulation
from muster.explain import Loan, QueueAmounts, QueueOverview, QueueView, queue_overview
from muster.explain.words import amount_text, counted, duration_text, reason_text, resource_word
from muster.snapshot import UNLIMITED

_CELLS = 10
_WITHIN, _LEFT, _BEYOND = "■", "□", "▨"
_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
#: Longer exact amounts are rounded in tables.
_EXACT = 6


def print_queues(options: RunOptions, output: str, resources: Sequence[str]) -> None:
    """Run as the options say, and print how the queues stand at the end."""
    session = run_simulation(options).last_session
    assert session is not None  # the first cycle is at time zero, whatever the limit
    tree = queue_overview(session)
    shown = checked_resources(tree, resources) if resources else telling_resources(tree)
    if print_document(tree.to_json(), output):
        return
    console = make_console(wide=output == "wide")
    for place, resource in enumerate(shown):
        if place:
            console.print()
        _print_resource(console, tree, resource)
    _print_settings(console, tree)
    _print_loans(console, tree)
    _print_jobs(console, tree)


def checked_resources(tree: QueueOverview, resources: Sequence[str]) -> list[str]:
    """The resources that the options name, each once. Raises UserError for one that no node has."""
    known = [name for name in tree.total if name != "pods"]
    for name in resources:
        if name not in known:
            raise UserError(f'--resource: no node has "{name}"; there is {", ".join(known) or "nothing"}')
    return list(dict.fromkeys(resources))


def telling_resources(tree: QueueOverview) -> list[str]:
    """Resources that say something about the queues, scarce ones first."""
    bounded = {
        name
        for queue in tree.walk()
        for name, amounts in queue.resources.items()
        if amounts.limit is not None or 0 < (amounts.quota or 0) < UNLIMITED
    }
    wanted = {name for name in tree.total if name in bounded or name.endswith("/gpu")} - {"pods"}
    return sorted(wanted or {"cpu", "memory"}, key=lambda name: ("/" not in name, name))


# -- shares of one resource ------------------------------------------------------------------------------------


def _print_resource(console: Console, tree: QueueOverview, resource: str) -> None:
    total = tree.total.get(resource, 0)
    held = sum(queue.resources[resource].held for queue in (*tree.top, *tree.broken))
    title = f"{_plural(resource)}: {shown_amount(resource, total)} in the cluster, {shown_amount(resource, held)} held"
    if others := tree.held_by_others.get(resource, 0):
        title += f", {shown_amount(resource, others)} held by pods of other schedulers"
    if behind := tree.behind_taints.get(resource, 0):
        title += f", {shown_amount(resource, behind)} behind taints that no pod tolerates"
    console.print(heading(title))
    numbers = ("quota", "limit", "weight", "fair share", "holds", "asks for")
    table = plain_table("queue", *numbers, "use of its share", "", right=numbers)
    for branch, queue in _lines(tree.top):
        _add_row(table, resource, Text.assemble((branch, "dim"), queue.name), queue)
    for queue in tree.broken:
        _add_row(table, resource, Text(f"{queue.name} ✗", style="red"), queue)
    console.print(table)


def _lines(queues: Sequence[QueueView], indent: str = "", *, top: bool = True) -> Iterator[tuple[str, QueueView]]:
    """Yield every queue with the branch that is drawn before its name."""
    for place, queue in enumerate(queues):
        is_last = place == len(queues) - 1
        yield "" if top else f"{indent}{'└── ' if is_last else '├── '}", queue
        below = "" if top else indent + ("    " if is_last else "│   ")
        yield from _lines(queue.inner, below, top=False)


def _add_row(table: Table, resource: str, name: Text, queue: QueueView) -> None:
    amounts = queue.resources[resource]
    table.add_row(
        name,
        _bound(resource, amounts.quota),
        _bound(resource, amounts.limit),
        f"{amounts.weight:g}",
        _bound(resource, amounts.fair_share),
        shown_amount(resource, amounts.held),
        shown_amount(resource, amounts.asked),
        _bar(amounts),
        _state(resource, amounts),
    )


def _bar(amounts: QueueAmounts) -> Text:
    """Ten cells for the fair share or for what is held, whichever is more; what is partly used counts as used."""
    share = amounts.fair_share
    if share is None or max(share, amounts.held) == 0:
        return Text("")
    whole = max(share, amounts.held)
    n_within = -(-min(share, amounts.held) * _CELLS // whole)
    n_beyond = -(-max(0, amounts.held - share) * _CELLS // whole)
    n_within = min(n_within, _CELLS - n_beyond)
    left = _CELLS - n_within - n_beyond
    return Text.assemble((_WITHIN * n_within, "blue"), (_BEYOND * n_beyond, "yellow"), (_LEFT * left, "dim"))


def _state(resource: str, amounts: QueueAmounts) -> Text:
    if amounts.fair_share is None or amounts.over == 0:
        return Text("")
    if amounts.over > 0:
        return Text(f"over by {shown_amount(resource, amounts.over)}", style="yellow")
    return Text(f"under by {shown_amount(resource, -amounts.over)}", style="cyan")


def _bound(resource: str, amount: int | None) -> str:
    if amount is None:
        return "-"
    return "all" if amount >= UNLIMITED else shown_amount(resource, amount)


def shown_amount(resource: str, amount: int) -> str:
    """Return an amount without its unit; long ones rounded."""
    exact = format_amount(resource, amount)
    if unit_of(resource) == "milli":
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if unit_of(resource) == "count" or len(exact) <= _EXACT:
        return exact
    suffix, size = next(((suffix, size) for suffix, size in _UNITS if amount >= size), ("", 1))
    return f"{amount / size:.1f}".rstrip("0").rstrip(".") + suffix


def _plural(resource: str) -> str:
    word = resource_word(resource)
    return f"{word}s" if word in ("CPU", "GPU") else word


# -- what concerns a queue as a whole --------------------------------------------------------------------------


def _print_settings(console: Console, tree: QueueOverview) -> None:
    """Print priorities, runtimes and states, if any queue has something to say."""
    queues = list(tree.walk())
    is_plain = all(
        queue.preempt_min_runtime is None
        and queue.reclaim_min_runtime is None
        and queue.is_open
        and queue.reclaimable
        and not queue.fault
        for queue in queues
    )
    if is_plain and len({queue.priority for queue in queues}) < 2:
        return
    console.print()
    console.print(heading("Settings"))
    table = plain_table("queue", "priority", "preempt after", "reclaim after", "", right=("priority",))
    for queue in queues:
        table.add_row(
            Text(queue.name),
            str(queue.priority),
            _runtime(queue.preempt_min_runtime),
            _runtime(queue.reclaim_min_runtime),
            Text(_notes(queue), style="red" if queue.fault else "yellow"),
        )
    console.print(table)


def _runtime(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)


def _notes(queue: QueueView) -> str:
    notes = [queue.fault]
    notes += [] if queue.is_open else ["closed"]
    notes += [] if queue.reclaimable else ["nothing is taken back from it"]
    return "; ".join(note for note in notes if note)


def _print_loans(console: Console, tree: QueueOverview) -> None:
    if not tree.loans:
        return
    console.print()
    console.print(heading("Borrowed"))
    queues = {queue.name: queue for queue in tree.walk()}
    for loan in tree.loans:
        console.print(Text(f"  {loan.borrower} from {loan.lender}: {_loan(loan, queues[loan.lender])}"))


def _loan(loan: Loan, lender: QueueView) -> str:
    amounts = lender.resources[loan.resource]
    lent = amount_text(loan.resource, loan.amount)
    wanted = amounts.asked - amounts.held
    return f"{lent}; {lender.name} waits for {amount_text(loan.resource, wanted)}" if wanted else lent


def _print_jobs(console: Console, tree: QueueOverview) -> None:
    queues = [queue for queue in tree.walk() if queue.running or queue.waiting]
    if not queues and not tree.missing:
        return
    console.print()
    console.print(heading("Jobs"))
    counts = ("running", "waiting", "pending pods")
    table = plain_table("queue", *counts, "why", right=counts)
    for queue in queues:
        table.add_row(
            Text(queue.name), str(queue.running), str(queue.waiting), str(queue.pending_pods), Text(_why(queue))
        )
    for name, n_jobs in tree.missing:
        table.add_row(Text(name, style="red"), "0", str(n_jobs), "", Text("queue-missing: there is no such queue"))
    console.print(table)


def _why(queue: QueueView) -> str:
    """Return the reason that most of the jobs with pending pods share."""
    if not queue.reasons:
        return ""
    reason, n_jobs = queue.reasons[0]
    n_all = sum(n for _, n in queue.reasons)
    share = "" if n_jobs == n_all else f" ({n_jobs} of {counted(n_all, 'job')})"
    return f"{reason.code}: {reason_text(reason.text)}{share}"
