"""What is asked of a feed as a whole: how it is, how it is configured, and where a name is to be found."""

from __future__ import annotations

from typing import Final

import numpy as np

from muster import __version__
from muster.framework import Session
from muster.snapshot import TaskStatus
from muster.ui.feeds import Feed
from muster.ui.history import Json, Moment

_MAX_FOUND: Final = 8


def status_document(feed: Feed) -> Json:
    """How the feed is: what the head of every page shows, and what a stream tells."""
    latest = feed.history.latest
    return {
        "version": __version__,
        "source": feed.label.kind,
        "title": feed.label.title,
        "words": feed.label.words,
        "live": feed.is_live,
        "ended": feed.has_ended,
        "trouble": feed.trouble,
        "start": feed.start,
        "cycles": len(feed.history),
        "cycle": None if latest is None else latest.cycle,
        "time": None if latest is None else latest.time,
        "firstWhole": feed.history.first_whole(),
        "running": None if latest is None else latest.running,
        "waiting": None if latest is None else latest.waiting,
        "quarantined": 0 if latest is None else len(latest.quarantined),
        "counts": {} if latest is None else latest.counts(),
    }


def config_document(feed: Feed) -> Json:
    """The configuration as understood, every plugin with its meaning, and what could not be used."""
    registry = feed.registry
    understood = registry.understood(feed.config)
    latest = feed.history.latest
    session = None if latest is None else latest.session
    used = {option.name for option in feed.config.plugin_options()}
    out = sorted(used - set(session.plugins)) if session is not None else []
    sharding = feed.config.sharding
    return {
        **understood,
        "notes": [*feed.config.notes, *feed.notes],
        "summaries": {
            **{name: known.summary for name, known in sorted(registry.plugins.items())},
            **{name: known.summary for name, known in sorted(registry.actions.items())},
        },
        "unused": sorted(set(registry.plugins) - used),
        "pluginsLeftOut": out,
        "quarantined": [] if latest is None else list(latest.quarantined),
        "faults": [] if session is None else _faults(session),
        "surroundings": feed.surroundings,
        "shard": None if sharding is None else {"mode": sharding.mode, "nodes": len(sharding.nodes)},
        "errors": [
            {"cycle": moment.cycle, "time": moment.time, "error": moment.error}
            for moment in list(feed.history)[-500:]
            if moment.error
        ],
    }


def _faults(session: Session) -> list[Json]:
    forest = session.snapshot.topology.forest
    return [{"domain": name, "fault": fault} for name, fault in forest.all_faults]


def search_document(moment: Moment, text: str) -> Json:
    """Nodes, domains, jobs, pods and queues whose name holds a text; what begins with it first."""
    session = moment.session
    assert session is not None  # `History.at` looks at that
    snapshot = session.snapshot
    jobs = [snapshot.jobs.records[row].id for row in np.flatnonzero(snapshot.jobs.live).tolist()]
    gone = (TaskStatus.GONE,)
    pods = [name for name, status in zip(snapshot.tasks.ids, snapshot.tasks.status, strict=True) if status not in gone]
    kinds = {
        "job": jobs,
        "queue": [record.name for record in snapshot.queues.records],
        "node": snapshot.nodes.names,
        "domain": snapshot.topology.names[1:],
        "pod": pods,
    }
    found = [
        {"kind": kind, "name": name, **({"job": _job_of(session, name)} if kind == "pod" else {})}
        for kind, names in kinds.items()
        for name in _matching(names, text.lower())
    ]
    return {"text": text, "found": found}


def _matching(names: list[str], text: str) -> list[str]:
    if not text:
        return []
    matching = [name for name in names if text in name.lower()]
    return sorted(matching, key=lambda name: (not name.lower().startswith(text), len(name), name))[:_MAX_FOUND]


def _job_of(session: Session, pod: str) -> str:
    row = session.snapshot.tasks.ids.index(pod)
    job = int(session.snapshot.tasks.job[row])
    return "" if job < 0 else session.snapshot.jobs.records[job].id
