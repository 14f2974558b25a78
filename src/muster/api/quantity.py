"""Kubernetes quantities, exact, and durations.

A quantity is a decimal number with an optional suffix: ``n u m k M G T P E``, ``Ki Mi Gi Ti Pi Ei`` or
an exponent (``1e3``). The value is a fraction, never a float, so nothing is lost until an amount is
asked for; then it is rounded up, as Kubernetes does, and refused when it does not fit 64 bits.
Parsing is cached by text: a cluster holds many pods and few different amounts. A duration is written as Go writes it,
``90s``, ``1h30m``, ``1.5h``; days and weeks too: ``2d12h``, ``1w``.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

INT64_MAX: Final = 2**63 - 1
EXAMPLES: Final = '"500m", "4" or "64Gi"'
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Longer numbers are never amounts of anything, and raising ten to a huge power would stall the reader.
_MAX_CHARACTERS: Final = 100
_MAX_EXPONENT: Final = 400


def _not_a_quantity(shown: str) -> ValueError:
    return ValueError(f"expected a quantity such as {EXAMPLES}, got {shown}")


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= 60 else f'"{text[:57]}..."'


@lru_cache(maxsize=65536)
def _value_of(text: str) -> Fraction:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        raise _not_a_quantity(_quoted(text))
    whole, part = match["whole"], match["part"] or ""
    if not whole and not part:
        raise _not_a_quantity(_quoted(text))
    suffix = match["suffix"] or ""
    power = _DECIMAL.get(suffix, 0) if match["exponent"] is None else int(match["exponent"])
    if abs(power) > _MAX_EXPONENT:
        raise _not_a_quantity(_quoted(text))
    numerator = int(whole + part) * 10 ** max(power, 0) * 2 ** _BINARY.get(suffix, 0)
    value = Fraction(numerator, 10 ** (len(part) + max(-power, 0)))
    return -value if match["sign"] == "-" else value


def _round_up(value: Fraction) -> int:
    # Away from zero, so that rounding never turns a real amount into nothing.
    return math.ceil(value) if value >= 0 else math.floor(value)


class Quantity:
    """An immutable amount; equal when the values are equal, however they are written."""

    __slots__ = ("_milli", "_units", "text", "value")
    text: str
    value: Fraction
    _milli: int
    _units: int

    def __init__(self, text: str) -> None:
        value = _value_of(text)
        put = object.__setattr__
        put(self, "text", text)
        put(self, "value", value)
        # Computed once: instances are shared, and the same amount is asked for by every pod.
        put(self, "_milli", _round_up(value * 1000))
        put(self, "_units", _round_up(value))

    @staticmethod
    def of(given: object) -> Quantity:
        """Return the quantity for what a document may hold: text, an integer or a number.

        Raises ValueError, naming what was given and an example of what is right.
        """
        if isinstance(given, str):
            return _shared(given)
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise _not_a_quantity(_shape(given))
        if isinstance(given, float) and not math.isfinite(given):
            raise _not_a_quantity(str(given))
        # repr of a float is the shortest decimal that means it: what the user typed.
        return _shared(repr(given))

    def milli(self) -> int:
        """Return thousandths, rounded up. Raises ValueError beyond 64 bits."""
        return self._fitting(self._milli)

    def units(self) -> int:
        """Return whole units, rounded up. Raises ValueError beyond 64 bits."""
        return self._fitting(self._units)

    def _fitting(self, amount: int) -> int:
        if -INT64_MAX <= amount <= INT64_MAX:
            return amount
        raise ValueError(f'expected an amount that fits 64 bits, such as {EXAMPLES}, got "{self.text}"')

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Quantity is immutable, cannot set {name}")

    def __reduce__(self) -> tuple[type[Quantity], tuple[str]]:
        return (Quantity, (self.text,))

    def __eq__(self, other: object) -> bool:
        return self.value == other.value if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"


@lru_cache(maxsize=65536)
def _shared(text: str) -> Quantity:
    return Quantity(text)


def _shape(given: object) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    return "a mapping" if isinstance(given, dict) else "a list" if isinstance(given, list) else "nothing"


def format_quantity(quantity: Quantity) -> str:
    """Return the canonical text: a whole number, else with m, u or n, else with an exponent."""
    value = quantity.value
    for suffix, power in (("", 0), ("m", 3), ("u", 6), ("n", 9)):
        scaled = value * 10**power
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffix}"
    # Finite decimals only (the grammar has no others), so some power of ten makes it whole.
    power = 10
    while (value * 10**power).denominator != 1:
        power += 1
    return f"{(value * 10**power).numerator}e-{power}"


_UNITS: Final = {
    "w": Fraction(7 * 24 * 3600),
    "d": Fraction(24 * 3600),
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_PART: Final = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>w|d|h|ms|m|s|us|µs|ns)")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{0,18})?")
_MAX_DURATION_CHARACTERS: Final = 60


def parse_duration(text: str) -> float:
    """Return the duration in seconds. Raises ValueError, naming what was given and an example."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    total, at = Fraction(0), 0
    while len(rest) <= _MAX_DURATION_CHARACTERS and (match := _PART.match(rest, at)) is not None:
        number = match["number"]
        total += Fraction(f"0{number}" if number.startswith(".") else number.rstrip(".")) * _UNITS[match["unit"]]
        at = match.end()
    if not rest or at != len(rest):
        shown = text if len(text) <= _MAX_DURATION_CHARACTERS else f"{text[:_MAX_DURATION_CHARACTERS]}..."
        raise ValueError(f'expected a duration such as "90s" or "1h30m", got "{shown}"')
    return float(sign * total)


def parse_seconds(given: str | float) -> float:
    """Return a time in seconds: a duration, or a plain number. Raises ValueError for anything else."""
    if isinstance(given, str) and _NUMBER.fullmatch(given) is None:
        return parse_duration(given)
    seconds = float(given)
    if not math.isfinite(seconds):
        raise ValueError(f'expected a duration such as "90s" or a number of seconds, got {given}')
    return seconds


def seconds_of(option: str, text: str) -> float:
    """The value of an option that takes a time from 0 on: a duration, or a plain number. Raises UserError."""
    from muster.api.errors import UserError  # noqa: PLC0415  # errors know amounts

    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if seconds < 0:
        raise UserError(f'{option}: expected a time from 0 on, such as "10m", got "{text}"')
    return seconds
