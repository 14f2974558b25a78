"""`muster simulate` and `muster explain`: load objects, run the scheduler on the embedded cluster, print.

Both run the same way, so that what is explained is what was simulated. In tables, decisions of one cycle that differ
only in pod and node are one line; JSON has each of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.api import KubeObject, Loaded, UserError
from muster.api.errors import seconds_of
from muster.cli.screen import cluster_picture, draw, heading, make_console, plain_table, print_document
from muster.cli.sources import ObjectSource, progress_line, read, say_notes
from muster.cluster import Timeline, load_timeline
from muster.explain import Explanation, explain_job, explanation_lines, find_job, find_pods, has_job
from muster.explain.words import counted, duration_text
from muster.framework import SchedulerConfig, default_config, find_config
from muster.scheduler import builtin_registry
from muster.simulate import Run, SimulationResult, WorkloadReport
from muster.simulate.run import places_told
from muster.snapshot import Aside
from muster.whatif.remedies import with_remedies

_MAX_EVICTED = 4
#: An entry of "decisions" or "jobs" of the documented JSON.
Entry = Mapping[str, Any]  # Any: strings and numbers, as documented
_MAX_NODES = 4
_STYLES = {"bind": "green", "evict": "red", "nominate": "yellow", "move": "magenta"}
_PHASES = {"Running": "green", "Completed": "green", "Pending": "yellow", "Inqueue": "yellow", "Unknown": "red"}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the options of a command say, as given."""

    source: ObjectSource
    #: A file, or the name of a profile.
    config: str | None = None
    cycles: int | None = None
    until: str | None = None
    seed: int = 0
    timeline: Path | None = None

    @property
    def seconds(self) -> float | None:
        """Where to stop, in seconds. Raises UserError."""
        return None if self.until is None else seconds_of("--until", self.until)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a run needs, read and checked: the same objects may be run more than once."""

    options: RunOptions
    objects: Sequence[KubeObject | Loaded]
    config: SchedulerConfig
    timeline: Timeline | None

    def run(self, *, cycles: int | None = None, until: float | None = None) -> SimulationResult:
        """Run no further than `cycles` and `until` seconds. Raises UserError."""
        return self.start(cycles=cycles, until=until).result()

    def start(self, *, cycles: int | None = None, until: float | None = None) -> Run:
        """The same, as a run that can go on."""
        run = Run(
            self.objects,
            self.config,
            seed=self.options.seed,
            timeline=self.timeline,
            scheduler_names=self.options.source.scheduler_names,
            repeats=until is not None or cycles is not None,
        )
        with progress_line("simulating ...") as say, places_told(self.objects):
            run.go_on(
                cycles=cycles,
                until=until,
                progress=lambda done, passed: say(
                    f"simulating: {counted(done, 'cycle')}, {duration_text(passed)} passed"
                ),
            )
        return run

    def run_as_told(self) -> SimulationResult:
        """Run as far as the options say. Raises UserError."""
        return self.run(cycles=self.options.cycles, until=self.options.seconds)


def prepare(options: RunOptions) -> Prepared:
    """Read what the options name. Raises UserError for anything wrong with them."""
    if options.cycles is not None and options.until is not None:
        raise UserError("--cycles and --until exclude each other; give one of them")
    _ = options.seconds  # what is wrong with it comes first
    config = default_config() if options.config is None else find_config(options.config)
    if options.config is not None:
        builtin_registry().check(config, str(options.config))
    say_notes(config.notes)
    objects = read(options.source)
    timeline = None
    if options.timeline is not None:
        timeline = load_timeline(options.timeline, allow_unknown=options.source.allow_unknown)
        say_notes(timeline.notes)
    return Prepared(options, objects, config, timeline)


def run_simulation(options: RunOptions) -> SimulationResult:
    """Run the scheduler as the options say. Raises UserError for anything wrong with them."""
    return prepare(options).run_as_told()


def print_simulation(options: RunOptions, output: str) -> None:
    """Run and print in the wanted format."""
    result = run_simulation(options)
    if not print_document(result.to_json(), output):
        _print_tables(result, wide=output == "wide")


def _print_tables(result: SimulationResult, *, wide: bool) -> None:
    document = result.to_json()
    console = make_console(wide=wide)
    n_decisions = len(document["decisions"])
    console.print(heading(f"{counted(n_decisions, 'decision')} in {counted(document['cycles'], 'cycle')}"))
    if n_decisions:
        console.print(decision_table(document["decisions"], one_by_one=wide))
    console.print()
    console.print(heading("Jobs"))
    console.print(job_table(document["jobs"]) if document["jobs"] else Text("  none"))
    if result.workloads:
        console.print()
        console.print(heading("Workloads"))
        console.print(workload_table(result.workloads))
    if document.get("quarantined"):
        console.print()
        console.print(heading("Quarantined"))
        for aside in result.quarantined or ():
            console.print(Text(f"  {aside}"))
    if result.last_session is not None and len(result.last_session.snapshot.nodes):
        console.print()
        console.print(heading("Cluster"))
        console.print(draw(cluster_picture(result.last_session.snapshot), console.width))


def print_explanation(job: str, options: RunOptions, output: str) -> None:
    """Run, find the job, and say how it stands at the end."""
    prepared = prepare(options)
    run = prepared.start(cycles=options.cycles, until=options.seconds)
    result = run.result()
    job = _group_of(result, job)
    session = result.last_session
    assert session is not None  # the first cycle is at time zero, whatever the limit
    end = session.now if options.until is None else result.start + (options.seconds or 0.0)
    asides = [
        aside
        for aside in result.quarantined or ()
        if isinstance(aside, Aside) and job in (aside.object.name, aside.object.key, aside.job)
    ]
    if asides and not has_job(session.snapshot, job):
        _print_asides(asides, output)
        return
    pods = find_pods(session.snapshot, job)
    row = find_job(session.snapshot, job) if not pods else int(session.snapshot.tasks.job[pods[0]])
    with progress_line("trying remedies ..."):
        explanation = with_remedies(run, explain_job(session, row, end), end)
    evictions = _evictions(result, explanation.job, {session.snapshot.tasks.ids[pod] for pod in pods})
    if print_document({**explanation.to_json(), "evictions": evictions}, output):
        return
    console = make_console(wide=output == "wide")
    print_explained(console, explanation)
    _print_evictions(console, evictions)


def _group_of(result: SimulationResult, name: str) -> str:
    """The PodGroup of a Job of Volcano, or the name as it is."""
    found = [each.pod_group for key, each in result.workloads.items() if name in (key, key.rpartition("/")[2])]
    return found[0] if len(found) == 1 else name


def _print_asides(asides: list[Aside], output: str) -> None:
    """Say what is wrong with objects that cannot be used: there is no job to explain."""
    if print_document({"quarantined": [aside.to_json() for aside in asides]}, output):
        return
    console = make_console()
    for aside in asides:
        console.print(Text(f"{aside.kind} {aside.object.key} is in quarantine: it cannot be used", style="bold"))
        console.print(Text(f"  {'reason':<10}{aside.reason}"))


def _evictions(result: SimulationResult, job: str, pods: set[str]) -> list[dict[str, Any]]:  # Any: JSON
    """Evictions of the job's pods during the run; with `pods`, of those alone."""
    return [
        decision
        for decision in result.to_json()["decisions"]
        if decision["kind"] == "evict" and decision["job"] == job and (not pods or decision["pod"] in pods)
    ]


def _print_evictions(console: Console, evictions: list[dict[str, Any]]) -> None:  # Any: JSON
    """Say which pods were evicted, when, from where and why; equal reasons once."""
    told: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for decision in evictions:
        told.setdefault((decision["time"], decision["why"]), []).append(decision)
    for (time, why), alike in told.items():
        pods = ", ".join(f"{decision['pod']} ({decision['node']})" for decision in alike[:_MAX_EVICTED])
        more = f" and {len(alike) - _MAX_EVICTED} more" if len(alike) > _MAX_EVICTED else ""
        lines = textwrap.wrap(f"{pods}{more} at {duration_text(round(time))}: {why}", console.width - 12)
        for number, line in enumerate(lines):
            console.print(Text(f"  {'evicted' if number == 0 else '':<10}{line}"))


def print_explained(console: Console, explanation: Explanation, indent: str = "") -> None:
    """Print an explanation, its headline in bold."""
    lines = explanation_lines(explanation, console.width - len(indent))
    for number, line in enumerate(lines):
        console.print(Text(indent + line, style="bold" if number == 0 else ""))


# -- tables ----------------------------------------------------------------------------------------------------


def decision_table(decisions: Iterable[Entry], *, one_by_one: bool = False) -> Table:
    """Return the decisions in the order in which they were made; equal ones as one, unless wanted one by one."""
    table = plain_table("cycle", "decision", "job", "pods", "node", "why")
    before = None
    for key, group in groupby(decisions, key=_alike):
        for entries in [[entry] for entry in group] if one_by_one else [list(group)]:
            cycle, kind, job, why, beneficiary = key
            table.add_row(
                Text("" if cycle == before else f"{cycle}, {duration_text(entries[0]['time'])}"),
                Text(kind, style=_STYLES.get(kind, "")),
                Text(job),
                Text(_pods(entries)),
                Text(node_counts(entries)),
                Text(f"{why}; for {beneficiary}" if beneficiary and beneficiary not in why else why),
            )
            before = cycle
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
    return node_names([f"{node} ×{n}" if n > 1 else node for node, n in sorted(counts.items())])


def node_names(names: Sequence[str]) -> str:
    """Return some nodes by name, and how many there are beside them."""
    more = len(names) - _MAX_NODES
    return ", ".join(names[:_MAX_NODES]) + (f" and {more} more" if more > 0 else "")


def workload_table(workloads: Mapping[str, WorkloadReport]) -> Table:
    """Return how everything stands of which pods were made."""
    counts = ("running", "pending", "succeeded", "failed", "retries")
    table = plain_table("workload", "phase", *counts, "message", right=counts)
    for name, each in workloads.items():
        numbers = (each.running, each.pending, each.succeeded, each.failed, each.retries)
        phase = Text(each.phase, style=_PHASES.get(each.phase, ""))
        table.add_row(Text(f"{each.kind} {name}"), phase, *(Text(str(n)) for n in numbers), Text(each.message))
    return table


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
