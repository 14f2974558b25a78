"""Dividing classes: tasks that ask for the same may still differ in where they may go, by queue, mark or hour.

Called once per session, before any plugin is opened: plugins say which tasks they tell apart, and each part of a
class becomes a class of its own. All that works class by class (verdicts, boards, packing, evictions) then holds
without knowing why. Part 0 keeps the class as it is, so whoever is not concerned costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from muster.snapshot.rows import Mask, Rows
from muster.snapshot.status import TaskStatus
from muster.snapshot.tables import NEEDS_LIVE_CHECK, ClassTable, Snapshot


@dataclass(frozen=True, slots=True)
class Division:
    """How a plugin tells tasks apart."""

    #: int32 per task: its part; 0 for those whose class says it all.
    parts: Rows
    #: By part, "" for part 0. Verdicts are kept across cycles under these names: a part whose nodes may change for
    #: another reason than a change of the nodes has to be named after that reason.
    names: tuple[str, ...]
    #: Tasks whose places depend on the other pods of the moment, so that they are placed one by one; None: none.
    live: Mask | None = None


def divide_classes(snapshot: Snapshot, divisions: Mapping[str, Division]) -> dict[str, Rows]:
    """Divide the classes of a snapshot; return the part of every class, by the plugin that asked."""
    for owner, division in divisions.items():
        _split(snapshot, owner, division)
        if division.live is not None:
            snapshot.tasks.flags[division.live] |= np.uint8(NEEDS_LIVE_CHECK)
    return {owner: _part_of_class(snapshot, division) for owner, division in divisions.items()}


def _split(snapshot: Snapshot, owner: str, division: Division) -> None:
    """Give the tasks of every part but the first classes of their own."""
    tasks, classes, n_parts = snapshot.tasks, snapshot.classes, len(division.names)
    special = np.flatnonzero((division.parts > 0) & (tasks.status != TaskStatus.GONE))
    if len(special) == 0:
        return
    pairs = tasks.cls[special].astype(np.int64) * n_parts + division.parts[special]
    found, firsts, places = np.unique(pairs, return_index=True, return_inverse=True)
    origins = found // n_parts
    marks = [f"|{owner}:{division.names[part]}".encode() for part in (found % n_parts).tolist()]
    snapshot.classes = ClassTable(
        requests=np.concatenate([classes.requests, classes.requests[origins]]),
        pods=[*classes.pods, *(tasks.pods[task] for task in special[firsts].tolist())],
        keys=[*classes.keys, *(classes.keys[cls] + mark for cls, mark in zip(origins.tolist(), marks, strict=True))],
    )
    tasks.cls[special] = len(classes) + places


def _part_of_class(snapshot: Snapshot, division: Division) -> Rows:
    """The part that the tasks of each class have in common."""
    parts: Rows = np.zeros(len(snapshot.classes), np.int32)
    here = snapshot.tasks.status != TaskStatus.GONE
    parts[snapshot.tasks.cls[here]] = division.parts[here]
    return parts
