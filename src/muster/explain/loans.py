"""Who uses what others were promised: the part of a queue's use above its quota that idle quotas of siblings cover.

Called by `queue_tree` for each group of siblings and each resource; pure. What nobody was promised goes first, to the
largest borrower; then idle quotas are lent, the largest first. Ties go by name. So the amounts are as small as they
can be: a queue borrows from a sibling only what the sibling could not have any more if it asked for its quota now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """One queue among its siblings, for one resource."""

    name: str
    quota: int
    held: int


@dataclass(frozen=True, slots=True)
class Loan:
    """One queue holds what another was promised and does not use."""

    borrower: str
    lender: str
    resource: str
    amount: int


def find_loans(resource: str, budget: int, siblings: Sequence[Account]) -> list[Loan]:
    """Return the loans among siblings that have `budget` to share."""
    borrowers = _sorted({known.name: known.held - known.quota for known in siblings})
    lenders = _sorted({known.name: known.quota - known.held for known in siblings})
    unpromised = max(0, budget - sum(known.quota for known in siblings))
    loans = []
    for borrower, over in borrowers.items():
        free = min(over, unpromised)
        unpromised -= free
        missing = over - free
        for lender in lenders:
            amount = min(missing, lenders[lender])
            if amount:
                lenders[lender] -= amount
                missing -= amount
                loans.append(Loan(borrower, lender, resource, amount))
    return loans


def _sorted(amounts: dict[str, int]) -> dict[str, int]:
    """Positive amounts, largest first."""
    ordered = sorted(amounts.items(), key=lambda known: (-known[1], known[0]))
    return {name: amount for name, amount in ordered if amount > 0}
