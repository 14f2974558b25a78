"""What earlier cycles say about one that is looked at: since when jobs wait, who came meanwhile, how queues stood.

A session knows its own moment alone; what went before it is in the history. Read by the lists of jobs and decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from muster.explain.words import amounts_text
from muster.ui.history import Json, Moment


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
