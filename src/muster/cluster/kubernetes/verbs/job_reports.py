"""How jobs are, written to their PodGroups and, for jobs that wait, to their pods; and gates taken off pods.

Reports go in a queue of their own and never delay a binding; one that was not sent yet is replaced by its successor.
What stands there already is not written again: a pod's condition only when the reason itself changed, since the numbers
in its message change with every cycle and a gang has many pods.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from muster.api import Pod, waits_for
from muster.api.names import START_STAMP
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumptions, told_to_wait, with_annotations, with_status
from muster.cluster.kubernetes.sending.in_flight import GONE, InFlight, log_refusal, write, write_status
from muster.cluster.kubernetes.sending.queues import Request
from muster.cluster.written_objects import AnyGroup, updated_group
from muster.snapshot.messages import Failure, JobUpdate, Ungate

log = logging.getLogger("muster.kubernetes")

#: Seconds until a gate that was asked to go and is still there is asked for again.
AGAIN_SECONDS: Final = 15.0
#: How long a reason to wait must hold before it is told, in seconds.
HOLD_SECONDS: Final = 1.0
#: The longest that it is held back because of pods that keep coming, in such times: thousands take a while to make.
_LONGEST: Final = 60


#: For how long the stamp of a start gives way to bindings: nobody reads it but a scheduler that starts anew.
_STAMP_SECONDS: Final = 60.0
#: The phase of a gang that may have its pods.
_LET_IN: Final = "Inqueue"


class _GoneError(Exception):
    """There is nothing to write on."""


class JobReports:
    """Writes statuses and conditions of jobs."""

    def __init__(self, api: ApiThread, assumptions: Assumptions, in_flight: InFlight) -> None:
        self._api = api
        self._assumptions = assumptions
        self._in_flight = in_flight
        #: Until when the gate of a pod is not asked for again, by uid.
        self._ungated: dict[str, float] = {}

    def update_jobs(self, updates: Sequence[JobUpdate], now: float) -> list[Failure]:
        failures: list[Failure] = []
        requests: list[Request] = []
        for update in updates:
            try:
                requests += self._requests(update, now)
            except _GoneError as gone:
                failures.append(Failure(update, str(gone)))
            except Exception as fault:  # one report that fails must not cost the others
                log.exception("event=error job=%s what=report", update.job)
                failures.append(Failure(update, f"{type(fault).__name__}: {fault}"))
        self._api.reports.submit(requests)
        return failures

    def _requests(self, update: JobUpdate, now: float) -> Iterator[Request]:
        """What is to be sent about one job. Raises _GoneError."""
        if not update.has_group:
            yield from self._conditions(update, now)
            return
        group = self._assumptions.group(update.job)
        resource = None if group is None else self._api.resource(type(group))
        if group is None or resource is None:
            raise _GoneError("the PodGroup is gone")
        changed = updated_group(group, update, calls.stamp(now))
        seen = self._assumptions.find(type(group), update.job)
        send = partial(write_status, self._api, group, calls.write_group(resource, changed, [seen, group]))
        # Who makes pods waits to read that the gang was let in; nobody acts upon the rest.
        is_let_in = changed.status.phase == _LET_IN != group.status.phase
        # Counts follow each other; a reason to wait has been held back for a moment already.
        is_passing = update.unschedulable is None
        yield self._in_flight.assume_report(with_status(changed), send, is_patient=not is_let_in, is_passing=is_passing)
        if update.annotations:
            call = calls.annotate(resource.path_of(group.key), group.metadata.uid, update.annotations)
            send = partial(write_status, self._api, group, call)
            marked = with_annotations(group, update.annotations)
            patience_s = _STAMP_SECONDS if update.annotations.keys() == {START_STAMP} else 0.0
            yield self._in_flight.assume_report(marked, send, is_patient=True, patience_s=patience_s)
        yield from self._conditions(update, now)

    def _conditions(self, update: JobUpdate, now: float) -> Iterator[Request]:
        """Say on the pods of a job that waits what it waits for."""
        if update.unschedulable is None:
            return
        for pod in self.to_tell(update):
            send = partial(write, self._api.client, calls.unschedulable(pod, update.message, now))
            if update.has_group:
                yield self._in_flight.request((Pod, pod.key, "condition"), send, lambda _: None)
            else:
                # Nothing else remembers that it was told: no PodGroup has it in its status.
                said = told_to_wait(pod, update.unschedulable, update.message, calls.stamp(now))
                yield self._in_flight.assume_report(said, send)

    def to_tell(self, update: JobUpdate) -> list[Pod]:
        """The pods of a job that wait and do not say so, or say something else.

        Of a pod with gates the server says itself what it waits for, and autoscalers go by it.
        """
        if update.unschedulable is None:
            return []
        pods = self._assumptions.pods(update.job)
        waiting = (pod for pod in pods if not pod.spec.node_name and not pod.spec.scheduling_gates)
        return [pod for pod in waiting if not waits_for(pod, update.unschedulable)]

    def ungate(self, decisions: Sequence[Ungate]) -> list[Failure]:
        """Take gates off; the watch shows it, and until then, or for a while after a refusal, it is not asked again."""
        moment = time.monotonic()
        self._ungated = {uid: at for uid, at in self._ungated.items() if at > moment}
        failures: list[Failure] = []
        requests: list[Request] = []
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            if pod is None:
                failures.append(Failure(made, GONE))
            elif pod.metadata.uid not in self._ungated:
                self._ungated[pod.metadata.uid] = moment + AGAIN_SECONDS
                send = partial(write, self._api.client, calls.ungate(pod))
                requests.append(
                    self._in_flight.request((Pod, pod.key, "gate"), send, partial(log_refusal, "gate", pod))
                )
        self._api.reports.submit(requests)
        return failures


class _Wait(NamedTuple):
    """Since when a job waits, and since when it has so many pods to wait for."""

    begun: float
    grown: float
    n_pods: int


class ReportDebounce:
    """Since when jobs wait that nobody has been told of: what would be written about them is held back for a moment.

    Pods of a gang arrive one by one. A gang that is complete a moment later needs no word on each of its pods that it
    is not, and one that stays incomplete needs it once, not with every pod that joins: the moment begins anew while
    pods keep coming, though not for ever. What is held back comes again with the next cycle, because updates are made
    as long as they differ from what stands there.
    """

    def __init__(self, hold_s: float = HOLD_SECONDS) -> None:
        self._hold = hold_s
        self._waits: dict[str, _Wait] = {}

    def due(
        self, updates: Sequence[JobUpdate], group_of: Callable[[str], AnyGroup | None], moment: float
    ) -> list[JobUpdate]:
        """Return what is to be written now; a new phase is never held back."""
        waits = {update.job: self._wait(update, moment) for update in updates if update.unschedulable is not None}
        self._waits = {job: wait for job, wait in waits.items() if self._is_new(wait, moment)}
        due = (self._shortened(update, group_of) if update.job in self._waits else update for update in updates)
        return [update for update in due if update is not None]

    def _wait(self, update: JobUpdate, moment: float) -> _Wait:
        known = self._waits.get(update.job)
        if known is None:
            return _Wait(moment, moment, update.pending)
        return known if update.pending <= known.n_pods else _Wait(known.begun, moment, update.pending)

    def _is_new(self, wait: _Wait, moment: float) -> bool:
        return moment - wait.grown < self._hold and moment - wait.begun < self._hold * _LONGEST

    def _shortened(self, update: JobUpdate, group_of: Callable[[str], AnyGroup | None]) -> JobUpdate | None:
        """What may be told of a job that has only just begun to wait."""
        group = group_of(update.job)
        if group is None or group.status.phase == update.phase:
            return None
        told_before = any(known.type == "Unschedulable" for known in group.status.conditions)
        return update if told_before else replace(update, unschedulable=None, message="")
