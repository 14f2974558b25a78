"""A Kubernetes cluster that is only looked at: objects come as they change, and what is decided goes nowhere.

For the dashboard: it speaks the scheduler's protocol, so that the same cycle says what the next one would do and why
jobs wait, while the scheduler of the cluster decides. Besides, it takes down what really happened to pods (bound,
promised a node, asked to leave), as their objects show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api import Pod, group_of
from muster.cluster.kubernetes.client.shards import ShardView, Target
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.calls import DISRUPTION_TARGET
from muster.cluster.kubernetes.sending.queues import Inbox
from muster.snapshot import messages
from muster.snapshot.records import job_from_pod

START_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Observed:
    """Something that happened to a pod."""

    kind: str
    pod: str
    node: str
    job: str
    why: str


@dataclass(frozen=True, slots=True)
class _Standing:
    node: str = ""
    nominated: str = ""
    is_leaving: bool = False


class ClusterReader:
    """The cluster of a target; use it from one thread, but for `stop`, `wake` and `ask`."""

    def __init__(self, target: Target, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._inbox = Inbox()
        self._api = ApiThread(self._inbox, target, None)
        self._view = ShardView(target.shard) if target.shard.is_by_labels else None
        self._pods: dict[str, _Standing] = {}
        self._observed: list[Observed] = []
        self._has_begun = False

    def start(self, timeout_s: float = START_SECONDS) -> None:
        """Connect and read everything. Raises MusterError."""
        self._api.start(timeout_s)

    def stop(self) -> None:
        self._api.stop()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to poll; False when nothing came in time."""
        return self._inbox.wait(timeout_s)

    def wake(self) -> None:
        """End a wait."""
        self._inbox.put_answer(lambda: None)

    def trouble(self, limit_s: float) -> str:
        """What has kept us from knowing the present for longer than a limit, "" if nothing has."""
        return self._api.trouble(limit_s)

    def ask(self, path: str, body: bytes) -> bytes:
        """Post a question that changes nothing. Raises BackendError."""
        return self._api.ask(path, body)

    def read(self, path: str) -> bytes:
        """What is at a path now. Raises BackendError."""
        return self._api.ask(path)

    def observed(self) -> list[Observed]:
        """What happened to pods since the last call; nothing of what had happened before the first poll."""
        found, self._observed = self._observed, []
        return found

    # -- the protocol --------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._clock()

    def poll(self) -> list[messages.Event]:
        self._api.check()
        events, answers = self._inbox.take()
        for settle in answers:
            settle()
        if self._view is not None:
            events = [seen for event in events for seen in self._view.observe(event)]
        for event in events:
            if isinstance(event.object, Pod) and event.kind != "UNREADABLE":
                self._note(event.object, is_gone=event.kind == "DELETED")
        self._has_begun = True
        return events

    def _note(self, pod: Pod, *, is_gone: bool) -> None:
        before = self._pods.pop(pod.key, _Standing())
        if is_gone:
            return
        is_leaving = pod.metadata.deletion_timestamp is not None
        now = _Standing(pod.spec.node_name, pod.status.nominated_node_name, is_leaving)
        self._pods[pod.key] = now
        if not self._has_begun:
            return
        why = next((known.message for known in pod.status.conditions if known.type == DISRUPTION_TARGET), None)
        if now.node and not before.node:
            self._tell("bind", pod, now.node, "")
        elif now.nominated and now.nominated != before.nominated and not now.node:
            self._tell("nominate", pod, now.nominated, "")
        if now.is_leaving and not before.is_leaving and now.node and why is not None:
            self._tell("evict", pod, now.node, why)

    def _tell(self, kind: str, pod: Pod, node: str, why: str) -> None:
        group = group_of(pod)
        job = job_from_pod(pod).id if group is None else f"{pod.namespace}/{group}"
        self._observed.append(Observed(kind, pod.key, node, job, why))

    def bind(self, decisions: Sequence[messages.Bind]) -> list[messages.Failure]:
        return []

    def evict(self, decisions: Sequence[messages.Evict]) -> list[messages.Failure]:
        return []

    def nominate(self, decisions: Sequence[messages.Nominate]) -> list[messages.Failure]:
        return []

    def ungate(self, decisions: Sequence[messages.Ungate]) -> list[messages.Failure]:
        return []

    def update_jobs(self, updates: Sequence[messages.JobUpdate]) -> list[messages.Failure]:
        return []

    def update_quarantine(self, updates: Sequence[messages.QuarantineUpdate]) -> None:
        pass

    def update_queues(self, updates: Sequence[messages.QueueUpdate]) -> list[messages.Failure]:
        return []

    def update_hypernodes(self, updates: Sequence[messages.HyperNodeUpdate]) -> list[messages.Failure]:
        return []
