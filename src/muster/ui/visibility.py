"""What a reader may see: namespaces that are not theirs are left out of every answer, by one rule at one place.

Rows about a hidden job, pod or other object are dropped from lists; where its name stands in a sentence or a column,
"(hidden)" stands instead. Nodes, queues and domains belong to no namespace and are shown; their totals count all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

HIDDEN: Final = "(hidden)"
#: Keys of a row that say which job or pod it is about; kinds of what is told by kind and name, that are jobs or pods.
_ABOUT: Final = ("job", "pod")
_KINDS: Final = ("job", "pod")
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


def shown_to(reader: Reader, document: Any, namespaces: Iterable[str]) -> Any:  # noqa: ANN401  # JSON
    """A document without what the reader may not see; `namespaces`: all that there are."""
    if reader.namespaces is None:
        return document
    hidden = sorted(set(namespaces) - reader.namespaces)
    if not hidden:
        return document
    pattern = re.compile(rf"(?<![-a-z0-9./])(?:{'|'.join(map(re.escape, hidden))})/{_NAME}")
    return _Cleaner(frozenset(hidden), pattern).clean(document)


@dataclass(frozen=True, slots=True)
class _Cleaner:
    """Takes what is hidden out of a document."""

    hidden: frozenset[str]
    #: Names of jobs and pods, with their namespace.
    names: re.Pattern[str]

    def clean(self, value: Any) -> Any:  # noqa: ANN401  # JSON
        if isinstance(value, str):
            return self.names.sub(HIDDEN, value)
        if isinstance(value, dict):
            return {self.names.sub(HIDDEN, str(key)): self.clean(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(inner) for inner in value if not self._is_about(inner)]
        return value

    def _is_about(self, row: Any) -> bool:  # noqa: ANN401  # JSON
        """Whether a row of a list is about something hidden."""
        if not isinstance(row, dict):
            return False
        told = [row.get(key) for key in _ABOUT]
        if row.get("kind") in _KINDS:
            told.append(row.get("name"))
        if "kind" in row and row.get("namespace") in self.hidden:
            return True
        return any(isinstance(name, str) and self.names.fullmatch(name) is not None for name in told)
