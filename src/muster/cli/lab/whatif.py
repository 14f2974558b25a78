"""`muster whatif`: read the options, ask, and print both runs beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.api import UserError, parse_seconds
from muster.cli.screen import heading, make_console, plain_table, print_document
from muster.cli.simulation import node_names
from muster.cli.sources import ObjectSource, progress_line, read, say_notes
from muster.explain.words import counted, duration_text, joined
from muster.framework import default_config, find_config
from muster.scheduler import builtin_registry
from muster.whatif import (
    Comparison,
    Difference,
    JobComparison,
    JobFate,
    Options,
    Outcome,
    RunTotals,
    read_flags,
    what_if,
)

_STYLES = {
    Difference.EVICTED: "red",
    Difference.WAITS: "red",
    Difference.LATER: "yellow",
    Difference.STARTS: "green",
    Difference.EARLIER: "green",
    Difference.SPARED: "green",
}
_MAX_ROWS = 40


@dataclass(frozen=True, slots=True)
class WhatIfCommand:
    """What the options say, as given."""

    source: ObjectSource
    #: Pairs of a flag and its value, in the order in which they are made.
    changes: tuple[tuple[str, str], ...]
    base_config: str | None = None
    cycles: int | None = None
    duration: str | None = None
    seed: int = 0


def print_what_if(command: WhatIfCommand, output: str) -> None:
    """Ask and print. Raises UserError."""
    options = _options(command)
    flags = read_flags(command.changes)
    objects = read(command.source)
    with progress_line("looking ahead ...") as say:

        def progress(cycles: int, passed: float) -> None:
            say(f"looking ahead: {counted(cycles, 'cycle')}, {duration_text(passed)} passed")

        found = what_if(objects, flags, options.with_progress(progress))
    if print_document(found.as_document(), output):
        return
    _print(make_console(wide=output == "wide"), found, wide=output == "wide")


def _options(command: WhatIfCommand) -> Options:
    if not command.changes:
        raise UserError(
            "expected something to change: --add-nodes, --drain, --submit, --delete, --queue, --priority or --config"
        )
    if command.cycles is not None and command.duration is not None:
        raise UserError("--cycles and --for exclude each other; give one of them")
    config = default_config() if command.base_config is None else find_config(command.base_config)
    if command.base_config is not None:
        builtin_registry().check(config, command.base_config)
    say_notes(config.notes)
    return Options(
        config=config,
        cycles=command.cycles,
        seconds=None if command.duration is None else _seconds(command.duration),
        seed=command.seed,
        scheduler_names=command.source.scheduler_names,
    )


def _seconds(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise UserError(f"--for: {error}") from None
    if seconds < 0:
        raise UserError(f'--for: expected how far to look ahead, such as "2h", got "{text}"')
    return seconds


# -- tables ----------------------------------------------------------------------------------------------------------


def _print(console: Console, found: Comparison, *, wide: bool) -> None:
    console.print(heading(f"With {joined(found.changes)}"))
    for note in found.notes:
        console.print(Text(f"note: {note}"))
    console.print(_totals(found.without, found.within))
    shown = found.jobs if wide else found.differences
    console.print()
    if not shown:
        console.print(heading("No job fares otherwise"))
    else:
        console.print(heading(_summary(found)))
        console.print(_jobs(shown if wide else shown[:_MAX_ROWS]))
        if not wide and len(shown) > _MAX_ROWS:
            console.print(Text(f"and {len(shown) - _MAX_ROWS} more; --output wide shows all"))
    for line in _how_far(found):
        console.print(Text(line))


def _totals(without: RunTotals, within: RunTotals) -> Table:
    table = plain_table("", "without", "with", right=("without", "with"))
    rows = (
        ("jobs that start", str(without.started), str(within.started)),
        ("jobs that wait", str(without.waiting), str(within.waiting)),
        ("jobs that lose their place", str(without.evicted), str(within.evicted)),
        ("pods evicted", str(without.evicted_pods), str(within.evicted_pods)),
        ("pods moved", str(without.moved_pods), str(within.moved_pods)),
        ("GPU-seconds lost", f"{without.lost_gpu_s:,.0f}", f"{within.lost_gpu_s:,.0f}"),
        ("GPUs held at the end", _held(without), _held(within)),
    )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _held(totals: RunTotals) -> str:
    return f"{totals.gpus_held:g} of {totals.gpus:g}"


def _summary(found: Comparison) -> str:
    n_jobs = len(found.differences)
    return f"{counted(n_jobs, 'job')} {'fares' if n_jobs == 1 else 'fare'} otherwise"


def _jobs(jobs: tuple[JobComparison, ...]) -> Table:
    table = plain_table("job", "queue", "difference", "without", "with", "why or where")
    for each in jobs:
        fate = each.within or each.without
        table.add_row(
            Text(each.job),
            Text("" if fate is None else fate.queue),
            Text(each.difference.value, style=_STYLES.get(each.difference, "")),
            Text("" if each.difference is Difference.NEW else _fate(each.without)),
            Text("" if each.difference is Difference.GONE else _fate(each.within)),
            Text("; ".join(_details(each))),
        )
    return table


def _fate(fate: JobFate | None) -> str:
    if fate is None or fate.starts_s is None:
        return Outcome.RUNS.value if fate is None else fate.outcome.value
    when = "now" if fate.starts_s < 1 else f"in {duration_text(round(fate.starts_s))}"
    return f"{fate.outcome.value} {when}"


def _details(job: JobComparison) -> Iterator[str]:
    """What is behind the word: for whom it goes, at what cost, why it waits, where it starts and what that rests on."""
    fate = job.within
    if fate is None or job.difference is Difference.GONE:
        return
    for eviction in fate.evictions:
        pods = counted(len(eviction.pods), "pod")
        sake = f" for {eviction.beneficiary}" if eviction.beneficiary else ""
        cost = f", {eviction.lost_gpu_s:,.0f} GPU-seconds lost" if eviction.lost_gpu_s else ""
        verb = "moved" if eviction.moved == len(eviction.pods) else "evicted"
        when = "" if eviction.at_s < 1 else f" in {duration_text(round(eviction.at_s))}"
        yield f"{pods} {verb}{sake} ({eviction.action}){when}{cost}"
    if fate.reason:
        yield fate.reason
    if fate.starts_s is not None and fate.nodes:
        yield f"on {node_names(fate.nodes)}"
    if fate.basis is not None:
        yield fate.basis.text


def _how_far(found: Comparison) -> Iterator[str]:
    """Say how far was looked, where there would be more to see."""
    runs = (("without", found.without), ("with", found.within))
    cut = [(word, totals) for word, totals in runs if not totals.settled]
    if cut:
        far = joined(f"{duration_text(round(totals.seconds))} {word} the changes" for word, totals in cut)
        yield f"looked {far} ahead; --for looks further"
