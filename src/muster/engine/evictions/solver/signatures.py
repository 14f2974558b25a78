"""Which jobs need no search because one that is easier to serve has failed already.

Two jobs have the same signature when their tasks wait under the same conditions: the nodes that they may use, priority,
whether they may be victims themselves, network constraints, and for evictions the queue. Of two such jobs the one that
wants no more is the easier: fewer tasks of each class, or, where all are alike, not more tasks that ask for less. Jobs
whose places depend on other pods (ports, affinity) have no signature. Failures are forgotten with every commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from muster.engine.boards import boards_of
from muster.framework import Eviction, Session
from muster.snapshot import NEEDS_LIVE_CHECK, Amounts, Rows

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a job waits for: classes and counts; for tasks that are all alike, what one of them asks for."""

    counts: Mapping[int, int]
    request: Amounts | None

    def is_easier_than(self, other: _Wish) -> bool:
        if all(count <= other.counts.get(cls, 0) for cls, count in self.counts.items()):
            return True
        if self.request is None or other.request is None:
            return False
        mine, theirs = sum(self.counts.values()), sum(other.counts.values())
        return mine <= theirs and bool((self.request <= other.request).all())


class FailedJobs:
    """Jobs that found no victims since the last commit."""

    def __init__(self, session: Session, kind: Eviction) -> None:
        self._session = session
        self._kind = kind
        self._failed: dict[Hashable, list[_Wish]] = {}
        self._nodes: dict[int, bytes] = {}

    def forget(self) -> None:
        self._failed.clear()

    def note(self, job: int, tasks: Rows) -> None:
        """A job found nothing for these tasks."""
        signature = self._signature(job, tasks)
        if signature is not None:
            self._failed.setdefault(signature, []).append(self._wish(tasks))

    def rule_out(self, job: int, tasks: Rows) -> bool:
        """Whether an easier job has failed."""
        if not self._failed:
            return False
        signature = self._signature(job, tasks)
        if signature is None or signature not in self._failed:
            return False
        wish = self._wish(tasks)
        return any(failed.is_easier_than(wish) for failed in self._failed[signature])

    def _wish(self, tasks: Rows) -> _Wish:
        snapshot = self._session.snapshot
        counts = Counter(snapshot.tasks.cls[tasks].tolist())
        request = snapshot.classes.requests[next(iter(counts)), 0] if len(counts) == 1 else None
        return _Wish(counts, request)

    def _signature(self, job: int, tasks: Rows) -> Hashable | None:
        snapshot = self._session.snapshot
        if (snapshot.tasks.flags[tasks] & NEEDS_LIVE_CHECK).any():
            return None
        jobs, record = snapshot.jobs, snapshot.jobs.records[job]
        network: Hashable = None
        if record.topology is not None or record.sub_groups or record.groups is not None:
            network = (_encode((record.topology, record.sub_groups)), record.groups)
        queue = None if self._kind is Eviction.CONSOLIDATE else int(jobs.queue[job])
        nodes = tuple(sorted({self._nodes_of(cls) for cls in set(snapshot.tasks.cls[tasks].tolist())}))
        return queue, int(jobs.priority[job]), bool(jobs.preemptible[job]), network, nodes

    def _nodes_of(self, cls: int) -> bytes:
        """The nodes that a class may use."""
        nodes = self._nodes.get(cls)
        if nodes is None:
            nodes = self._nodes[cls] = np.packbits(np.isfinite(boards_of(self._session).fixed(cls))).tobytes()
        return nodes
