"""What is worth an event: pods that were placed, promised a node or evicted, and gangs that wait.

Decisions are told when the server has carried them out. Those of a gang are told together, once, on its PodGroup; its
pods get theirs as far as there is room for details. That a gang waits is told when the reason changes, not with every
number in it. Used by the backend in the scheduler's thread; `events` sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, Protocol

from muster.api import KubeObject, Pod
from muster.cluster.kubernetes.events import News
from muster.snapshot.messages import Bind, Evict, JobUpdate, Nominate, QuarantineUpdate

_Made = Bind | Evict | Nominate
_MAX_NODES: Final = 6
_WORDS: Final[dict[type, tuple[str, str]]] = {
    Bind: ("Scheduled", "Binding"),
    Evict: ("Evict", "Evicting"),
    Nominate: ("Nominated", "Nominating"),
}


class Tell(Protocol):
    """Takes news up."""

    def __call__(self, news: Sequence[News], /) -> None: ...


class Newsroom:
    """Makes news of answers and of reasons."""

    def __init__(self, tell: Tell, group_of_job: Callable[[str], KubeObject | None]) -> None:
        self._tell = tell
        self._group = group_of_job

    def round(self) -> Round:
        """The decisions of one cycle of one kind, whose answers are awaited."""
        return Round(self._tell_of_job)

    def waits(self, update: JobUpdate, group: KubeObject | None, pods: Sequence[Pod]) -> None:
        """Tell that a job waits, if it does: of its PodGroup, and of the pods as far as there is room for details."""
        if update.unschedulable is None:
            return
        told = partial(News, action="Scheduling", note=update.message, type="Warning", series=update.unschedulable)
        news = [] if group is None else [told(group, "Unschedulable")]
        news += [told(pod, "FailedScheduling", is_detail=group is not None) for pod in pods]
        self._tell(news)

    def is_aside(self, update: QuarantineUpdate) -> None:
        """Tell that an object cannot be used, or can again."""
        if update.reason:
            note = f"cannot be used: {update.reason}"
            news = News(update.object, "Quarantined", "Reading", note, type="Warning", series=update.reason)
        else:
            news = News(update.object, "Usable", "Reading", "can be used again")
        self._tell([news])

    def waits_for_claims(self, made: Bind, pod: Pod, claims: Sequence[str]) -> None:
        """Tell that a pod has a node, and waits for its volumes."""
        note = f"will go to {made.node} when its volumes are ready: {', '.join(claims)}"
        self._tell([News(pod, "WaitingForVolumes", "Binding", note, is_detail=self._group(made.job) is not None)])

    def was_given_back(self, made: Bind, pod: Pod, why: str) -> None:
        """Tell that a pod could not have its node."""
        note = f"could not go to {made.node}: {why}"
        self._tell([News(pod, "FailedScheduling", "Binding", note, type="Warning", series=made.node)])

    def _tell_of_job(self, job: str, done: Sequence[tuple[_Made, Pod]]) -> None:
        made = done[0][0]
        reason, action = _WORDS[type(made)]
        group = self._group(job)
        other = self._group(made.beneficiary) if isinstance(made, Evict) and made.beneficiary else None
        news = []
        if group is not None:
            news.append(News(group, reason, action, gang_note([each for each, _ in done]), related=other))
        kind: Literal["Normal", "Warning"] = "Warning" if isinstance(made, Evict) else "Normal"
        news += [
            News(pod, reason, action, _pod_note(each), type=kind, related=other, is_detail=group is not None)
            for each, pod in done
        ]
        self._tell(news)


class Round:
    """Counts the answers for each job; tells of those that were good when the last one is in."""

    def __init__(self, tell: Callable[[str, Sequence[tuple[_Made, Pod]]], None]) -> None:
        self._tell = tell
        self._n_open: Counter[str] = Counter()
        self._done: dict[str, list[tuple[_Made, Pod]]] = {}

    def expect(self, made: _Made, pod: Pod) -> Callable[[str], None]:
        """Await one more answer; returns what to call with it: "" or what is wrong."""
        self._n_open[made.job] += 1

        def answered(error: str) -> None:
            self._n_open[made.job] -= 1
            if not error:
                self._done.setdefault(made.job, []).append((made, pod))
            if not self._n_open[made.job] and made.job in self._done:
                self._tell(made.job, self._done.pop(made.job))

        return answered


def gang_note(made: Sequence[_Made]) -> str:
    """Say what happened to some pods of a gang: how many, where, and why."""
    nodes = Counter(each.node for each in made)
    listed = [name if count == 1 else f"{name} ×{count}" for name, count in sorted(nodes.items())]
    more = f" and {len(listed) - _MAX_NODES} more" if len(listed) > _MAX_NODES else ""
    where = ", ".join(listed[:_MAX_NODES]) + more
    pods = "1 pod" if len(made) == 1 else f"{len(made)} pods"
    first = made[0]
    if isinstance(first, Bind):
        return f"placed {pods} on {where} ({first.why})"
    if isinstance(first, Nominate):
        return f"{pods} will go to {where} ({first.why})" if first.node else f"{pods}: no node is promised any more"
    return f"evicted {pods} from {where}{_for(first)}: {first.why}"


def _pod_note(made: _Made) -> str:
    if isinstance(made, Bind):
        return f"Successfully assigned {made.pod} to {made.node} ({made.why})"
    if isinstance(made, Nominate):
        return f"will go to {made.node} ({made.why})" if made.node else f"no node is promised any more: {made.why}"
    return f"evicted from {made.node}{_for(made)}: {made.why}"


def _for(made: Evict) -> str:
    return f" for {made.beneficiary}" if made.beneficiary else ""
