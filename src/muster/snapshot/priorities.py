"""What the priority classes of a cluster make of a job's priority; part of the mirror."""

from __future__ import annotations

from muster.api import KaiPodGroup, PriorityClass
from muster.snapshot.kai_records import DEFAULT_PRIORITY, PRIORITY_CLASSES
from muster.snapshot.records import JobRecord


class Priorities:
    """The priority classes by name."""

    def __init__(self) -> None:
        self._classes: dict[str, PriorityClass] = {}

    def set(self, item: PriorityClass) -> None:
        """Take in a new or changed class."""
        self._classes[item.name] = item

    def drop(self, name: str) -> None:
        """Forget a class."""
        self._classes.pop(name, None)

    def of_job(self, record: JobRecord) -> int:
        """Return the job's own priority, that of its class, or the default.

        Jobs of KAI have KAI's classes even where the cluster does not.
        """
        if record.priority is not None:
            return record.priority
        known = self._classes.get(record.priority_class)
        if known is not None:
            return known.value
        is_kai = isinstance(record.source, KaiPodGroup)
        if is_kai and record.priority_class in PRIORITY_CLASSES:
            return PRIORITY_CLASSES[record.priority_class]
        defaults = [other.value for other in self._classes.values() if other.global_default]
        return max(defaults, default=DEFAULT_PRIORITY if is_kai else 0)
