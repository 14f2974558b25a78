"""The map of nodes: columns in the order of the topology tree, so that a browser can draw twenty thousand of them.

`tree_document` changes when nodes come or go; `state_document` with every cycle, so it is numbers alone: what each
node has and what is used of it, whose pods hold most there, and what is wrong with it. Amounts are in base units.
Nodes of a domain stand in a row: domain `d` holds the nodes `lo[d]` to `hi[d]`, as in the scheduler's own table.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from muster.api.resources import unit_of
from muster.explain.lists import node_rows, node_state, scarce_resource
from muster.explain.model import amounts_json
from muster.framework import Session
from muster.snapshot import NO_ROW, Snapshot, TaskStatus
from muster.snapshot.columns import OCCUPYING_STATUSES
from muster.ui.history import Json, Moment

#: How a node stands, in the order in which it matters.
STATES: Final = ("ready", "cordoned", "not ready", "quarantined")


def tree_document(session: Session) -> Json:
    """Names and order of nodes, and the domains around them."""
    snapshot = session.snapshot
    table = snapshot.topology
    faults = table.forest.faults
    names: dict[int, str] = {tier: name for name, tier in table.forest.tier_names.items()}
    tiers = sorted({int(tier) for tier in table.tier[1:]}, reverse=True)
    return {
        "revision": revision_of(snapshot),
        "nodes": list(snapshot.nodes.names),
        "domains": {
            "name": ["cluster", *table.names[1:]],
            "tier": table.tier.tolist(),
            "parent": table.parent.tolist(),
            "lo": table.lo.tolist(),
            "hi": table.hi.tolist(),
        },
        "tiers": [
            {"tier": tier, "name": names.get(tier, ""), "domains": int((table.tier == tier).sum())} for tier in tiers
        ],
        "faults": [{"domain": name, "fault": fault} for name, fault in sorted(faults.items())],
        "resources": [
            {"name": name, "unit": unit_of(name)}
            for column, name in enumerate(snapshot.axis.names)
            if name == "pods" or snapshot.nodes.allocatable()[:, column].any()
        ],
        "scarce": scarce_resource(snapshot),
    }


def revision_of(snapshot: Snapshot) -> str:
    """The same for pictures whose nodes and domains are the same."""
    digest = hashlib.sha256()
    for part in (snapshot.nodes.names, snapshot.topology.names, snapshot.axis.names):
        digest.update("\0".join(part).encode())
        digest.update(b"\1")
    digest.update(snapshot.topology.parent.tobytes())
    return digest.hexdigest()[:16]


def state_document(session: Session) -> Json:
    """How nodes stand now."""
    snapshot = session.snapshot
    nodes = snapshot.nodes
    scarce = scarce_resource(snapshot)
    starts, jobs, amounts = _holders(snapshot, snapshot.axis.index[scarce])
    known, positions = np.unique(jobs, return_inverse=True)
    records = [snapshot.jobs.records[row] for row in known.tolist()]
    queues = sorted({record.queue for record in records})
    shown = [name for column, name in enumerate(snapshot.axis.names) if nodes.allocatable()[:, column].any()]
    return {
        "revision": revision_of(snapshot),
        "scarce": scarce,
        "resources": {
            name: {
                "total": nodes.allocatable()[:, snapshot.axis.index[name]].tolist(),
                "used": nodes.used()[:, snapshot.axis.index[name]].tolist(),
            }
            for name in shown
        },
        "pods": _pod_counts(snapshot),
        "states": list(STATES),
        "state": [STATES.index(node_state(session, row)) for row in range(len(nodes))],
        "leaving": _nodes_with(snapshot, TaskStatus.RELEASING),
        "promised": sorted({*_nodes_with(snapshot, TaskStatus.PIPELINED), *_reserved(snapshot)}),
        "jobs": [record.id for record in records],
        "queues": queues,
        "jobQueue": [queues.index(record.queue) for record in records],
        # Who holds how much of the scarce resource, else of CPUs, on node n: entries start[n] to start[n + 1].
        "holders": {"start": starts.tolist(), "job": positions.tolist(), "amount": amounts.tolist()},
    }


def _on_nodes(snapshot: Snapshot) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    tasks = snapshot.tasks
    return np.flatnonzero((tasks.node != NO_ROW) & np.isin(tasks.status, OCCUPYING_STATUSES))


def _pod_counts(snapshot: Snapshot) -> list[int]:
    rows = _on_nodes(snapshot)
    counts: list[int] = np.bincount(snapshot.tasks.node[rows], minlength=len(snapshot.nodes)).tolist()
    return counts


def _nodes_with(snapshot: Snapshot, status: TaskStatus) -> list[int]:
    tasks = snapshot.tasks
    found: list[int] = np.unique(tasks.node[(tasks.node != NO_ROW) & (tasks.status == status)]).tolist()
    return found


def _reserved(snapshot: Snapshot) -> list[int]:
    found: list[int] = np.unique(snapshot.tasks.nominated[snapshot.tasks.reserved]).tolist()
    return found


_Columns = tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]


def _holders(snapshot: Snapshot, column: int) -> _Columns:
    """Where the entries of each node begin; the jobs; what each holds there, the largest first.

    It is CPUs where nodes have nothing of the scarce resource: who is there has a colour all the same.
    """
    tasks = snapshot.tasks
    rows = _on_nodes(snapshot)
    rows = rows[tasks.job[rows] != NO_ROW]
    counted = np.where(snapshot.nodes.allocatable()[:, column] > 0, column, snapshot.axis.index["cpu"])
    asked = snapshot.classes.requests[tasks.cls[rows], 0, counted[tasks.node[rows]]]
    key = tasks.node[rows].astype(np.int64) * len(snapshot.jobs) + tasks.job[rows]
    pairs, place = np.unique(key, return_inverse=True)
    amounts = np.bincount(place, weights=asked, minlength=len(pairs)).astype(np.int64)
    node, job = np.divmod(pairs, max(1, len(snapshot.jobs)))
    order = np.lexsort((job, -amounts, node))
    starts = np.searchsorted(node[order], np.arange(len(snapshot.nodes) + 1))
    return starts, job[order], amounts[order]


def prepared(moment: Moment, key: str) -> Json:
    """The tree or the state of a moment, made once."""
    found = moment.answers.get(key)
    if found is None:
        assert moment.session is not None  # `History.at` looks at that
        made = tree_document(moment.session) if key == "tree" else state_document(moment.session)
        found = moment.answers[key] = {
            **made,
            **({} if key == "tree" else {"cycle": moment.cycle, "time": moment.time}),
        }
    return found


def node_document(session: Session, name: str) -> Json | None:
    """One node: how it stands, where it is in the network, and its pods; None: there is none of that name."""
    snapshot = session.snapshot
    row = snapshot.nodes.index.get(name)
    if row is None:
        return None
    tasks, table = snapshot.tasks, snapshot.topology
    domain, path = int(table.leaf[row]), []
    while domain > 0:
        path.append({"name": table.names[domain], "tier": int(table.tier[domain])})
        domain = int(table.parent[domain])
    pods = [task for task in _on_nodes(snapshot).tolist() if tasks.node[task] == row]
    is_promised = (tasks.nominated == row) & (tasks.status == TaskStatus.PENDING)
    promised = np.flatnonzero(is_promised | ((tasks.node == row) & (tasks.status == TaskStatus.PIPELINED))).tolist()
    return {
        **node_rows(session, [row])[0].to_json(),
        "row": row,
        "domains": path,
        "labels": dict(sorted(snapshot.nodes.objects[row].metadata.labels.items())),
        "running": [_pod(session, task) for task in sorted(pods, key=lambda task: tasks.ids[task])],
        "promisedTo": [_pod(session, task) for task in sorted(promised, key=lambda task: tasks.ids[task])],
    }


def _pod(session: Session, task: int) -> Json:
    snapshot = session.snapshot
    job = int(snapshot.tasks.job[task])
    asked = snapshot.axis.amounts(snapshot.request(task))
    return {
        "pod": snapshot.tasks.ids[task],
        "job": "" if job == NO_ROW else snapshot.jobs.records[job].id,
        "queue": "" if job == NO_ROW else snapshot.jobs.records[job].queue,
        "status": TaskStatus(int(snapshot.tasks.status[task])).label,
        "asks": amounts_json({name: amount for name, amount in asked.items() if name != "pods"}),
    }
