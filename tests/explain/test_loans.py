import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from muster.explain.queue_overview import Account, find_loans


def _loans(budget: int, *siblings: tuple[str, int, int]) -> list[tuple[str, str, int]]:
    found = find_loans("gpu", budget, [Account(*known) for known in siblings])
    return [(loan.borrower, loan.lender, loan.amount) for loan in found]


def test_a_queue_within_its_quota_borrows_nothing() -> None:
    assert _loans(16, ("a", 8, 8), ("b", 8, 0)) == []


def test_what_is_above_the_quota_comes_from_the_sibling_that_leaves_its_own_idle() -> None:
    assert _loans(16, ("a", 8, 12), ("b", 8, 2)) == [("a", "b", 4)]


def test_what_nobody_was_promised_is_used_first() -> None:
    assert _loans(16, ("a", 8, 12), ("b", 4, 0)) == []
    assert _loans(16, ("a", 8, 14), ("b", 4, 0)) == [("a", "b", 2)]


def test_the_largest_idle_quota_lends_first_and_ties_go_by_name() -> None:
    assert _loans(12, ("a", 2, 7), ("b", 4, 1), ("c", 6, 2)) == [("a", "c", 4), ("a", "b", 1)]
    assert _loans(12, ("a", 2, 5), ("c", 5, 2), ("b", 5, 2)) == [("a", "b", 3)]


def test_without_quotas_nobody_lends() -> None:
    assert _loans(8, ("a", 0, 6), ("b", 0, 2)) == []


_ACCOUNTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=6)


def _accounts(amounts: Sequence[tuple[int, int]]) -> list[Account]:
    return [Account(f"q{place}", quota, held) for place, (quota, held) in enumerate(amounts)]


@given(_ACCOUNTS, st.integers(0, 10))
def test_loans_cover_exactly_what_nobody_else_has(amounts: list[tuple[int, int]], spare: int) -> None:
    accounts = _accounts(amounts)
    budget = sum(known.held for known in accounts) + spare
    loans = find_loans("gpu", budget, accounts)
    over = sum(max(0, known.held - known.quota) for known in accounts)
    unpromised = max(0, budget - sum(known.quota for known in accounts))
    assert sum(loan.amount for loan in loans) == max(0, over - unpromised)
    for known in accounts:
        borrowed = sum(loan.amount for loan in loans if loan.borrower == known.name)
        lent = sum(loan.amount for loan in loans if loan.lender == known.name)
        assert borrowed <= max(0, known.held - known.quota)
        assert lent <= max(0, known.quota - known.held)


@given(_ACCOUNTS, st.randoms(use_true_random=False))
def test_the_order_of_the_siblings_does_not_matter(amounts: list[tuple[int, int]], shuffled: random.Random) -> None:
    accounts = _accounts(amounts)
    budget = sum(known.held for known in accounts)
    mixed = list(accounts)
    shuffled.shuffle(mixed)
    assert find_loans("gpu", budget, mixed) == find_loans("gpu", budget, accounts)
