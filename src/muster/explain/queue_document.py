"""The tree of queues as the documented JSON of `muster queues show --output json`."""

from __future__ import annotations

from muster.api import format_amount
from muster.explain.model import Json
from muster.explain.queue_overview import QueueAmounts, QueueOverview, QueueView
from muster.snapshot import UNLIMITED

QUEUE_FIELDS = (
    ("`total`", "by resource: what the ready nodes have"),
    ("`heldByOthers`", "by resource: what of it pods of other schedulers hold, which queues do not share"),
    ("`queues[]`", "every queue, parents before the queues below them, queues with a fault at the end"),
    ("`queues[].name`, `parent`, `priority`", "as in the object; `parent` is empty at the top"),
    ("`queues[].open`, `reclaimable`", "false: it takes no more jobs; nothing is taken back from it"),
    ("`queues[].preemptMinRuntime`, `reclaimMinRuntime`", "seconds; null where the queue itself sets none"),
    ("`queues[].fault`", "why its parents do not lead to the top; empty if they do"),
    ("`queues[].jobs`", "of the queue itself: `running` with their minimum, `waiting` for it; `pendingPods` of both"),
    ("`queues[].reasons[]`", "why pods wait: [`code`](reasons.md), `text`, how many `jobs`; the most frequent first"),
    ("`queues[].resources`", "by resource, with all queues below; amounts as quantities"),
    ("`….quota`", "what the queue was promised: a quantity, `unlimited`, or null where it has none"),
    ("`….limit`", "the most that it may hold; null: no limit"),
    ("`….weight`", "its part of what is left over"),
    ("`….fairShare`", "what it may have now; null where no plugin says"),
    ("`….held`", "what its pods hold or are promised"),
    ("`….asked`", "what it holds and what its pending pods ask for"),
    ("`loans[]`", "`borrower` holds `amount` of `resource` that `lender` was promised and does not use"),
    ("`missing[]`", "queues that do not exist, and how many `jobs` name them"),
)


def overview_document(tree: QueueOverview) -> Json:
    """Return the document."""
    return {
        "total": {name: format_amount(name, amount) for name, amount in tree.total.items()},
        "heldByOthers": {name: format_amount(name, amount) for name, amount in tree.held_by_others.items()},
        "queues": [_queue(queue) for queue in tree.walk()],
        "loans": [
            {
                "borrower": loan.borrower,
                "lender": loan.lender,
                "resource": loan.resource,
                "amount": format_amount(loan.resource, loan.amount),
            }
            for loan in tree.loans
        ],
        "missing": [{"queue": name, "jobs": n} for name, n in tree.missing],
    }


def _queue(queue: QueueView) -> Json:
    return {
        "name": queue.name,
        "parent": queue.parent,
        "priority": queue.priority,
        "open": queue.is_open,
        "reclaimable": queue.reclaimable,
        "preemptMinRuntime": queue.preempt_min_runtime,
        "reclaimMinRuntime": queue.reclaim_min_runtime,
        "fault": queue.fault,
        "jobs": {"running": queue.running, "waiting": queue.waiting, "pendingPods": queue.pending_pods},
        "reasons": [{"code": reason.code, "text": reason.text, "jobs": n} for reason, n in queue.reasons],
        "resources": {name: _resource(name, amounts) for name, amounts in queue.resources.items() if name != "pods"},
    }


def _resource(name: str, amounts: QueueAmounts) -> Json:
    return {
        "quota": _quantity(name, amounts.quota),
        "limit": _quantity(name, amounts.limit),
        "weight": amounts.weight,
        "fairShare": _quantity(name, amounts.fair_share),
        "held": format_amount(name, amounts.held),
        "asked": format_amount(name, amounts.asked),
    }


def _quantity(name: str, amount: int | None) -> str | None:
    if amount is None:
        return None
    return "unlimited" if amount >= UNLIMITED else format_amount(name, amount)
