"""What a replay is made of, read from what people name: a trace, nodes, and which part of it counts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import KubeObject, Node, Quantity, UserError, format_amount, load_files, to_base_all
from muster.api.errors import seconds_of
from muster.api.resources import GPU, to_base
from muster.explain.words import counted
from muster.lab.sources.decision_logs import read_log
from muster.lab.sources.object_jobs import split
from muster.lab.sources.tables import JobFilter, read_jobs, read_nodes, uniform_nodes
from muster.lab.trace import Trace, TraceJob

#: Ends of names of tables; everything else holds objects.
_TABLES: Final = (".csv", ".txt", ".sacct")
_LOG: Final = ".log"


@dataclass(frozen=True, slots=True)
class Part:
    """Which jobs of a trace count, and as what, in the words of the options."""

    since: str = "0"
    until: str | None = None
    columns: Sequence[str] = ()
    one_queue: str = ""
    gpu_only: bool = False
    limit: int | None = None


#: All of it, as it is.
WHOLE: Final = Part()


def read_inputs(jobs: Path, nodes: str, part: Part) -> tuple[Trace, list[KubeObject]]:
    """The jobs, and the objects that are there from the beginning. Raises UserError."""
    objects = _nodes(nodes)
    if _is_table(jobs):
        trace = read_jobs(jobs, _filter(part))
    elif _ends(jobs) == _LOG:
        trace = read_log(jobs)
    else:
        trace, others = split(load_files([str(jobs)]), str(jobs))
        has_nodes = any(thing.kind == "Node" for thing in objects)
        objects += [thing for thing in others if not (has_nodes and thing.kind in ("Node", "HyperNode"))]
    if not any(thing.kind == "Node" for thing in objects):
        raise UserError("expected at least one node; give --nodes FILE, or such as --nodes 88x8")
    return trace, objects


def notes_on(trace: Trace, objects: Sequence[KubeObject]) -> Iterator[str]:
    """What a reader of the figures has to know: rows that were left out, and jobs that can never start."""
    for reason, count in trace.left_out.items():
        yield f"{trace.source}: {count:,} left out: {reason}"
    yield from (f"{trace.source}: {note}" for note in trace.notes)
    parts = sum(dict(job.requests).get(GPU, "").endswith("m") for job in trace.jobs)
    if parts:
        jobs = f"{counted(parts, 'job')} {'asks' if parts == 1 else 'ask'}"
        yield f"{trace.source}: {jobs} for a part of a GPU; a replay adds parts up by node, as if any GPU could be cut"
    offered = [to_base_all(node.status.allocatable) for node in objects if isinstance(node, Node)]
    names = {name for each in offered for name in each}
    most = {name: max(each.get(name, 0) for each in offered) for name in names}
    total = {name: sum(each.get(name, 0) for each in offered) for name in names}
    never = [found for job in trace.jobs if (found := _out_of_reach(job, most, total))]
    if never:
        yield f"{trace.source}: {counted(len(never), 'job')} can never start, such as {never[0]}"


def _out_of_reach(job: TraceJob, most: Mapping[str, int], total: Mapping[str, int]) -> str:
    """Why a job of a table fits on no empty cluster; "": it may."""
    for name, text in job.requests:
        amount, largest = to_base(name, Quantity(text)), most.get(name, 0)
        if amount > largest:
            has = format_amount(name, largest)
            return f"{job.name}: a pod asks for {format_amount(name, amount)} {name}, the largest node has {has}"
        if amount * job.n_tasks > total.get(name, 0):
            needed, all_nodes = (format_amount(name, sum_) for sum_ in (amount * job.n_tasks, total.get(name, 0)))
            return f"{job.name}: its pods ask for {needed} {name}, all nodes have {all_nodes}"
    return ""


def node_gpus(objects: Sequence[KubeObject]) -> list[float]:
    """GPUs of each node among objects."""
    return [to_base_all(node.status.allocatable).get(GPU, 0) / 1000 for node in objects if isinstance(node, Node)]


def _is_table(path: Path) -> bool:
    return _ends(path) in _TABLES


def _ends(path: Path) -> str:
    """The end of a name, packed or not."""
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _nodes(given: str) -> list[KubeObject]:
    """Nodes from a table, from files with objects, or so many equal ones: `88x8`, `88x8x48` with CPUs."""
    if match := re.fullmatch(r"(\d+)x(\d+)(?:x(\d+))?", given):
        return [*uniform_nodes(int(match[1]), int(match[2]), int(match[3]) if match[3] else None)]
    if not given:
        return []
    if not Path(given).exists():
        raise UserError(f'--nodes: expected a file, or so many equal nodes such as 88x8, got "{given}"')
    if _is_table(Path(given)):
        return [*read_nodes(Path(given))]
    skipped = ("Pod", "PodGroup", "ClusterSnapshot")
    return [each.object for each in load_files([given]) if each.object.kind not in skipped]


def _filter(part: Part) -> JobFilter:
    columns: dict[str, str] = {}
    for text in part.columns:
        meaning, equals, name = text.partition("=")
        if not equals or not name:
            raise UserError(f'--column: expected MEANING=COLUMN, such as gpus=num_gpus, got "{text}"')
        columns[meaning] = name
    return JobFilter(
        columns,
        seconds_of("--since", part.since),
        math.inf if part.until is None else seconds_of("--until", part.until),
        part.one_queue,
        part.gpu_only,
        part.limit,
    )
