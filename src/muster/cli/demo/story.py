"""`muster demo`: a tour of the scheduler on the objects beside this file, in three moments of one run.

Every table, picture and sentence with a number comes from running the simulator, as `muster simulate` does on
the same files; only the narration is written here.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from muster.api import load_files
from muster.cli.screen import cluster_picture, draw, make_console, plain_table
from muster.cli.simulation import node_counts, print_explained
from muster.cli.sources import ObjectSource
from muster.cli.topology_reports import ShowOptions, look_at
from muster.cluster import load_timeline
from muster.explain import JobState, explain_job, find_job, headline
from muster.explain.words import counted, duration_text
from muster.framework import Session
from muster.simulate import SimulationResult, simulate
from muster.topology.drawings import outline, text_lines

OBJECTS = Path(__file__).parent / "objects"
TIMELINE = OBJECTS / "pretrain.timeline"
NETWORK = Path(__file__).parent / "network"
URGENT = Path(__file__).parent / "urgent"
#: Fields in which entries of the documented JSON agree that are told as one.
_ALIKE = ("time", "kind", "job", "why")
#: Before pretrain comes, and when it runs; the third moment is when everything has come to rest.
EARLY_S = 60.0
LATER_S = 300.0
MAX_WIDTH = 100

_ABOUT = {
    "research/train": "gang of 2, all or nothing",
    "research/sweep": "1 leader and 2 workers needed, 3 workers wanted",
    "product/serve": "elastic: 2 pods needed, 10 wanted",
    "default/pod/notebook": "a lone pod: a gang of one",
    "research/pretrain": "gang of 2, all or nothing",
    "research/ring": "4 whole nodes under one spine, in rank order",
}


#: Columns that the commands of the end take, where there is room for what they are good for beside them.
_COMMANDS: Final = 78


def tell(console: Console | None = None) -> None:
    """Print the tour."""
    console = console or make_console()
    console.width = min(console.width, MAX_WIDTH)
    _introduce(console)
    letters: dict[str, str] = {}  # a job keeps its letter and its colour in all pictures
    _show_start(console, _run_until(EARLY_S), letters)
    _show_taking_back(console, _run_until(LATER_S), letters)
    _show_end(console, _run_until(None), letters)
    _show_network(console)
    _show_preemption(console)
    _close(console)


def tell_beginning(console: Console) -> None:
    """Print the parts of the tour that fit a picture."""
    letters: dict[str, str] = {}
    _show_start(console, _run_until(EARLY_S), letters)
    _show_taking_back(console, _run_until(LATER_S), letters)


def _run_until(seconds: float | None) -> SimulationResult:
    return simulate(load_files([OBJECTS]), until=seconds, timeline=load_timeline(TIMELINE))


def _introduce(console: Console) -> None:
    _step(console, "1", "A small cluster, two queues, five jobs")
    _say(
        console,
        "Four nodes with 8 GPUs each and one without. When all want more than there is, queue research",
        "gets 3 GPUs for every 1 of product. Jobs are ordinary Kubernetes and Volcano YAML.",
    )


def _show_start(console: Console, result: SimulationResult, letters: dict[str, str]) -> None:
    _step(console, "2", "What starts at once")
    _decisions(console, result, 0.0)
    _say(console, "`serve` takes whatever nobody else asks for, beyond the share of its queue.")
    console.print()
    _draw(console, result, letters)
    console.print()
    _explain(console, _session(result), "evaluate")


def _show_taking_back(console: Console, result: SimulationResult, letters: dict[str, str]) -> None:
    _step(console, "3", "After 2 minutes: research has more to do, and takes back its share")
    _say(console, "`pretrain` needs 6 GPUs on each of two nodes, and not one is free. `serve` can spare pods.")
    _events(console, result, EARLY_S)
    console.print()
    _draw(console, result, letters)
    console.print()
    _explain(console, _session(result), "serve", in_full=True)


def _show_end(console: Console, result: SimulationResult, letters: dict[str, str]) -> None:
    ended = next(cycle for cycle in result.cycles if cycle.time - result.start > LATER_S)
    after = duration_text(round(ended.time - result.start))
    _step(console, "4", f"After {after}: train and sweep have finished, their room goes to those who waited")
    _decisions(console, result, LATER_S)
    console.print()
    _draw(console, result, letters)
    session = _session(result)
    still = [
        record.id
        for row, record in enumerate(session.snapshot.jobs.records)
        if session.snapshot.jobs.live[row] and explain_job(session, row).state in (JobState.WAITING, JobState.GROWING)
    ]
    console.print()
    for job in sorted(still):
        _explain(console, session, job)


def _show_network(console: Console) -> None:
    _step(console, "5", "Another cluster, where the network matters")
    _say(
        console,
        "Eight nodes in racks of two, two racks under a spine switch. `ring` needs four nodes under one",
        "spine, `pair` two nodes in one rack; `old` runs already.",
    )
    result = simulate(load_files([NETWORK]))
    _decisions(console, result, 0.0)
    console.print()
    tree = outline(look_at(ObjectSource([str(NETWORK)]), ShowOptions(run=True)))
    for line in text_lines(tree):
        console.print(Text(f"   {line}"))
    console.print()
    _explain(console, _session(result), "pair")


def _show_preemption(console: Console) -> None:
    _step(console, "6", "The same racks, full, and a hotfix of higher priority that needs one of them")
    _say(
        console,
        "`crawl` is a rigid gang with a pod in every rack, `index` one on gpu-8; `nightly` is elastic and",
        "could do with one of its three pods. Which pods go, and what does it cost?",
    )
    _events(console, simulate(load_files([URGENT])), 0.0)


def _close(console: Console) -> None:
    _step(console, "7", "Try it")
    objects, network, urgent = (reached(folder) for folder in (OBJECTS, NETWORK, URGENT))
    for command, meaning in (
        (f"simulate {objects} --timeline {objects}/{TIMELINE.name}", "all decisions"),
        (f"jobs {objects}", "who is in line"),
        (f"queue show {objects} --until 60", "who has which share"),
        (f"explain evaluate {objects}", "why it waits"),
        (f"topology show {network} --run", "the tree above"),
        (f"explain crawl {urgent}", "why it was evicted"),
        ("config show", "the configuration"),
        ("ui --demo --open", "in your browser"),
    ):
        line = f"   {_program()} {command}"
        if max(len(line), _COMMANDS) + 2 + len(meaning) > console.width:  # the line is to be copied, so it stays whole
            console.print(Text(f"   # {meaning}", style="dim"))
            console.print(Text(line), soft_wrap=True)
        else:
            console.print(Text.assemble(f"{line:<{_COMMANDS}}  ", (meaning, "dim")))


def reached(path: Path) -> str:
    """How a path is named where the reader is: a folder of objects by its name among the examples if these are here."""
    example = Path("examples") / ("demo" if path == OBJECTS else path.name)
    if example.exists() and example.resolve() == path.resolve():
        return str(example)
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _program() -> str:
    """How the reader starts this program: by its name where the shell would find it, else as it was started."""
    started = Path(sys.argv[0])
    if started.stem not in ("muster", "kubectl-muster"):  # python -m muster, or from within a program
        return "muster" if shutil.which("muster") else f"{reached(Path(sys.executable))} -m muster"
    found = shutil.which(started.name)
    if found is not None and Path(found).resolve() == started.resolve():
        return "kubectl muster" if started.stem == "kubectl-muster" else "muster"
    return shlex.quote(str(started))


def _step(console: Console, number: str, title: str) -> None:
    console.print()
    for place, line in enumerate(textwrap.wrap(title, console.width - 3)):
        console.print(Text.assemble((f"{'' if place else number:<3}", "bold cyan"), (line, "bold")))


def _say(console: Console, *sentences: str) -> None:
    for line in textwrap.wrap(" ".join(sentences), console.width - 3):
        console.print(Text(f"   {line}", style="dim"))


def _decisions(console: Console, result: SimulationResult, after_s: float) -> None:
    """Print one line per job that got nodes after a moment: what it is, how many pods, and where."""
    table = plain_table("   job", "bound", "on", "what it is")
    table.columns[0].no_wrap = True
    bound: dict[str, list[dict[str, Any]]] = {}  # Any: entries of the documented JSON
    for entry in result.to_json()["decisions"]:
        if entry["kind"] == "bind" and entry["time"] >= after_s:
            bound.setdefault(entry["job"], []).append(entry)
    for job, entries in bound.items():
        pods = counted(len(entries), "pod" if after_s == 0 else "more pod")
        table.add_row(
            Text(f"   {job}"),
            Text(pods, style="green"),
            Text(node_counts(entries)),
            Text(_ABOUT.get(job, ""), style="dim"),
        )
    console.print(table)


def _events(console: Console, result: SimulationResult, after_s: float) -> None:
    """Print evictions, and what happened to those who profit from them, since a moment; equal ones together."""
    entries = [entry for entry in result.to_json()["decisions"] if entry["time"] >= after_s]
    named = {entry["beneficiary"] for entry in entries if entry["kind"] == "evict"}
    told = (entry for entry in entries if entry["kind"] == "evict" or entry["job"] in named)
    for (time, kind, job, why), alike in groupby(told, key=lambda entry: [entry[key] for key in _ALIKE]):
        pods = list(alike)
        who = pods[0]["pod"].partition("/")[2] if len(pods) == 1 else f"{counted(len(pods), 'pod')} of {job}"
        moment = f"{duration_text(round(time)):>6}  {kind:<9}"
        for number, line in enumerate(textwrap.wrap(f"{who} ({node_counts(pods)}): {why}", console.width - 21)):
            console.print(Text.assemble((f"   {moment if number == 0 else '':<17} ", "cyan"), line))


def _draw(console: Console, result: SimulationResult, letters: dict[str, str]) -> None:
    console.print(draw(cluster_picture(_session(result).snapshot, known=letters), console.width))


def _explain(console: Console, session: Session, job: str, *, in_full: bool = False) -> None:
    explanation = explain_job(session, find_job(session.snapshot, job))
    if in_full:
        print_explained(console, explanation, indent="   ")
    else:
        lines = textwrap.wrap(headline(explanation), console.width - 5, subsequent_indent="  ")
        for line in lines:
            console.print(Text(f"   {line}"))


def _session(result: SimulationResult) -> Session:
    assert result.last_session is not None
    return result.last_session
