"""The list of disagreements that were decided on, and the checks that keep it honest.

`disagreements.yaml` maps a case (its id, or a pattern with * for several) to the reason why Muster decides
otherwise. Ids of random cases repeat between systems: `kai:random/...` names one system's. An entry whose cases
all agree is an error, and so is one that names nothing although cases of its test were run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from conformance.cases import Case
from muster.api import UserError

LIST = Path(__file__).with_name("disagreements.yaml")


@dataclass(slots=True)
class Entry:
    """One line of the list, and what the run said about it."""

    pattern: str
    reason: str
    agreeing: list[str] = field(default_factory=list)
    disagreeing: int = 0
    is_known: bool = False

    def names(self, case: Case) -> bool:
        """Whether the entry is about the case."""
        return fnmatchcase(case.id, self.pattern) or fnmatchcase(f"{case.system}:{case.id}", self.pattern)


class Disagreements:
    """The list during one run."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self._tests: set[str] = set()

    @classmethod
    def load(cls, path: Path = LIST) -> Disagreements:
        """Read the list. Raises UserError for anything but a mapping of text to text."""
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise UserError(f"{path}: cannot read the list of disagreements: {error}") from error
        if not isinstance(found, dict):
            raise UserError(f"{path}: expected a mapping from case id to reason")
        entries = []
        for pattern, reason in found.items():
            if not isinstance(pattern, str) or not isinstance(reason, str) or not reason.strip():
                raise UserError(f"{path}: {pattern}: expected a case id and the reason as text")
            entries.append(Entry(pattern, " ".join(reason.split())))
        return cls(entries)

    def note(self, case: Case) -> None:
        """Take note that a case exists, whether it is run or not."""
        # Random seeds come and go with the sample: a missing one says nothing about the list.
        if not case.is_random:
            self._tests.add(_test_of(case.id))
        for entry in self._entries:
            entry.is_known = entry.is_known or entry.names(case)

    def judge(self, case: Case, *, agrees: bool) -> str:
        """Take note of how a case ended; return the reason if its disagreement was decided on."""
        reason = ""
        for entry in self._entries:
            if not entry.names(case):
                continue
            if agrees:
                entry.agreeing.append(case.id)
            else:
                entry.disagreeing += 1
                reason = reason or entry.reason
        return reason

    def problems(self, *, complete: bool = True) -> list[str]:
        """Entries that no longer say anything true, as sentences.

        `complete`: whole files were run, so an entry without a case is one too many.
        """
        found = []
        for entry in self._entries:
            if entry.disagreeing:
                continue
            if entry.agreeing:
                found.append(f"{entry.pattern}: {entry.agreeing[0]} agrees; remove the entry")
            elif complete and not entry.is_known and _test_of(entry.pattern) in self._tests:
                found.append(f"{entry.pattern}: no case has this id; correct or remove the entry")
        return found


def _test_of(case_id: str) -> str:
    """The test that a case is from: its id up to the last slash."""
    return case_id.rpartition(":")[2].rpartition("/")[0]
