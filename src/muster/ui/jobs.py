"""Jobs for the dashboard: the list with filters, and everything about one job.

The rows, the reasons and the explanation are those of `muster job list` and `muster explain`. A job's timeline is put
together from what cycles decided about it and from where its reason changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from muster.explain import explain_job, explanation_lines, find_job, headline, job_rows
from muster.framework import Session
from muster.snapshot import NO_ROW, TaskStatus
from muster.ui.decisions import came_since, evicted_at, standing, until, waits_since
from muster.ui.history import Json, Moment
from muster.ui.questions import WIDTH

#: How many rows an answer has at most, and without being asked.
MAX_ROWS: Final = 1000
DEFAULT_ROWS: Final = 200
#: Lines of a timeline; of longer ones the last are kept.
_MAX_ENTRIES: Final = 400


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are wanted."""

    text: str = ""
    queue: str = ""
    #: One, or several with commas in between.
    state: str = ""
    namespace: str = ""
    offset: int = 0
    limit: int = DEFAULT_ROWS

    def admits(self, row: Json) -> bool:
        """Whether a row of the list is wanted."""
        text = self.text.lower()
        return (
            (not text or any(text in said.lower() for said in (row["job"], row["reason"], _name_of(row["owner"]))))
            and self.queue in ("", row["queue"])
            and (not self.state or row["state"] in self.state.split(","))
            and self.namespace in ("", row["job"].partition("/")[0])
        )


def _name_of(owner: Json | None) -> str:
    return "" if owner is None else f"{owner['kind']} {owner['name']}"


def all_jobs(moment: Moment, moments: Iterable[Moment]) -> list[Json]:
    """All jobs of a moment, as the list of the command has them, and since when they wait; made once."""
    kept = moment.answers.get("jobs")
    if kept is None:
        assert moment.session is not None  # `History.at` looks at that
        evicted = evicted_at(until(moments, moment))
        rows = [row.to_json() for row in job_rows(moment.session, moment.time)]
        kept = moment.answers["jobs"] = {"jobs": [_with_wait(row, moment.time, evicted) for row in rows]}
    found: list[Json] = kept["jobs"]
    return found


def _with_wait(row: Json, now: float, evicted: Mapping[str, float]) -> Json:
    since = waits_since(row, now, evicted)
    return {**row, "waitsSeconds": None if since is None else round(now - since, 3)}


def jobs_document(rows: list[Json], wanted: JobFilter) -> Json:
    """The jobs that are wanted, and how many there are of each state, of those that all else admits."""
    in_any_state = replace(wanted, state="")
    alike = [row for row in rows if in_any_state.admits(row)]
    found = [row for row in alike if wanted.admits(row)]
    states: dict[str, int] = {}
    for row in alike:
        states[row["state"]] = states.get(row["state"], 0) + 1
    return {
        "total": len(rows),
        "found": len(found),
        "offset": wanted.offset,
        "states": states,
        "queues": sorted({row["queue"] for row in rows}),
        "namespaces": sorted({row["job"].partition("/")[0] for row in rows}),
        "jobs": found[wanted.offset : wanted.offset + wanted.limit],
    }


def job_document(moment: Moment, moments: Iterable[Moment], wanted: str) -> Json:
    """Everything about one job. Raises UserError with close matches."""
    session = moment.session
    assert session is not None  # `History.at` looks at that
    row = find_job(session.snapshot, wanted)
    name = session.snapshot.jobs.records[row].id
    key = f"job {name}"
    if key not in moment.answers:
        moment.answers[key] = _job(session, row, moment.time)
    past = until(moments, moment)
    entry = next(known for known in all_jobs(moment, past) if known["job"] == name)
    holders = [holder["job"] for holder in moment.answers[key]["explanation"]["holders"]]
    waits = entry["waitsSeconds"]
    return {
        "row": entry,
        **moment.answers[key],
        "came": [] if waits is None else came_since(holders, moment.time - waits, past),
        "timeline": timeline(name, session.snapshot.jobs.records[row].created, past),
    }


def _job(session: Session, row: int, now: float) -> Json:
    explanation = explain_job(session, row, now)
    tasks, nodes = session.snapshot.tasks, session.snapshot.nodes
    queues, own = session.snapshot.queues, {queue.name for queue in explanation.queues}
    names = [record.name for record in queues.records]
    pods = [
        {
            "pod": tasks.ids[task],
            "node": "" if tasks.node[task] == NO_ROW else nodes.names[tasks.node[task]],
            "promised": "" if tasks.nominated[task] == NO_ROW else nodes.names[tasks.nominated[task]],
            "status": TaskStatus(int(tasks.status[task])).label,
        }
        for task in session.snapshot.tasks_of(row).tolist()
    ]
    return {
        "headline": headline(explanation),
        "text": explanation_lines(explanation, WIDTH),
        "explanation": explanation.to_json(),
        "othersHold": any(queues.tree_allocated[row].any() for row, name in enumerate(names) if name not in own),
        "pods": sorted(pods, key=lambda pod: pod["pod"]),
        "notPreemptible": _why_not_preemptible(session, row),
    }


def _why_not_preemptible(session: Session, row: int) -> str:
    """What keeps all evictions from a job; "": it is preemptible."""
    jobs = session.snapshot.jobs
    record = jobs.records[row]
    if jobs.preemptible[row]:
        return ""
    if record.preemptible is None and record.preemptible_below is not None:
        return f"its priority is {record.preemptible_below} or more"
    return "it says so itself"


def timeline(job: str, created: float, moments: Iterable[Moment]) -> list[Json]:
    """What happened to a job, in order; pods that were treated alike in a cycle are one entry."""
    entries: list[Json] = [{"time": created, "cycle": None, "kind": "created", "text": "created", "pods": []}]
    said = ("", "")
    previous: Moment | None = None
    for moment in moments:
        before: list[Json] = []
        after: list[Json] = []
        for update in moment.updates:
            if update["job"] == job:
                told = update["message"] or update["phase"]
                # What follows the first clause, or stands in brackets, are numbers that change with every cycle.
                heard = (update["code"], told.partition("; ")[0].partition(" (")[0])
                if heard != said:
                    kind = "waits" if update["code"] else "phase"
                    # How it stood comes before what was decided then; what came of it is why it waits, or, as a live
                    # cluster tells it at once, that it runs.
                    is_first = not any(entry["kind"] == "bind" for entry in entries) and _is_bound(job, moment)
                    came_of_it = update["code"] or (update["phase"] == "Running" and is_first)
                    place = after if came_of_it else before
                    place.append(_entry(moment, kind, told, code=update["code"], phase=update["phase"]))
                said = heard
        entries += [*before, *_decided(job, moment, previous), *after]
        previous = moment
    return entries if len(entries) <= _MAX_ENTRIES else [entries[0], *entries[1 - _MAX_ENTRIES :]]


def _is_bound(job: str, moment: Moment) -> bool:
    return any(made["kind"] == "bind" and made["job"] == job for made in moment.decisions)


def _decided(job: str, moment: Moment, previous: Moment | None) -> Iterator[Json]:
    alike: dict[tuple[str, str, str, str], list[Json]] = {}
    for made in moment.decisions:
        if made["job"] == job or (made["kind"] == "evict" and made["beneficiary"] == job):
            kind = made["kind"] if made["job"] == job else "cleared"
            alike.setdefault((kind, made["job"], made["beneficiary"], made["why"]), []).append(made)
    for (kind, of, beneficiary, why), group in alike.items():
        yield _entry(
            moment,
            kind,
            why,
            pods=[{"pod": made["pod"], "node": made["node"]} for made in group],
            job=of,
            beneficiary=beneficiary,
            record=next((made["record"] for made in group if made.get("record")), None),
            balance=standing(previous, moment, group[0]),
        )


def _entry(moment: Moment, kind: str, text: str, **more: object) -> Json:
    return {"time": moment.time, "cycle": moment.cycle, "kind": kind, "text": text, "pods": [], **more}
