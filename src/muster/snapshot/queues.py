"""The queue table: queues by name, their parents, and what is wrong with the tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from muster.snapshot.columns import NO_ROW, UNLIMITED, ResourceAxis, common_ceiling, cut
from muster.snapshot.records import QueueRecord
from muster.snapshot.tables import QueueTable


def build_queues(records: Mapping[str, QueueRecord], axis: ResourceAxis, why: Mapping[str, str]) -> QueueTable:
    """Lay the queues out, sorted by name, with empty totals; `why` names those that were put aside."""
    ordered = _summable([records[name] for name in sorted(records)])
    index = {record.name: row for row, record in enumerate(ordered)}
    parent = np.array([index.get(record.parent, NO_ROW) for record in ordered], np.int32)
    broken: dict[int, str] = {}
    aside: dict[int, str] = {}
    paths = []
    steps = []
    for row, record in enumerate(ordered):
        path, fault = _walk_up(row, ordered, index)
        for above in path if why else ():
            if (wrong := why.get(ordered[above].name)) is not None:
                aside[row] = broken[row] = wrong
        if fault:
            broken[row] = f"queue {record.name}: {fault}"
        paths.append(np.array(path, np.int32))
        steps.append(list(zip(path, (*path[1:], NO_ROW), strict=True)))
    shape = (len(ordered), len(axis))
    own, tree, firm = (np.zeros(shape, np.int64) for _ in range(3))
    parents = frozenset(parent[parent != NO_ROW].tolist())
    return QueueTable(ordered, index, parent, paths, steps, own, tree, firm, parents, broken, aside)


def _summable(records: list[QueueRecord]) -> list[QueueRecord]:
    """The queues with what they deserve and are guaranteed in amounts that may be added up."""
    most = int(UNLIMITED)
    ceiling = common_ceiling((given for known in records for given in (known.deserved, known.guarantee)), most)
    if ceiling == most:
        return records
    return [
        replace(known, deserved=cut(known.deserved, ceiling, most), guarantee=cut(known.guarantee, ceiling, most))
        for known in records
    ]


def _walk_up(row: int, records: list[QueueRecord], index: dict[str, int]) -> tuple[list[int], str]:
    """Rows from a queue to the top; the second part says what is wrong, "" if nothing is."""
    path = [row]
    while True:
        here = records[path[-1]]
        if not here.parent or here.parent == here.name:
            return path, "" if here.parent != here.name else f"{here.name} is its own parent"
        above = index.get(here.parent)
        if above is None:
            return path, f"parent {here.parent} of {here.name} does not exist"
        if above in path:
            names = " -> ".join(records[step].name for step in [*path[path.index(above) :], above])
            return path, f"parents form a cycle: {names}"
        path.append(above)
