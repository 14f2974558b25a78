"""Queues for the dashboard: the tree of `muster queue show`, what each held over time, and who took from whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from muster.api.resources import unit_of
from muster.explain import QueueView, queue_overview
from muster.snapshot import UNLIMITED
from muster.ui.history import Json, Moment

#: Points of a line over time; of more cycles every so many-th is shown.
_MAX_POINTS: Final = 600
#: Instead of an amount: whatever it asks for.
_NO_END: Final = -1


def queues_document(moment: Moment) -> Json:
    """All queues of a moment, parents first."""
    kept = moment.answers.get("queues")
    if kept is None:
        assert moment.session is not None  # `History.at` looks at that
        overview = queue_overview(moment.session)
        kept = moment.answers["queues"] = {
            **overview.to_json(),
            "queues": [{**queue.to_json(), "amounts": _amounts(queue)} for queue in overview.walk()],
            "loans": [
                {**loan.to_json(), "base": loan.amount, "unit": unit_of(loan.resource)} for loan in overview.loans
            ],
            "units": {name: unit_of(name) for name in overview.total},
            "totals": dict(overview.total),
        }
    return kept


def _amounts(queue: QueueView) -> Json:
    """The numbers behind the words, in base units."""
    return {
        name: {
            "quota": _number(part.quota),
            "limit": _number(part.limit),
            "fairShare": _number(part.fair_share),
            "held": part.held,
            "asked": part.asked,
        }
        for name, part in queue.resources.items()
        if name != "pods"
    }


def _number(amount: int | None) -> int | None:
    return None if amount is None else _NO_END if amount >= UNLIMITED else amount


def series_document(moments: Iterable[Moment], resource: str) -> Json:
    """What queues held of a resource, cycle by cycle, with their fair shares."""
    every = list(moments)
    step = max(1, -(-len(every) // _MAX_POINTS))
    shown = every[::step] if not every or (len(every) - 1) % step == 0 else [*every[::step], every[-1]]
    names = sorted({name for moment in shown for name in moment.held})
    pairs = sorted({loan[1:3] for moment in shown for loan in moment.loans if loan[0] == resource})
    empty: tuple[int, None] = (0, None)
    return {
        "resource": resource,
        "unit": unit_of(resource),
        "cycle": [moment.cycle for moment in shown],
        # A clock that was set back draws no line that runs backwards.
        "time": list(accumulate((moment.time for moment in shown), max)),
        "queues": {
            name: {
                "held": [moment.held.get(name, {}).get(resource, empty)[0] for moment in shown],
                "fairShare": [moment.held.get(name, {}).get(resource, empty)[1] for moment in shown],
            }
            for name in names
        },
        "loans": [
            {"lender": pair[0], "borrower": pair[1], "amount": [_lent(moment, resource, pair) for moment in shown]}
            for pair in pairs
        ],
        "takings": [
            {"time": moment.time, "cycle": moment.cycle, **taking} for moment in every for taking in _taken(moment)
        ][-_MAX_POINTS:],
    }


def _lent(moment: Moment, resource: str, pair: tuple[str, str]) -> int:
    return sum(loan[3] for loan in moment.loans if loan[0] == resource and loan[1:3] == pair)


def _taken(moment: Moment) -> list[Json]:
    """Pods that left for others in a cycle, by the queues of both."""
    pods = Counter(
        (made["queue"], made["beneficiaryQueue"])
        for made in moment.decisions
        if made["kind"] == "evict" and made["beneficiary"]
    )
    return [{"from": giver, "to": taker, "pods": n} for (giver, taker), n in sorted(pods.items())]


def takings(moments: Iterable[Moment]) -> list[Json]:
    """Who took from whom: pods that left for jobs of other queues, or of the same one, with the last reason."""
    sums: dict[tuple[str, str], Json] = {}
    for moment in moments:
        for made in moment.decisions:
            if made["kind"] == "evict" and made["beneficiary"]:
                key = (made["queue"], made["beneficiaryQueue"])
                entry = sums.setdefault(key, {"from": key[0], "to": key[1], "pods": 0, "jobs": [], "for": []})
                entry["pods"] += 1
                entry |= {"time": moment.time, "cycle": moment.cycle, "why": made["why"]}
                for place, job in (("jobs", made["job"]), ("for", made["beneficiary"])):
                    if job not in entry[place]:
                        entry[place].append(job)
    return sorted(sums.values(), key=lambda entry: (-entry["pods"], entry["from"], entry["to"]))
