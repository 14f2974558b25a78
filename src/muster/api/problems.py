"""What a check finds, and the checks that many kinds share.

Used by `validate` and `validate_kai`. Every check yields what is surely wrong, with the path as in the user's file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from muster.api.duration import parse_seconds
from muster.api.errors import UserError
from muster.api.quantity import Quantity
from muster.api.resources import to_base


class Problem(NamedTuple):
    """A field, and what would be right."""

    field: str
    text: str
    #: The phrase by which Volcano's users, and their scripts, know this mistake; "" if they know none.
    known_as: str = ""


Problems = Iterator[Problem]


def one_of(field: str, value: str | None, allowed: Collection[str], *, known_as: str = "") -> Problems:
    """Nothing, or one of a few words."""
    if value and value not in allowed:
        yield Problem(field, f'expected {choices(allowed)}, got "{value}"', known_as)


def choices(allowed: Collection[str]) -> str:
    """Return words as a sentence lists them."""
    quoted = [f'"{word}"' for word in allowed]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def at_least(field: str, value: float | None, least: int, *, known_as: str = "") -> Problems:
    """Not set, or not too small."""
    if value is not None and value < least:
        yield Problem(field, f"expected a number of at least {least}, got {value:g}", known_as)


def amounts(field: str, quantities: Mapping[str, Quantity]) -> Problems:
    """A resource list."""
    for name, quantity in quantities.items():
        try:
            to_base(name, quantity)
        except UserError as error:
            here = f'{field}["{name}"]' if "." in name or "/" in name else f"{field}.{name}"
            yield Problem(here, error.text, "must be greater than or equal to 0" if quantity.value < 0 else "")


def seconds(field: str, given: str | float | None) -> Problems:
    """A duration or a plain number of seconds."""
    try:
        if given is not None:
            parse_seconds(given)
    except ValueError as error:
        yield Problem(field, str(error))
