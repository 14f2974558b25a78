"""`muster replay`: read a trace and nodes, run, and write the report. What it prints is made from the same figures."""

from __future__ import annotations

import logging
import math
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from muster.api import KubeObject, Node, UserError, load_files, to_base_all
from muster.api.resources import GPU
from muster.cli.options import seconds_of
from muster.cli.screen import heading, make_console, plain_table, print_document
from muster.cli.sources import say_notes
from muster.explain.words import counted, duration_text
from muster.framework import SchedulerConfig, default_config
from muster.lab.object_jobs import split
from muster.lab.page import NOTHING, ROWS, figure, figure_text, write_page
from muster.lab.policies import find_policy
from muster.lab.replay import Replay, ReplayOptions
from muster.lab.report import Report, make_report
from muster.lab.tables import JobFilter, read_jobs, read_nodes, uniform_nodes
from muster.lab.trace import Estimates, Trace
from muster.lab.writing import read_state, save_state, write_report

#: Longest waits that are shown of each run.
_SHOWN: Final = 5
#: Ends of names of tables; everything else holds objects.
_TABLES: Final = (".csv", ".txt", ".sacct")


@dataclass(frozen=True, slots=True)
class ReplayCommand:
    """What the options say, as given."""

    jobs: Path
    nodes: str
    config: str | None = None
    name: str = ""
    seed: int = 0
    estimates: str = "exact"
    since: str = "0"
    until: str | None = None
    columns: Sequence[str] = ()
    one_queue: str = ""
    gpu_only: bool = False
    limit: int | None = None
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
    trace, objects = _inputs(command)
    replay = _begun(command, config, trace, objects)
    began = time.process_time()
    with _quietly():
        _run(replay, command)
    gpus = [_gpus(thing) for thing in objects if thing.kind == "Node"]
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
        write_page([report], command.out / "report.html")
    if not print_document(report.to_json(), output):
        print_report([report])


@contextmanager
def _quietly() -> Iterator[None]:
    """Without a word in the log on each of thousands of cycles."""
    log = logging.getLogger("muster")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


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
    told = Trace(Estimates.read(command.estimates).told(trace.jobs, command.seed), trace.source, trace.left_out)
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


# -- what goes in ------------------------------------------------------------------------------------------------------


def _inputs(command: ReplayCommand) -> tuple[Trace, list[KubeObject]]:
    """The jobs, and the objects that are there from the beginning. Raises UserError."""
    objects = _nodes(command.nodes)
    if _is_table(command.jobs):
        trace = read_jobs(command.jobs, _filter(command))
    else:
        trace, others = split(load_files([str(command.jobs)]), str(command.jobs))
        has_nodes = any(thing.kind == "Node" for thing in objects)
        objects += [thing for thing in others if not (has_nodes and thing.kind in ("Node", "HyperNode"))]
    if not any(thing.kind == "Node" for thing in objects):
        raise UserError("expected at least one node; give --nodes FILE, or such as --nodes 88x8")
    return trace, objects


def _is_table(path: Path) -> bool:
    return Path(path.stem).suffix in _TABLES if path.suffix == ".gz" else path.suffix in _TABLES


def _nodes(given: str) -> list[KubeObject]:
    """Nodes from a table, from files with objects, or so many equal ones: `88x8`, `88x8x48` with CPUs."""
    if match := re.fullmatch(r"(\d+)x(\d+)(?:x(\d+))?", given):
        return [*uniform_nodes(int(match[1]), int(match[2]), int(match[3]) if match[3] else None)]
    if not given:
        return []
    if _is_table(Path(given)):
        return [*read_nodes(Path(given))]
    skipped = ("Pod", "PodGroup", "ClusterSnapshot")
    return [each.object for each in load_files([given]) if each.object.kind not in skipped]


def _filter(command: ReplayCommand) -> JobFilter:
    columns: dict[str, str] = {}
    for text in command.columns:
        meaning, equals, name = text.partition("=")
        if not equals or not name:
            raise UserError(f'--column: expected MEANING=COLUMN, such as gpus=num_gpus, got "{text}"')
        columns[meaning] = name
    return JobFilter(
        columns,
        seconds_of("--since", command.since),
        math.inf if command.until is None else seconds_of("--until", command.until),
        command.one_queue,
        command.gpu_only,
        command.limit,
    )


def _gpus(node: KubeObject) -> float:
    assert isinstance(node, Node)
    return to_base_all(node.status.allocatable).get(GPU, 0) / 1000


# -- what comes out ----------------------------------------------------------------------------------------------------


def print_report(reports: Sequence[Report]) -> None:
    """Print figures side by side, waits by size, and who waited longest."""
    console = make_console()
    first = reports[0].figures
    console.print(heading(f"{counted(first['jobs'], 'job')} on {counted(first['nodes'], 'node')}"))
    names = tuple(report.name for report in reports)
    table = plain_table("", *names, right=names)
    for what, keys, digits in ROWS:
        cells = [figure_text(figure(report, keys), digits) for report in reports]
        if set(cells) != {NOTHING}:
            table.add_row(Text(what), *map(Text, cells))
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
