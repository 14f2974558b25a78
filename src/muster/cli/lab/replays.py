"""`muster replay`: read a trace and nodes, run, and write the report. What it prints is made from the same figures."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from muster.api import KubeObject, UserError
from muster.api.errors import seconds_of
from muster.cli.screen import heading, make_console, plain_table, print_document
from muster.cli.sources import say_notes
from muster.explain.words import counted, duration_text
from muster.framework import SchedulerConfig, default_config
from muster.lab.figures import FIGURES, NOTHING
from muster.lab.page import Group, write_page
from muster.lab.policies import find_policy
from muster.lab.replay import Replay, ReplayOptions
from muster.lab.report import Report, make_report
from muster.lab.sources.inputs import WHOLE, Part, node_gpus, notes_on, read_inputs
from muster.lab.trace import Estimates, Trace
from muster.lab.writing import read_state, save_state, write_report
from muster.simulate.run import quietly

#: Longest waits that are shown of each run.
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class ReplayCommand:
    """What the options say, as given."""

    jobs: Path
    nodes: str
    config: str | None = None
    name: str = ""
    seed: int = 0
    estimates: str = "exact"
    part: Part = WHOLE
    period: float = 1.0
    grace: str = "0"
    checkpoint: str | None = None
    out: Path | None = None
    resume: bool = False

    @property
    def fingerprint(self) -> str:
        """The same for commands that do the same."""
        return repr(replace(self, resume=False))


def run_replay(command: ReplayCommand, output: str) -> None:
    """Replay, write what was asked for, and print. Raises UserError."""
    config = default_config() if command.config is None else find_policy(command.config)
    say_notes(config.notes)
    trace, objects = read_inputs(command.jobs, command.nodes, command.part)
    say_notes(notes_on(trace, objects))
    replay = _begun(command, config, trace, objects)
    began = time.process_time()
    with quietly():
        _run(replay, command)
    gpus = node_gpus(objects)
    facts = {"trace": trace.source, "seed": command.seed, "left_out": trace.left_out}
    report = make_report(
        replay.recorder,
        name=command.name or command.config or "muster",
        n_gpus=sum(gpus),
        n_nodes=len(gpus),
        now_s=replay.now_s,
        facts={**facts, "cpu_s": round(time.process_time() - began, 2)},
        node_gpus=max(gpus, default=0.0),
    )
    if command.out is not None:
        write_report(report, command.out)
        write_page([Group.of(_title(report), [report.figures])], command.out / "report.html")
    if not print_document(report.to_json(), output):
        print_report([report])


def _begun(command: ReplayCommand, config: SchedulerConfig, trace: Trace, objects: Sequence[KubeObject]) -> Replay:
    """A new replay, or the one that was interrupted."""
    if command.resume:
        if command.out is None:
            raise UserError("--resume goes on with what --out DIR holds; give it as well")
        found = read_state(command.out, command.fingerprint)
        if found is not None:
            return found
    options = ReplayOptions(
        seed=command.seed,
        period_s=command.period,
        grace_s=seconds_of("--grace", command.grace),
        checkpoint_s=None if command.checkpoint is None else seconds_of("--checkpoint", command.checkpoint),
    )
    told = replace(trace, jobs=Estimates.read(command.estimates).told(trace.jobs, command.seed))
    return Replay(told, objects, config, options)


def _run(replay: Replay, command: ReplayCommand) -> None:
    """Run with a bar. Who interrupts it gets it saved between two cycles, where --out says, to be gone on with."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeRemainingColumn())
    interrupted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupted.append(number))
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            shown = bar.add_task("replaying", total=None, what="")

            def tell(done: int, total: int, passed: float) -> None:
                what = f"{done:,} of {total:,} jobs, {duration_text(round(passed))}"
                bar.update(shown, completed=done, total=total, what=what)

            replay.run(tell, pause=lambda: bool(interrupted))
    finally:
        signal.signal(signal.SIGINT, before)
    if not replay.is_over:
        if command.out is not None:
            save_state(replay, command.out, command.fingerprint)
            console.print(f"saved in {command.out}; the same command with --resume goes on")
        raise KeyboardInterrupt


# -- what comes out ----------------------------------------------------------------------------------------------------


def _title(report: Report) -> str:
    return f"{counted(report.figures['jobs'], 'job')} on {counted(report.figures['nodes'], 'node')}"


def print_report(reports: Sequence[Report]) -> None:
    """Print figures side by side, waits by size, and who waited longest."""
    console = make_console()
    first = reports[0].figures
    console.print(heading(_title(reports[0])))
    names = tuple(report.name for report in reports)
    table = plain_table("", *names, right=names)
    for figure in FIGURES:
        cells = [figure.text(figure.of(report.figures)) for report in reports]
        if set(cells) != {NOTHING}:
            table.add_row(Text(figure.what), *map(Text, cells))
    console.print(table)
    console.print()
    console.print(heading("Waits by GPUs of the job, seconds: mean, p99"))
    table = plain_table("GPUs", "jobs", *names, right=("jobs", *names))
    for size, known in first["by_size"].items():
        spans = [report.figures["by_size"].get(size, {}).get("wait_s", {}) for report in reports]
        cells = [f"{span['mean']:,.0f}  {span['p99']:,.0f}" if span else NOTHING for span in spans]
        table.add_row(Text(size), Text(str(known["jobs"])), *map(Text, cells))
    console.print(table)
    console.print()
    console.print(heading("Longest waits"))
    table = plain_table("run", "job", "queue", "GPUs", "wait", right=("GPUs", "wait"))
    for report in reports:
        for one in report.figures["starving"][:_SHOWN]:
            wait = duration_text(round(one["wait_s"]))
            table.add_row(Text(report.name), Text(one["job"]), Text(one["queue"]), Text(f"{one['gpus']:g}"), Text(wait))
    console.print(table)
