"""What can only be seen in the scheduler's picture: where gangs lie, what free GPUs are good for, who holds what.

Samples are taken at evenly spread moments of the trace, at the first cycle after each.
"""

from __future__ import annotations

import numpy as np

from muster.api.resources import GPU
from muster.framework import Session, points
from muster.lab.record import Recorder, Sample
from muster.lab.trace import Trace
from muster.scheduler import CycleResult
from muster.snapshot import UNLIMITED, OperationKind, Snapshot

_MILLI = 1000.0


class Sampler:
    """Looks at cycles of one replay."""

    def __init__(self, trace: Trace, recorder: Recorder, n_samples: int) -> None:
        self._recorder = recorder
        self._rows = {f"{job.namespace}/{job.name}": number for number, job in enumerate(trace.jobs)}
        last = max((job.submit_s for job in trace.jobs), default=0.0)
        self._step = max(1.0, last / max(1, n_samples))
        self._next = 0.0

    def look(self, session: Session, result: CycleResult, now_s: float) -> None:
        """Take down what this cycle shows."""
        if result.decisions:
            self._note_domains(session)
        if now_s >= self._next:
            self._next = (now_s // self._step + 1) * self._step
            self._recorder.samples.append(_sample(session, now_s))

    def _note_domains(self, session: Session) -> None:
        """The smallest domain around each gang that starts with more than one pod."""
        snapshot = session.snapshot
        if len(snapshot.topology) <= 1:
            return
        started = {
            int(snapshot.tasks.job[task])
            for committed in session.committed
            for operation in committed.operations
            if operation.kind is OperationKind.ALLOCATE
            for task in operation.tasks[:1].tolist()
        }
        for job in started:
            number = self._rows.get(snapshot.jobs.records[job].id)
            tasks = snapshot.tasks_of(job)
            nodes = snapshot.tasks.node[tasks]
            if number is not None and number not in self._recorder.tier and len(tasks) > 1 and (nodes >= 0).all():
                self._recorder.tier[number] = int(snapshot.topology.tier[snapshot.topology.domain_of_nodes(nodes)])


def _sample(session: Session, now_s: float) -> Sample:
    snapshot = session.snapshot
    gpu = snapshot.axis.index.get(GPU)
    waiting = snapshot.pending_tasks()
    sample = Sample(now_s, 0.0, 0.0, len(np.unique(snapshot.tasks.job[waiting])), 0.0)
    if gpu is None:
        return sample
    nodes = snapshot.nodes
    idle = np.maximum(nodes.idle(), 0)[nodes.ready]
    sample.free_gpus = float(idle[:, gpu].sum()) / _MILLI
    sample.waiting_gpus = float(snapshot.classes.requests[snapshot.tasks.cls[waiting], 0, gpu].sum()) / _MILLI
    sample.unusable_gpus = _unusable(snapshot, gpu) / _MILLI
    for row, record in enumerate(snapshot.queues.records):
        held = float(snapshot.queues.own_allocated[row, gpu]) / _MILLI
        if held:
            sample.held[record.name] = held
    wanting = np.unique(snapshot.jobs.queue[snapshot.tasks.job[waiting]])
    for row in {*wanting[wanting >= 0].tolist(), *(snapshot.queues.index[name] for name in sample.held)}:
        share = session.ask(points.QUEUE_FAIR_SHARE, row)
        if share is not None and share[gpu] < UNLIMITED:
            sample.share[snapshot.queues.records[row].name] = float(share[gpu]) / _MILLI
    return sample


def _unusable(snapshot: Snapshot, gpu: int) -> float:
    """Free GPUs on nodes where no waiting task fits; each waiting GPU that is asked for weighs the same.

    A task of a gang counts as one that fits if the node could take it, whether or not the rest of the gang has room.
    """
    nodes, waiting = snapshot.nodes, snapshot.pending_tasks()
    idle = np.maximum(nodes.idle(), 0)[nodes.ready]
    classes, counts = np.unique(snapshot.tasks.cls[waiting], return_counts=True)
    asked = snapshot.classes.requests[classes, 0]
    weights = counts * asked[:, gpu]
    classes_with = np.flatnonzero(weights > 0)
    if len(classes_with) == 0:
        return 0.0
    free = idle[:, gpu].astype(np.float64)
    lost = sum(
        float(weights[row]) * float(free[(idle < asked[row]).any(axis=1)].sum()) for row in classes_with.tolist()
    )
    return lost / float(weights.sum())
