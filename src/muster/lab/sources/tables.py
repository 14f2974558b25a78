"""Traces and nodes from tables: CSV with a header, plain or packed, and the export of Slurm's `sacct`.

The columns are those of the published GPU traces in one schema; others are named by options. One row is one job:

    job_id, submit_s, duration_s, num_tasks, gpus_per_task, cpus_per_task, mem_gib_per_task, queue, priority, user

Of nodes: name, cpus, mem_gib, gpus, gpu_type, rack, zone. What is empty is not asked for and, of nodes, not scarce.
Every error names file, line, column and what would be right.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.api import HyperNode, Node, NodeStatus, ObjectMeta, Quantity, UserError, decode
from muster.api.fields import did_you_mean
from muster.api.names import HOSTNAME
from muster.api.objects.batch import MAX_JOB_PODS
from muster.api.objects.meta import Condition
from muster.api.resources import GPU
from muster.api.validate import check
from muster.lab.trace import Trace, TraceJob

#: What columns are called, by what they mean.
JOB_COLUMNS: Final[Mapping[str, str]] = {
    "id": "job_id",
    "submit": "submit_s",
    "duration": "duration_s",
    "tasks": "num_tasks",
    "gpus": "gpus_per_task",
    "cpus": "cpus_per_task",
    "memory": "mem_gib_per_task",
    "queue": "queue",
    "priority": "priority",
    "user": "user",
}
#: Those of Kubernetes' own are higher.
_MAX_PRIORITY: Final = 10**9
#: Of words in the place of priorities, so many are named.
_MAX_WORDS: Final = 4
#: A clock that counts seconds from 1970 has come to the year 5138.
_MAX_S: Final = 1e11
#: More of anything than all nodes together have, and little enough to be counted in thousandths.
MAX_AMOUNT: Final = 2**50
#: More nodes than any cluster has.
MAX_NODES: Final = 100_000
_NEEDED: Final = ("submit", "duration")
#: What a node without a word on a resource has of it: more than anybody asks for.
_PLENTY: Final = {"cpu": "4096", "memory": "64Ti"}
_NO_NAME: Final = re.compile(r"[^a-z0-9.-]+")
_NODE_COLUMNS: Final = ("name", "cpus", "mem_gib", "gpus", "gpu_type", "rack", "zone")
_SACCT: Final = ("JobID", "Submit", "ElapsedRaw", "NNodes", "ReqTRES")
_SIZES: Final = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which rows count, and as what."""

    #: Column names in the place of the usual ones, by meaning.
    columns: Mapping[str, str] = field(default_factory=dict)
    #: Jobs that come between these two moments of the file, in seconds; the clock of the replay begins at the first.
    since_s: float = 0.0
    until_s: float = math.inf
    #: All jobs in one queue of this name; "": as the rows say.
    one_queue: str = ""
    gpu_only: bool = False
    limit: int | None = None


def read_jobs(path: Path, wanted: JobFilter | None = None) -> Trace:
    """Read a table of jobs, of either kind. Raises UserError."""
    wanted = wanted or JobFilter()
    unknown = sorted(set(wanted.columns) - set(JOB_COLUMNS))
    if unknown:
        raise UserError(f'--column: there is no "{unknown[0]}"; there are {", ".join(JOB_COLUMNS)}')
    with _text(path) as lines:
        head = lines.readline()
        lines.seek(0)
        if "|" in head and "JobID" in head:
            return _trace(_sacct_rows(_Table(lines, str(path), "|")), wanted, str(path))
        columns = {**JOB_COLUMNS, **wanted.columns}
        priorities = _Priorities(columns["priority"])
        rows = _rows(_Table(lines, str(path)), columns, wanted.columns, priorities)
        trace = _trace(rows, wanted, str(path))
        return replace(trace, notes=priorities.notes())


class _Table:
    """Rows of a table by the names in its first line. Raises UserError, in rows with the number of the line."""

    def __init__(self, lines: io.TextIOBase, source: str, delimiter: str = ",") -> None:
        self.source = source
        self._reader = csv.reader(lines, delimiter=delimiter, strict=True)
        self.columns = [name.strip() for name in self._cells() or ()]
        twice = next((name for name, count in Counter(self.columns).items() if name and count > 1), None)
        if twice is not None:
            raise UserError(f'expected a name of its own for every column, got "{twice}" twice', place=f"{source}:1")

    def __iter__(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Where each row stands, and its cells; a row may leave out the last ones."""
        while (cells := self._cells()) is not None:
            place = f"{self.source}:{self._reader.line_num}"
            if len(cells) > len(self.columns):
                text = f"expected as many cells as the first line has, {len(self.columns)}, got {len(cells)}"
                raise UserError(text, place=place)
            if cells:
                given = [*cells, *([""] * (len(self.columns) - len(cells)))]
                yield place, {name: cell.strip() for name, cell in zip(self.columns, given, strict=True)}

    def _cells(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            place = f"{self.source}:{self._reader.line_num + 1}"
            raise UserError(f"expected a table of comma-separated values: {error}", place=place) from None


def _text(path: Path) -> io.TextIOBase:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the trace: {error.strerror}", place=str(path)) from None
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error):
        raise UserError("expected a table in UTF-8, plain or packed with gzip", place=str(path)) from None
    return io.StringIO(text, newline=None)  # whatever ends its lines


def _trace(rows: Iterator[TraceJob | str], wanted: JobFilter, source: str) -> Trace:
    """Put rows in order and choose among them; what is no row says why it was left out."""
    jobs: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        if isinstance(row, str):
            left_out[row] += 1
        elif not wanted.since_s <= row.submit_s < wanted.until_s:
            left_out["outside of the chosen time"] += 1
        elif wanted.gpu_only and not row.gpus:
            left_out["asks for no GPU"] += 1
        else:
            jobs.append(row)
    jobs.sort(key=lambda job: (job.submit_s, job.name))
    if wanted.limit is not None:
        left_out.update({"beyond --limit": max(0, len(jobs) - wanted.limit)})
        del jobs[wanted.limit :]
    if not jobs:
        why = ", ".join(f"{count:,}: {reason}" for reason, count in left_out.items() if count)
        raise UserError(f"expected at least one job, got none{f' that counts ({why})' if why else ''}", place=source)
    base = wanted.since_s or jobs[0].submit_s
    named = Counter(job.name for job in jobs)
    twice = next((name for name, count in named.items() if count > 1), None)
    if twice is not None:
        raise UserError(f'expected a name of its own for every job, got "{twice}" twice', place=source)
    return Trace([_moved(job, base, wanted.one_queue) for job in jobs], source, +left_out)


class _Priorities:
    """What a table says of priorities: numbers, or words, such as classes of service, which have no order here.

    A word among numbers is a mistake.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._words: Counter[str] = Counter()
        self._first_word: UserError | None = None
        self._has_numbers = False

    def read(self, text: str, place: str) -> int | None:
        """The priority of a row; None: it has none. Raises UserError."""
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            self._words[text] += 1
            self._first_word = self._first_word or self._wrong(text).located(place=place)
        else:
            self._has_numbers = True
            if not abs(number) <= _MAX_PRIORITY or number != int(number):
                raise self._wrong(text)
        if self._first_word is None:
            return int(number)
        if self._has_numbers:
            raise self._first_word
        return None

    def _wrong(self, text: str) -> UserError:
        wanted = f"a whole number between -{_MAX_PRIORITY} and {_MAX_PRIORITY}"
        return UserError(f'expected {wanted}, got "{text}"', field=self._column)

    def notes(self) -> list[str]:
        """What a reader has to know of words."""
        if not self._words:
            return []
        words = ", ".join(f"{word}: {count:,}" for word, count in self._words.most_common(_MAX_WORDS))
        return [f'words in column "{self._column}" have no order and count as no priority ({words})']


def _moved(job: TraceJob, base: float, queue: str) -> TraceJob:
    return replace(job, submit_s=job.submit_s - base, queue=queue or job.queue)


# -- rows --------------------------------------------------------------------------------------------------------------


def _rows(
    table: _Table, columns: Mapping[str, str], named: Mapping[str, str], priorities: _Priorities
) -> Iterator[TraceJob | str]:
    for meaning in (*_NEEDED, *named):
        if len(table.columns) == 1 and any(mark in table.columns[0] for mark in ";\t"):
            raise UserError("expected commas between cells", place=f"{table.source}:1")
        if columns[meaning] not in table.columns:
            raise UserError(
                f'there is no column "{columns[meaning]}"; there are {", ".join(sorted(table.columns)) or "none"}; '
                f"name it with --column {meaning}=NAME",
                place=table.source,
            )
    for number, (place, row) in enumerate(table, start=2):
        cells = {meaning: row.get(name, "") for meaning, name in columns.items()}
        try:
            yield _job(cells, columns, number, priorities.read(cells["priority"], place))
        except UserError as error:
            raise error.located(place=place) from None


def _job(cells: Mapping[str, str], columns: Mapping[str, str], number: int, priority: int | None) -> TraceJob | str:
    if not cells["duration"]:
        return "has no duration"
    requests = {
        "cpu": _amount(cells, "cpus", columns),
        "memory": _amount(cells, "memory", columns, unit=2**30),
        GPU: _amount(cells, "gpus", columns),
    }
    tasks = _number(cells, "tasks", columns) if cells["tasks"] else 1.0
    if not 1 <= tasks <= MAX_JOB_PODS or tasks != int(tasks):
        text = f'expected a whole number of pods from 1 to {MAX_JOB_PODS}, got "{cells["tasks"]}"'
        raise UserError(text, field=columns["tasks"])
    return TraceJob(
        name=object_name(cells["id"]) or f"job-{number:06d}",
        submit_s=_number(cells, "submit", columns),
        run_s=_number(cells, "duration", columns),
        n_tasks=int(tasks),
        requests=tuple((name, text) for name, text in requests.items() if text),
        queue=object_name(cells["queue"]) or "default",
        user=cells["user"],
        priority=priority,
    )


def _number(cells: Mapping[str, str], meaning: str, columns: Mapping[str, str]) -> float:
    try:
        number = float(cells[meaning])
    except ValueError:
        number = math.nan
    if not 0 <= number < _MAX_S:
        wanted = f"below {_MAX_S:g}" if number > 0 else "from 0 on"
        raise UserError(f'expected a number {wanted}, got "{cells[meaning]}"', field=columns[meaning])
    return number


def _amount(cells: Mapping[str, str], meaning: str, columns: Mapping[str, str], unit: int = 1) -> str:
    """A request as people write it; "" for nothing."""
    if not cells[meaning]:
        return ""
    number = _number(cells, meaning, columns) * unit
    if number > MAX_AMOUNT:
        raise UserError(f'expected at most {MAX_AMOUNT // unit}, got "{cells[meaning]}"', field=columns[meaning])
    if not number:
        return ""
    return str(int(number)) if number == int(number) else f"{round(number * 1000)}m"


def object_name(text: str) -> str:
    """The text as objects may be called."""
    return _NO_NAME.sub("-", text.lower()).strip("-.")[:200]


# -- sacct -------------------------------------------------------------------------------------------------------------


def _sacct_rows(table: _Table) -> Iterator[TraceJob | str]:
    """Jobs of `sacct --parsable2 --format JobID,Submit,ElapsedRaw,NNodes,ReqTRES,Partition,User,...`; steps are not."""
    missing = [name for name in _SACCT if name not in table.columns]
    if missing:
        raise UserError(
            f'there is no column "{missing[0]}"; export with sacct --parsable2 --format '
            f"{','.join((*_SACCT, 'Partition', 'User'))}",
            place=table.source,
        )
    for place, cells in table:
        if "." in cells["JobID"]:
            continue  # a step of the job above
        try:
            yield _sacct_job(cells)
        except UserError as error:
            raise error.located(place=place) from None


def _sacct_job(cells: Mapping[str, str]) -> TraceJob | str:
    if not cells["ElapsedRaw"] or not (run_s := _number(cells, "ElapsedRaw", {"ElapsedRaw": "ElapsedRaw"})):
        return "never ran"
    try:
        moment = datetime.fromisoformat(cells["Submit"])
        submit = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UserError(
            f'expected a moment such as 2025-01-31T12:00:00, got "{cells["Submit"]}"', field="Submit"
        ) from None
    if cells["NNodes"] in ("", "0"):
        return "has no node"
    nodes = int(cells["NNodes"]) if cells["NNodes"].isdecimal() else 0
    if not 1 <= nodes <= MAX_JOB_PODS:
        raise UserError(f'expected a number of nodes such as 4, got "{cells["NNodes"]}"', field="NNodes")
    asked = dict(part.partition("=")[::2] for part in cells["ReqTRES"].split(",") if part)
    gpus = next((asked[name] for name in sorted(asked) if name.startswith("gres/gpu")), "0")
    each = {
        "cpu": _share(asked.get("cpu", "0"), nodes, "ReqTRES: cpu"),
        "memory": _share(asked.get("mem", "0"), nodes, "ReqTRES: mem"),
        GPU: _share(gpus, nodes, "ReqTRES: gres/gpu"),
    }
    return TraceJob(
        name=object_name(cells["JobID"]),
        submit_s=submit,
        run_s=run_s,
        n_tasks=nodes,
        requests=tuple((name, text) for name, text in each.items() if text),
        queue=object_name(cells.get("Partition", "")) or "default",
        user=cells.get("User", ""),
    )


def _share(text: str, nodes: int, where: str) -> str:
    """The part of one pod of what a job asks for; Slurm gives sums."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)[nc]?", text)
    if match is None:
        raise UserError(f'expected an amount such as 16 or 64G, got "{text}"', field=where)
    is_memory = where.endswith("mem")
    total = float(match[1]) * (_SIZES[match[2]] if is_memory else 1)
    if not total:
        return ""
    return str(math.ceil(total / nodes)) if is_memory else f"{math.ceil(total * 1000 / nodes)}m"


# -- nodes -------------------------------------------------------------------------------------------------------------


def read_nodes(path: Path) -> list[Node | HyperNode]:
    """Read a table of nodes; racks and zones, where there are any, become HyperNodes. Raises UserError."""
    with _text(path) as lines:
        table = _Table(lines, str(path))
        if "name" not in table.columns:
            raise UserError('expected a table with a column "name", and cpus, mem_gib, gpus', place=str(path))
        unknown = [name for name in table.columns if name not in _NODE_COLUMNS]
        for name in unknown:
            if near := did_you_mean(name, _NODE_COLUMNS):
                raise UserError(f'unknown column "{name}"{near}', place=f"{path}:1")
        rows = list(table)
    nodes: dict[str, Node] = {}
    for place, row in rows:
        try:
            node = _usable(_node(row), row["name"], nodes)
        except UserError as error:
            raise error.located(place=place) from None
        nodes[node.name] = node
    if not nodes:
        raise UserError("expected at least one node, got none", place=str(path))
    try:
        return [*nodes.values(), *_domains(row for _, row in rows)]
    except UserError as error:
        raise error.located(place=str(path)) from None


def _usable(node: Node, name: str, others: Collection[str]) -> Node:
    if not node.name or node.name in others:
        raise UserError(f'expected a name of its own for every node, got "{name}"', field="name")
    check(node)
    return node


def uniform_nodes(count: int, gpus: int, cpus: int | None = None, mem_gib: int | None = None) -> list[Node]:
    """So many equal nodes. Raises UserError."""
    if not 1 <= count <= MAX_NODES:
        raise UserError(f"--nodes: expected from 1 to {MAX_NODES:,} nodes, got {count:,}")
    cells = {"cpus": "" if cpus is None else str(cpus), "mem_gib": "" if mem_gib is None else str(mem_gib)}
    width = len(str(count))
    return [_node({**cells, "name": f"node-{row:0{width}d}", "gpus": str(gpus)}) for row in range(1, count + 1)]


def _node(cells: Mapping[str, str]) -> Node:
    names = {key: key for key in ("cpus", "mem_gib", "gpus")}
    given = {key: cells.get(key, "") for key in names}
    amounts = {
        "cpu": _amount(given, "cpus", names) or _PLENTY["cpu"],
        "memory": _amount(given, "mem_gib", names, unit=2**30) or _PLENTY["memory"],
        GPU: _amount(given, "gpus", names),
        "pods": "1000",
    }
    name = object_name(cells["name"])
    allocatable = {resource: Quantity(text) for resource, text in amounts.items() if text}
    labels = {HOSTNAME: name, **({"nvidia.com/gpu.product": cells["gpu_type"]} if cells.get("gpu_type") else {})}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        status=NodeStatus(
            allocatable=allocatable, capacity=allocatable, conditions=[Condition(type="Ready", status="True")]
        ),
    )


def _domains(rows: Iterable[Mapping[str, str]]) -> list[HyperNode]:
    """A HyperNode for every rack, and above them for every zone."""
    racks: dict[str, list[str]] = {}
    zones: dict[str, set[str]] = {}
    for row in rows:
        rack, zone = object_name(row.get("rack", "")), object_name(row.get("zone", ""))
        if rack:
            racks.setdefault(rack, []).append(object_name(row["name"]))
            if zone:
                zones.setdefault(zone, set()).add(rack)
    for rack in racks:
        around = sorted(zone for zone, inside in zones.items() if rack in inside)
        if len(around) > 1:
            raise UserError(f'expected every rack in one zone, got rack "{rack}" in {" and ".join(around)}')
    found = [_hyper_node(f"rack-{name}", 1, "Node", members) for name, members in racks.items()]
    above = [
        _hyper_node(f"zone-{name}", 2, "HyperNode", [f"rack-{rack}" for rack in sorted(inside)])
        for name, inside in zones.items()
    ]
    return [*found, *above]


def _hyper_node(name: str, tier: int, kind: str, members: Iterable[str]) -> HyperNode:
    made = decode(
        {
            "apiVersion": HyperNode.api_version,
            "kind": HyperNode.kind,
            "metadata": {"name": name},
            "spec": {
                "tier": tier,
                "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
            },
        }
    )
    assert isinstance(made, HyperNode)
    return made
