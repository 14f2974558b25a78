"""Durations as Go writes them: ``90s``, ``1h30m``, ``1.5h``; days and weeks too: ``2d12h``, ``1w``.

Used for KAI's minimum runtimes, waiting times in annotations, and `--until` on the command line.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

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
_MAX_CHARACTERS: Final = 60


def parse_duration(text: str) -> float:
    """Return the duration in seconds. Raises ValueError, naming what was given and an example."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    total, at = Fraction(0), 0
    while len(rest) <= _MAX_CHARACTERS and (match := _PART.match(rest, at)) is not None:
        number = match["number"]
        total += Fraction(f"0{number}" if number.startswith(".") else number.rstrip(".")) * _UNITS[match["unit"]]
        at = match.end()
    if not rest or at != len(rest):
        shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
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
