"""What a reader may see: namespaces that are not theirs are left out of every answer, by one rule at one place.

Rows about a hidden job or pod are dropped from lists; where its name stands in a sentence or a column, "(hidden)"
stands instead. Nodes, queues and domains belong to no namespace and are shown; their totals count everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from muster.framework import Session

HIDDEN: Final = "(hidden)"
#: Keys of a row that say which job or pod it is about.
_ABOUT: Final = ("job", "pod")
_NAME: Final = r"[a-z0-9](?:[-a-z0-9./]*[a-z0-9])?"


@dataclass(frozen=True, slots=True)
class Reader:
    """Who asks. `namespaces`: those that may be seen; None: all."""

    name: str = ""
    namespaces: frozenset[str] | None = None

    def sees(self, job: str) -> bool:
        """Whether a job or pod may be seen."""
        return self.namespaces is None or job.partition("/")[0] in self.namespaces


EVERYTHING: Final = Reader()


def namespaces_of(session: Session) -> set[str]:
    """All namespaces that have jobs or pods."""
    jobs = {record.namespace for record in session.snapshot.jobs.records if record.id}
    return jobs | {name.partition("/")[0] for name in session.snapshot.tasks.ids if name}


def shown_to(reader: Reader, document: Any, namespaces: Iterable[str]) -> Any:  # noqa: ANN401  # JSON
    """A document without what the reader may not see; `namespaces`: all that there are."""
    if reader.namespaces is None:
        return document
    hidden = sorted(set(namespaces) - reader.namespaces)
    if not hidden:
        return document
    pattern = re.compile(rf"(?<![-a-z0-9./])(?:{'|'.join(map(re.escape, hidden))})/{_NAME}")
    return _clean(document, pattern)


def _clean(value: Any, pattern: re.Pattern[str]) -> Any:  # noqa: ANN401  # JSON
    if isinstance(value, str):
        return pattern.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {pattern.sub(HIDDEN, str(key)): _clean(inner, pattern) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner, pattern) for inner in value if not _is_about(inner, pattern)]
    return value


def _is_about(row: Any, pattern: re.Pattern[str]) -> bool:  # noqa: ANN401  # JSON
    """Whether a row of a list is about something hidden."""
    if not isinstance(row, dict):
        return False
    return any(isinstance(row.get(key), str) and pattern.fullmatch(row[key]) is not None for key in _ABOUT)
