from __future__ import annotations

from muster.plugins.queues.fairshare.rules import Charges, ReclaimRules
from muster.snapshot import NO_ROW, UNLIMITED
from tests.plugins.fair_queues import by_hand, held

#: Queue 0 takes from queue 1; both are at the top.
PAIR = (NO_ROW, NO_ROW)
#: Queues 0 and 1 under 4, queues 2 and 3 under 5.
FAMILIES = (4, 4, 5, 5, NO_ROW, NO_ROW)


def charges(rules: ReclaimRules, wanted: int, *amounts: int, taker: int = 0) -> Charges:
    return Charges(rules, taker, [wanted], held(*amounts))


# -- who may begin ---------------------------------------------------------------------------------------------


def test_a_queue_may_take_up_to_its_fair_share() -> None:
    rules = ReclaimRules(by_hand(PAIR, fair_share=(5, 5)))
    assert rules.within_share(0, [3], [2])
    assert not rules.within_share(0, [3], [3])


def test_firm_jobs_may_take_up_to_the_quota() -> None:
    rules = ReclaimRules(by_hand(PAIR, fair_share=(9, 9), quota=(4, 4)))
    assert rules.within_firm_limit(0, [3], [1])
    assert not rules.within_firm_limit(0, [3], [2])


# -- who must give ---------------------------------------------------------------------------------------------


def test_a_queue_gives_while_it_has_more_than_it_may_keep() -> None:
    account = charges(ReclaimRules(by_hand(PAIR, fair_share=(5, 5))), 2, 0, 7)
    for expected in (True, True, False):
        assert account.may_give(1) is expected
        account.take(1, [1])


def test_the_last_unit_may_take_the_giver_below_its_share() -> None:
    account = charges(ReclaimRules(by_hand(PAIR, fair_share=(5, 5))), 4, 0, 6)
    assert account.may_give(1)
    account.take(1, [4])
    assert not account.may_give(1)


def test_a_queue_within_its_quota_gets_what_others_have_beyond_theirs() -> None:
    shares = by_hand(PAIR, fair_share=(5, 8), quota=(5, 5))
    assert charges(ReclaimRules(shares), 2, 3, 6).may_give(1)
    assert not charges(ReclaimRules(shares), 3, 3, 6).may_give(1), "the taker would be beyond its own quota"
    assert not charges(ReclaimRules(shares), 2, 3, 5).may_give(1), "the giver has no more than its quota"


def test_a_quota_without_end_is_never_taken() -> None:
    shares = by_hand(PAIR, fair_share=(5, 5), quota=(9, int(UNLIMITED)))
    assert not charges(ReclaimRules(shares), 1, 0, 90).may_give(1)


def test_queues_are_compared_where_their_lines_part() -> None:
    rules = ReclaimRules(by_hand(FAMILIES, fair_share=(5, 0, 0, 0, 5, 5)))
    assert rules.parting(0, 1) == (0, 1)
    assert rules.parting(0, 2) == (4, 5)
    # Queue 2 has more than its share, but its parent does not: it is the parent's other children who must give.
    assert not charges(rules, 1, 0, 0, 3, 0, 0, 3).may_give(2)
    assert charges(rules, 1, 0, 3, 0, 0, 3, 0).may_give(1)


def test_what_one_child_gives_counts_for_its_siblings() -> None:
    account = charges(ReclaimRules(by_hand(FAMILIES, fair_share=(5, 0, 2, 2, 5, 5))), 2, 0, 0, 3, 3, 0, 6)
    assert account.may_give(2)
    account.take(2, [1])
    assert not account.may_give(3)


# -- bounds ----------------------------------------------------------------------------------------------------


def test_the_taker_must_not_end_further_beyond_its_share_than_the_giver() -> None:
    rules = ReclaimRules(by_hand(PAIR, fair_share=(4, 4)))
    for giver, expected in ((7, True), (6, False)):
        account = charges(rules, 1, 4, giver)
        account.take(1, [1])
        assert account.stays_in_bounds() is expected


def test_within_its_share_the_taker_is_not_compared() -> None:
    account = charges(ReclaimRules(by_hand(PAIR, fair_share=(4, 8))), 1, 3, 1)
    account.take(1, [1])
    assert account.stays_in_bounds()


def test_a_multiplier_keeps_the_taker_further_away() -> None:
    shares = by_hand(PAIR, fair_share=(10, 10))
    for multiplier, expected in ((1.0, True), (1.1, True), (1.2, False)):
        account = charges(ReclaimRules(shares, multiplier), 1, 10, 14)
        account.take(1, [1])
        assert account.stays_in_bounds() is expected


def test_bounds_hold_for_every_queue_above_the_taker() -> None:
    rules = ReclaimRules(by_hand(FAMILIES, fair_share=(9, 9, 9, 9, 4, 4)))
    account = charges(rules, 1, 0, 5, 6, 0, 5, 6)
    account.take(2, [1])
    assert not account.stays_in_bounds(), "its parent ends at 6 of 4, the sibling of the parent at 5 of 4"


def test_what_is_given_back_was_never_taken() -> None:
    account = charges(ReclaimRules(by_hand(PAIR, fair_share=(5, 5))), 2, 0, 6)
    account.take(1, [6])
    account.give_back(1, [6])
    assert account.may_give(1)
