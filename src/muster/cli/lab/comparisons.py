"""`muster compare`: plan the runs, have them done, and print who is better at what."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from muster.api import BackendError, UserError
from muster.api.errors import seconds_of
from muster.cli.screen import heading, make_console, plain_table, print_document
from muster.cli.sources import say_notes
from muster.explain.words import counted
from muster.lab.compare.runs import Candidate, Inputs, Run
from muster.lab.compare.seeds import Variation
from muster.lab.compare.verdicts import Case, Judged, Verdict, cases_of, to_json
from muster.lab.compare.workers import done_by_dask, done_here
from muster.lab.figures import NOTHING, Figure
from muster.lab.page import Group, write_page
from muster.lab.policies import find_policy
from muster.lab.replay import ReplayOptions
from muster.lab.sources.inputs import WHOLE, Part, notes_on, read_inputs
from muster.lab.trace import Estimates
from muster.scheduler import builtin_registry

#: How verdicts are marked in tables.
_MARKS: Final = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.SAME: "same",
    Verdict.UNCLEAR: "unclear",
    Verdict.ONE_SEED: "",
}
_STYLES: Final = {Verdict.BETTER: "green", Verdict.WORSE: "red"}


@dataclass(frozen=True, slots=True)
class CompareCommand:
    """What the options say, as given."""

    jobs: Sequence[Path]
    nodes: Sequence[str]
    configs: Sequence[str]
    n_seeds: int = 3
    vary: str = "jitter:10m"
    estimates: Sequence[str] = ("exact",)
    part: Part = WHOLE
    period: float = 1.0
    grace: str = "0"
    checkpoint: str | None = None
    workers: int | None = None
    dask: str = ""
    out: Path | None = None
    resume: bool = False


def run_compare(command: CompareCommand, output: str) -> list[Case]:
    """Run everything, write what was asked for, and print. Raises UserError."""
    if command.resume and command.out is None:
        raise UserError("--resume takes runs from where --out DIR has them; give it as well")
    variation = Variation.read(command.vary)
    candidates = _candidates(command)
    inputs = _inputs(command)
    seeds = range(command.n_seeds)
    runs = _runs(command, inputs, candidates, variation)
    keys = [run.fingerprint(inputs[run.place]) for run in runs]
    figures = _done(command, runs, keys, inputs)
    cases = cases_of(runs, keys, figures, inputs)
    document = to_json(cases, seeds, str(variation))
    if command.out is not None:
        _write(command.out / "compare.json", document)
        write_page([_group(case) for case in cases], command.out / "compare.html")
    if not print_document(document, output):
        print_cases(cases, command.n_seeds)
    return cases


# -- what is to be run -------------------------------------------------------------------------------------------------


def _candidates(command: CompareCommand) -> list[Candidate]:
    """Configurations, each with what it is told about run times; those that do not ask are not run twice."""
    registry = builtin_registry()
    estimates = [Estimates.read(text) for text in command.estimates]
    found: dict[str, Candidate] = {}
    for given in command.configs:
        name, equals, source = given.partition("=")
        config = find_policy(source if equals else given)
        registry.check(config)
        say_notes(config.notes)
        asks = any(plugin.wants_run_times for plugin in registry.make_plugins(config))
        for told, words in zip(estimates, command.estimates, strict=True):
            label = name.removeprefix("policy:") + (f" {words}" if asks and len(estimates) > 1 else "")
            if label in found and asks:
                raise UserError(f'--config: expected a name of its own for each, got "{label}" twice; give NAME=FILE')
            found.setdefault(label, Candidate(label, config, told))
    if len(found) < len(set(command.configs)):
        raise UserError("--config: expected a name of its own for each; give NAME=FILE")
    return list(found.values())


def _inputs(command: CompareCommand) -> list[Inputs]:
    found = []
    names = _names([path.name.partition(".")[0] for path in command.jobs])
    for path, trace_name in zip(command.jobs, names, strict=True):
        for nodes in command.nodes:
            trace, objects = read_inputs(path, nodes, command.part)
            say_notes(notes_on(trace, objects))
            cluster = Path(nodes).name.partition(".")[0] if nodes else "its own nodes"
            found.append(Inputs(trace_name, cluster, trace, tuple(objects)))
    twice = _names([known.name for known in found])
    if len(set(twice)) < len(found):
        raise UserError("--nodes: expected another name for each cluster")
    return found


def _names(names: Sequence[str]) -> list[str]:
    """Names with a number behind those that came before."""
    return [name if name not in names[:at] else f"{name}-{at + 1}" for at, name in enumerate(names)]


def _runs(
    command: CompareCommand, inputs: Sequence[Inputs], candidates: Sequence[Candidate], variation: Variation
) -> list[Run]:
    grace = seconds_of("--grace", command.grace)
    saved = None if command.checkpoint is None else seconds_of("--checkpoint", command.checkpoint)
    return [
        Run(place, candidate, variation, ReplayOptions(seed, command.period, grace, saved))
        for place in range(len(inputs))
        for candidate in candidates
        for seed in range(command.n_seeds)
    ]


# -- doing it ----------------------------------------------------------------------------------------------------------


def _done(
    command: CompareCommand, runs: Sequence[Run], keys: Sequence[str], inputs: Sequence[Inputs]
) -> list[Mapping[str, Any]]:
    """The figures of all runs, in their order; with --out each is kept by its key as soon as it is there."""
    folder = None if command.out is None else command.out / "runs"
    found = {number: kept for number, key in enumerate(keys) if (kept := _kept(command, key)) is not None}
    left = [(number, run) for number, run in enumerate(runs) if number not in found]
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task("", total=len(runs), completed=len(found))
        for number, figures in _doing(command, left, inputs):
            found[number] = figures
            bar.advance(shown)
            if folder is not None:
                _write(folder / f"{keys[number]}.json", figures)
    return [found[number] for number in range(len(runs))]


def _doing(
    command: CompareCommand, runs: Sequence[tuple[int, Run]], inputs: Sequence[Inputs]
) -> Iterator[tuple[int, dict[str, Any]]]:
    if not runs:
        return iter(())
    if command.dask:
        return done_by_dask(runs, inputs, command.dask)
    return done_here(runs, inputs, command.workers or os.cpu_count() or 1)


def _kept(command: CompareCommand, key: str) -> dict[str, Any] | None:
    """The figures of a run that was done before; None: it has to be done."""
    if not command.resume or command.out is None:
        return None
    try:
        found: dict[str, Any] = json.loads((command.out / "runs" / f"{key}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found


def _write(path: Path, document: Mapping[str, Any]) -> None:
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise BackendError(f"cannot write {path}: {error.strerror}", retryable=False) from None


# -- what comes out ----------------------------------------------------------------------------------------------------


def _group(case: Case) -> Group:
    """A case as a part of the page: pictures of the first seed, and the figures of all."""
    rows = [
        (figure.what, [_cell(figure, judged.get(name)) for name in case.reports]) for figure, judged in case.judged()
    ]
    return Group(case.inputs.name, [reports[0] for reports in case.reports.values()], rows)


def print_cases(cases: Sequence[Case], n_seeds: int) -> None:
    """Print the figures of each case side by side, each with its interval, ratio and verdict."""
    console = make_console(wide=True)
    for case in cases:
        title = f"{case.inputs.name}: {counted(len(case.inputs.trace), 'job')}, {counted(n_seeds, 'seed')}"
        console.print(heading(f"{title}, beside {case.baseline}"))
        names = tuple(case.reports)
        table = plain_table("", *names, right=names)
        for figure, judged in case.judged():
            cells = [_styled(figure, judged.get(name)) for name in names]
            table.add_row(Text(figure.what), *cells)
        console.print(table)
        console.print()


def _styled(figure: Figure, known: Judged | None) -> Text:
    style = "" if known is None or known.verdict is None else _STYLES.get(known.verdict, "")
    return Text(_cell(figure, known), style=style)


def _cell(figure: Figure, known: Judged | None) -> str:
    """A mean with its interval, how it stands to the baseline, and the verdict."""
    if known is None:
        return NOTHING
    text = figure.text(known.interval.mean)
    if known.interval.half:
        text += f" ± {figure.text(known.interval.half)}"
    if known.ratio is not None:
        text += f"  ×{known.ratio:.2f}"
    if known.verdict is not None and _MARKS[known.verdict]:
        text += f" {_MARKS[known.verdict]}"
    return text
