"""Task order: pods of a job in the order that a label on them gives, larger numbers first.

Pods without the label come after all that have it, pods with a label that is no number between the two. Among
equals the older pod goes first, then the smaller name, as text: `x-10` stands before `x-2`, as in KAI. What goes
first is placed first and evicted last.
"""

from __future__ import annotations

from typing import Annotated, Final, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.api import Pod
from muster.api.names import KAI_TASK_PRIORITY
from muster.framework.plugin import Arguments, Plugin
from muster.snapshot import Rows

_LABELLED: Final = 0
_UNREADABLE: Final = 1
_UNLABELLED: Final = 2

Rank = tuple[int, int]


class TaskOrderArguments(Arguments, frozen=True, kw_only=True):
    """Which label counts."""

    label: Annotated[str, Meta(min_length=1, description="Key of the label; its value is a whole number.")] = (
        msgspec.field(name="taskOrderLabelKey", default=KAI_TASK_PRIORITY)
    )


class TaskOrder(Plugin):
    """Order the pods of a job by a label."""

    name = "taskorder"
    summary = "Pods of a job in the order of a label on them, larger first, then by age and name."
    Args = TaskOrderArguments

    def task_order(self, tasks: Rows) -> NDArray[np.int64]:
        label = cast("TaskOrderArguments", self.arguments).label
        pods = self.session.snapshot.tasks.pods
        keys = [_key(pods[task], label) for task in tasks.tolist()]
        places = np.empty(len(keys), np.int64)
        places[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return places


def label_rank(value: str | None) -> Rank:
    """Order of a pod by the value of its label, None if it has none; smaller goes first."""
    if value is None:
        return _UNLABELLED, 0
    return (_LABELLED, -int(value)) if value.isdecimal() else (_UNREADABLE, 0)


def _key(pod: Pod, label: str) -> tuple[Rank, float, str]:
    meta = pod.metadata
    created = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
    return label_rank(meta.labels.get(label)), created, meta.name
