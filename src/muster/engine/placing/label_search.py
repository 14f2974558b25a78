"""Looking for places exactly under nested topology constraints, where placing in order has failed.

The parts of the problem are those of the job's tree of groups; the candidates of a part are the domains of its levels,
in the order in which they are tried. All given tasks are placed, or none.
Callers: nested placement.
"""

from __future__ import annotations

import numpy as np

from muster.engine.boards import Boards
from muster.engine.label_domains import Part, choose_domains, nodes_of_active
from muster.engine.placing.search import Search
from muster.framework import FITS, Session
from muster.kernels.search import Gang, packed
from muster.snapshot import NO_ROW, Amounts, Mask, Rows


class LabelSearch:
    """One search for the tasks of one job."""

    def __init__(self, session: Session, boards: Boards, job: int, tasks: Rows) -> None:
        self._session = session
        self._boards = boards
        self._job = job
        self._tasks = tasks
        self._parts: list[list[int]] = []
        #: Class and tasks of each kind.
        self._kinds: list[tuple[int, Rows]] = []
        #: Nodes of each candidate.
        self._cands: list[Rows] = []
        #: Owners of nodes at the levels that parts name: nodes that agree in all are interchangeable.
        self._owners: list[Rows] = [np.zeros(len(session.snapshot.nodes), np.int32)]

    def places(self, search: Search, root: Part) -> Rows | None:
        """The node of every task, by task row; None: none were found."""
        if not search.knows(self._tasks):
            return None
        everywhere = np.arange(len(self._session.snapshot.nodes), dtype=np.int32)
        self._add(NO_ROW, [everywhere], self._tasks[:0])
        if not self._read(root, 0, self._tasks):
            return None
        found = search.solve(self._job, self._gang(), self._kinds_of_room())
        if not isinstance(found, np.ndarray):
            return None
        places = np.full(len(self._session.snapshot.tasks), NO_ROW, np.int32)
        for kind, (_, tasks) in enumerate(self._kinds):
            places[tasks] = np.sort(found[found[:, 0] == kind, 1])
        return places

    def _read(self, part: Part, parent: int, tasks: Rows) -> bool:
        """Note a part and those inside it; False: one of them has no candidate at all."""
        if len(tasks) == 0:
            return True
        inner = [(group, self._belong(tasks, group)) for group in part.parts]
        own: Mask = np.ones(len(tasks), np.bool_)
        for _, mine in inner:
            own &= ~mine
        candidates: list[Rows] = []
        if part.levels is not None:
            topology, snapshot = part.levels.topology, self._session.snapshot
            everybody = snapshot.tasks_of(self._job)
            held = nodes_of_active(snapshot, everybody[self._belong(everybody, part)])
            domains = choose_domains(self._session, self._boards, part.levels, tasks, None, held).domains
            candidates = [topology.nodes(domain) for domain in domains.tolist()]
            if not candidates:
                return False
            self._owners += [topology.owners(level, len(snapshot.nodes)) for level in part.levels.tried()]
        number = self._add(parent, candidates, tasks[own])
        return all(self._read(group, number, tasks[mine]) for group, mine in inner)

    def _add(self, parent: int, candidates: list[Rows], tasks: Rows) -> int:
        first, kinds = len(self._cands), len(self._kinds)
        self._cands += candidates
        classes = self._session.snapshot.tasks.cls[tasks]
        self._kinds += [(cls, tasks[classes == cls]) for cls in dict.fromkeys(classes.tolist())]
        self._parts.append([parent, 0, NO_ROW, kinds, len(self._kinds), first, len(self._cands), 0])
        return len(self._parts) - 1

    def _belong(self, tasks: Rows, part: Part) -> Mask:
        if part.roles is None:
            return np.ones(len(tasks), np.bool_)
        return np.isin(self._session.snapshot.tasks.role[tasks], part.roles)

    def _gang(self) -> Gang:
        snapshot = self._session.snapshot
        classes = sorted({cls for cls, _ in self._kinds})
        allowed = np.stack([self._boards.verdicts(cls) == FITS for cls in classes])
        cells = np.unique(np.stack(self._owners, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        kinds = np.unique(allowed.T, axis=0, return_inverse=True)[1].reshape(-1)
        free = snapshot.nodes.future_idle()
        rank = np.empty(len(cells), np.int64)
        rank[np.lexsort((*free.T, kinds, cells))] = np.arange(len(cells))
        ends = np.cumsum([len(nodes) for nodes in self._cands])
        slices = [[end - len(nodes), end, NO_ROW] for nodes, end in zip(self._cands, ends, strict=True)]
        return packed(
            Gang(
                parts=np.array(self._parts, np.int32),
                kinds=np.array([[0, classes.index(cls), len(tasks)] for cls, tasks in self._kinds], np.int32),
                requests=snapshot.classes.requests[classes, 0],
                allowed=allowed,
                cands=np.array(slices, np.int32),
                cand_nodes=np.concatenate([nodes[np.argsort(rank[nodes])] for nodes in self._cands]).astype(np.int32),
                needs=np.array([len(self._tasks), 0], np.int64),
                nodes=np.stack((cells, kinds), axis=1).astype(np.int32),
                colors=np.arange(int(cells.max()) + 1, dtype=np.int64),
            )
        )

    def _kinds_of_room(self) -> list[Amounts]:
        nodes = self._session.snapshot.nodes
        future = nodes.future_idle()
        now = np.minimum(nodes.idle(), future)
        return [now] if np.array_equal(now, future) else [now, future]
