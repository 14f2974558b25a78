"""Windows of the day: from which hour to which something is open, in a named time zone.

Pure arithmetic, for the plugin `tdm`. A window holds its first minute and not its last; one that ends before it begins
goes on past midnight, and one that ends where it begins is always open. Hours are those of the clock on the wall: on
the days when clocks change, a window may be an hour longer or shorter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_GRAMMAR: Final = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*")


@dataclass(frozen=True, slots=True)
class Window:
    """The hours of a day at which something is open."""

    start: time
    end: time

    def is_open(self, moment: datetime) -> bool:
        """Whether it is open at a moment of its time zone."""
        now = moment.time().replace(second=0, microsecond=0)
        if self.start < self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    def next_change(self, moment: datetime) -> datetime | None:
        """When it opens or closes next; None: it never does."""
        if self.start == self.end:
            return None
        days = (moment.date(), moment.date() + timedelta(days=1))
        edges = [datetime.combine(day, edge, moment.tzinfo) for day in days for edge in (self.start, self.end)]
        # Compared as moments: on a day when clocks change, the hours on the wall are not in order.
        return min((edge for edge in edges if edge.timestamp() > moment.timestamp()), key=datetime.timestamp)


def parse_window(text: object) -> Window:
    """Read a window such as "10:00-21:00". Raises ValueError, with what was given and an example."""
    match = _GRAMMAR.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        hours = [int(number) for number in match.groups()]
        if hours[0] < 24 and hours[2] < 24 and hours[1] < 60 and hours[3] < 60:
            return Window(time(hours[0], hours[1]), time(hours[2], hours[3]))
    raise ValueError(f'expected the hours of a day such as "10:00-21:00" (0:00 to 23:59), got {text!r}')


def parse_time_zone(name: str) -> tzinfo:
    """Find a time zone by its name. Raises ValueError, with an example."""
    if name == "UTC":
        return UTC  # known without a database of time zones
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f'expected the name of a time zone such as "UTC" or "Europe/Berlin", got {name!r}') from None


def local(now: float, zone: tzinfo) -> datetime:
    """A moment in seconds since the epoch, on the clock of a time zone."""
    return datetime.fromtimestamp(now, zone)
