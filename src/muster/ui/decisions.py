"""Cycles for the dashboard: a line over all of them, what each one tried, decided and why, and what follows from it.

A session knows its own moment alone. Since when jobs wait, who came meanwhile and how queues stood when one took from
the other is found in what earlier cycles decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.explain.words import amounts_text
from muster.ui.history import Json, Moment

#: Entries of the line over all cycles; quiet ones are left out first.
_MAX_LINE: Final = 5_000
_MAX_PODS: Final = 200
MAX_CYCLES: Final = 200


@dataclass(frozen=True, slots=True)
class CycleFilter:
    """Which cycles, and what of them, is wanted."""

    #: Cycles up to this one, the latest first; None: from the end.
    before: int | None = None
    limit: int = 30
    job: str = ""
    kind: str = ""
    #: Whether cycles are left out in which nothing was decided.
    busy: bool = True


def line_document(moments: Iterable[Moment]) -> Json:
    """One column per fact, one entry per cycle."""
    shown = list(moments)[-_MAX_LINE:]
    counts = [moment.counts() for moment in shown]
    return {
        "cycle": [moment.cycle for moment in shown],
        "time": [moment.time for moment in shown],
        "bind": [count["bind"] for count in counts],
        "evict": [count["evict"] for count in counts],
        "nominate": [count["nominate"] for count in counts],
        "running": [moment.running for moment in shown],
        "waiting": [moment.waiting for moment in shown],
        "whole": [moment.session is not None for moment in shown],
        "failed": [bool(moment.error) for moment in shown],
    }


def cycles_document(moments: Iterable[Moment], wanted: CycleFilter) -> Json:
    """Cycles with what they decided, the latest first."""
    found: list[Json] = []
    more = None
    every = list(moments)
    for place in reversed(range(len(every))):
        moment, previous = every[place], every[place - 1] if place else None
        if wanted.before is not None and moment.cycle >= wanted.before:
            continue
        groups = groups_of(moment, previous, wanted)
        if not groups and (wanted.busy or wanted.job or wanted.kind) and not moment.error:
            continue
        if len(found) == wanted.limit:
            more = found[-1]["cycle"]
            break
        found.append(
            {
                "cycle": moment.cycle,
                "time": moment.time,
                "counts": moment.counts(),
                "groups": groups,
                "tried": [update for update in moment.updates if update["code"] and wanted.job in ("", update["job"])],
                "actions": dict(moment.actions),
                "failures": list(moment.failures),
                "error": moment.error,
            }
        )
    return {"cycles": found, "before": more}


def groups_of(moment: Moment, previous: Moment | None, wanted: CycleFilter) -> list[Json]:
    """Decisions of a cycle; those that differ only in pod and node are one."""
    alike: dict[tuple[str, str, str, str], list[Json]] = {}
    for made in moment.decisions:
        if wanted.kind in ("", made["kind"]) and wanted.job in ("", made["job"], made["beneficiary"]):
            alike.setdefault((made["kind"], made["job"], made["beneficiary"], made["why"]), []).append(made)
    return [
        {
            "kind": kind,
            "job": job,
            "beneficiary": beneficiary,
            "why": why,
            "queue": group[0]["queue"],
            "beneficiaryQueue": group[0]["beneficiaryQueue"],
            "n": len(group),
            "pods": [{"pod": made["pod"], "node": made["node"]} for made in group[:_MAX_PODS]],
            "record": next((made["record"] for made in group if made.get("record")), None),
            "balance": standing(previous, moment, group[0]),
        }
        for (kind, job, beneficiary, why), group in alike.items()
    ]


# -- what earlier cycles say about a later one ----------------------------------------------------------------------


def until(moments: Iterable[Moment], last: Moment) -> list[Moment]:
    """The moments up to one, in order."""
    return [each for each in moments if each.cycle <= last.cycle]


def evicted_at(moments: Iterable[Moment]) -> dict[str, float]:
    """When pods of a job were last told to leave, for all jobs of which there were such."""
    return {job: moment.time for moment in moments for job in moment.evicted_jobs()}


def waits_since(row: Json, now: float, evicted: Mapping[str, float]) -> float | None:
    """Since when a job of the list waits, or waits again; None: it does not."""
    if row["state"] not in ("waiting", "promised"):
        return None
    made: float = now - row["ageSeconds"]
    return max(made, evicted.get(row["job"], made))


def came_since(jobs: Iterable[str], since: float, moments: Iterable[Moment]) -> list[Json]:
    """Which of some jobs got nodes after a moment, and when last; the latest first."""
    wanted = set(jobs)
    found: dict[str, Json] = {}
    for moment in moments:
        if moment.time > since:
            for made in moment.decisions:
                if made["kind"] == "bind" and made["job"] in wanted:
                    found[made["job"]] = {"job": made["job"], "time": moment.time, "cycle": moment.cycle}
    return sorted(found.values(), key=lambda each: (-each["cycle"], each["job"]))


def standing(before: Moment | None, moment: Moment, made: Json) -> str:
    """What spoke for whom a pod left: how their queues stood, or in one queue who is more urgent; "": not known."""
    own, other = made.get("priority"), made.get("beneficiaryPriority")
    if made["queue"] != made["beneficiaryQueue"]:
        return balance(before, moment, made["queue"], made["beneficiaryQueue"])
    is_preempted = "preempt" in made["why"].partition(":")[0]
    if not is_preempted or own is None or other is None or other <= own:
        return ""
    return f"its priority is {own}, that of the job for which it left {other}"


def balance(before: Moment | None, moment: Moment, giver: str, taker: str) -> str:
    """How two queues stood when one gave to the other: what they held before, and their shares then; "": not known."""
    if giver == taker:
        return ""
    for name in _devices_first(moment.held.get(taker, {})):
        held = [_held_before(before, moment, queue, name) for queue in (giver, taker)]
        shares = [moment.held.get(queue, {}).get(name, (0, None))[1] for queue in (giver, taker)]
        if any(held) and None not in (*held, *shares):
            numbers = ([amounts_text({name: amount or 0}) for amount in each] for each in (held, shares))
            told = zip((giver, taker), *numbers, strict=True)
            return "before it, " + "; ".join(
                f"{queue} held {has}, its fair share was {share}" for queue, has, share in told
            )
    return ""


def _held_before(before: Moment | None, moment: Moment, queue: str, name: str) -> int | None:
    """What a queue held before a cycle; of the first one it follows from what was decided in it. None: not known."""
    if before is not None:
        return before.held[queue].get(name, (0, None))[0] if queue in before.held else None
    if moment.session is None or queue not in moment.held:
        return None
    snapshot = moment.session.snapshot
    rows = {pod: row for row, pod in enumerate(snapshot.tasks.ids)}
    held = moment.held[queue].get(name, (0, None))[0]
    for pod, is_evicted in {
        (made["pod"], made["kind"] == "evict") for made in moment.decisions if made["queue"] == queue
    }:
        amount = snapshot.axis.amounts(snapshot.request(rows[pod])).get(name, 0) if pod in rows else 0
        held += amount if is_evicted else -amount
    return held


def _devices_first(names: Iterable[str]) -> Sequence[str]:
    return sorted(names, key=lambda name: ("/" not in name, name != "cpu", name))
