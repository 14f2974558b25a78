"""The plain twin of `fairshare.division`: one pot, fractions instead of columns, no weights of history."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Claim:
    """One queue's wish; `name` decides among equals."""

    name: int
    quota: int
    demand: int
    weight: int
    priority: int = 0


def divide_one(total: int, claims: list[Claim], unit: int = 1) -> dict[int, int]:
    """What every claim gets of the pot, by name."""
    shares = {claim.name: min(claim.quota, claim.demand) for claim in claims}
    left = max(0, total - sum(shares.values()))
    missed: dict[int, Fraction] = {}
    levels = sorted({claim.priority for claim in claims}, reverse=True)
    for level in levels:
        peers = [claim for claim in claims if claim.priority == level]
        left = _by_weight(left, peers, shares, missed, unit)
    for level in levels:
        peers = [claim for claim in claims if claim.priority == level and claim.name in missed]
        for claim in sorted(peers, key=lambda claim: (-missed[claim.name], claim.name)):
            given = min(unit, left, claim.demand - shares[claim.name])
            shares[claim.name] += given
            left -= given
    return shares


def _by_weight(left: int, peers: list[Claim], shares: dict[int, int], missed: dict[int, Fraction], unit: int) -> int:
    while left:
        hungry = [claim for claim in peers if claim.demand > shares[claim.name] and claim.weight]
        total = sum(claim.weight for claim in hungry)
        parts = {claim.name: Fraction(left * claim.weight, total) for claim in hungry}
        spare = False
        for claim in hungry:
            need, part = claim.demand - shares[claim.name], parts[claim.name]
            given = need if need <= part else int(part // unit) * unit
            if need <= part:
                missed.pop(claim.name, None)
                spare = spare or need < part
            elif part > given:
                missed[claim.name] = part - given
            shares[claim.name] += given
            left -= given
        if not spare:
            break
    return left
