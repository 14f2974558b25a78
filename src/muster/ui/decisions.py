"""Cycles for the dashboard: a line over all of them, and what each one tried, decided and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster.ui.history import Json, Moment
from muster.ui.past import balance

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
            "balance": balance(previous, moment, group[0]["queue"], group[0]["beneficiaryQueue"]),
        }
        for (kind, job, beneficiary, why), group in alike.items()
    ]
