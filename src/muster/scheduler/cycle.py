"""One cycle: a session on a snapshot, the configured actions in order, and what they committed sent to the cluster.

A cycle that breaks off loses nothing: what was committed is sent, what was not is dropped with the session.

What it needs of a cluster, real or embedded, is a protocol: everything is learned from `poll` and changed through the
verbs. Verbs take a cycle's decisions at once, so that a backend may send them in parallel, and return what failed: a
refused decision is a fact to log, and the next cycle sees the pod where it still is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol, TypeVar

from muster.api import InternalError, UserError
from muster.framework import Action, ActionTally, Registry, SchedulerConfig, Session, VerdictCache
from muster.framework.faults import Strikes, blamed
from muster.framework.run_times import RunTimes
from muster.scheduler.decisions import decisions_of, ungates_of
from muster.scheduler.job_updates import UnchangedJobs, bare_updates_of, updates_of
from muster.snapshot import Snapshot, messages
from muster.snapshot.messages import (
    Bind,
    Event,
    Evict,
    Failure,
    HyperNodeUpdate,
    JobUpdate,
    Nominate,
    QuarantineUpdate,
    QueueUpdate,
    Ungate,
)


class Cluster(Protocol):
    """Objects in, decisions out."""

    def now(self) -> float:
        """Seconds since the epoch, by the cluster's clock."""
        ...

    def poll(self) -> list[Event]:
        """Everything that happened since the last call; at first, everything that exists."""
        ...

    def bind(self, decisions: Sequence[Bind]) -> list[Failure]:
        """Put pods on nodes."""
        ...

    def evict(self, decisions: Sequence[Evict]) -> list[Failure]:
        """Ask pods to leave."""
        ...

    def nominate(self, decisions: Sequence[Nominate]) -> list[Failure]:
        """Note the node that a pod waits for."""
        ...

    def ungate(self, decisions: Sequence[Ungate]) -> list[Failure]:
        """Take the gate that waits for the queue off pods."""
        ...

    def update_jobs(self, updates: Sequence[JobUpdate]) -> list[Failure]:
        """Write how jobs are."""
        ...

    def update_quarantine(self, updates: Sequence[QuarantineUpdate]) -> None:
        """Write what cannot be used, and what can again."""
        ...

    def update_queues(self, updates: Sequence[QueueUpdate]) -> list[Failure]:
        """Write what queues hold."""
        ...

    def update_hypernodes(self, updates: Sequence[HyperNodeUpdate]) -> list[Failure]:
        """Write how HyperNodes are."""
        ...


log = logging.getLogger("muster.scheduler")
#: As `Session.usage`.
Usage = Mapping[str, Mapping[str, float]]
_Any = TypeVar("_Any")


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What one cycle led to. `decisions` and `updates` were carried out; `failures` were refused."""

    number: int
    #: Seconds since the epoch, by the cluster's clock.
    time: float
    decisions: tuple[messages.Decision, ...]
    updates: tuple[messages.JobUpdate, ...]
    failures: tuple[messages.Failure, ...]
    #: What broke off the cycle; what had been committed before was carried out.
    error: InternalError | None = None
    #: Questions about jobs that went wrong; the jobs were put aside, the others were served.
    faults: tuple[InternalError, ...] = ()
    #: Carried out, like `updates`.
    hyper_nodes: tuple[messages.HyperNodeUpdate, ...] = ()
    #: Carried out, like `updates`. They follow what pods hold, one cycle later, and make no cycle a busy one.
    queues: tuple[messages.QueueUpdate, ...] = ()
    #: Pods that lost the gate which waits for their queue; carried out, like `updates`.
    ungated: tuple[messages.Ungate, ...] = ()
    #: When the passing of time alone may change something, seconds since the epoch; None: never.
    due: float | None = None
    #: What the actions did to make room, and how long each took; says nothing about what was decided.
    tallies: Mapping[str, ActionTally] = field(default_factory=dict, compare=False)

    @property
    def is_quiet(self) -> bool:
        """True when the cycle changed nothing in the cluster."""
        return not self.decisions and not self.updates and not self.hyper_nodes and not self.ungated


@dataclass(slots=True)
class Cycle:
    """One cycle under way: what to keep of it, and where it stands if it breaks off."""

    config: SchedulerConfig
    registry: Registry
    number: int
    #: Seconds since the epoch, by the cluster's clock.
    now: float
    unchanged: UnchangedJobs
    memory: dict[str, float]
    strikes: Strikes
    #: Whether somebody reads statuses; if not, only what later cycles decide by is written.
    reports: bool = True
    run_times: RunTimes | None = None
    step: str = "opening the session"
    session: Session | None = None
    updates: list[messages.JobUpdate] = field(default_factory=list)
    queues: list[messages.QueueUpdate] = field(default_factory=list)
    #: The first thing that went wrong and was no single job's fault.
    error: InternalError | None = None

    def run(self, snapshot: Snapshot, seed: int, known: VerdictCache, revision: int, usage: Usage) -> None:
        """Let the actions decide."""
        phases = snapshot.jobs.phase.copy()
        session = Session(
            snapshot,
            self.config,
            self.registry,
            now=self.now,
            seed=seed,
            known_verdicts=known.at(revision),
            known_scores=known.scores_at(revision, snapshot.nodes.objects, snapshot.axis),
            usage=usage,
            memory=self.memory,
            strikes=self.strikes,
            explains=self.reports,
            run_times=self.run_times,
        )
        self.session = session
        for name in self.config.actions:
            self.step = f"action {name}"
            began = perf_counter()
            self._act(session, self.registry.make_action(name, self.config.arguments_of(name)))
            session.count_for(name).seconds += perf_counter() - began
        if self.error is None:  # else the columns may not tell the truth
            self.step = "closing the session"
            self.updates = updates_of(session, self.unchanged) if self.reports else bare_updates_of(session, phases)
        session.close()

    def _act(self, session: Session, action: Action) -> None:
        """Run one action; what breaks off in it is taken back, and the next ones go on."""
        session.begin(self.step)
        try:
            action.run(session)
        except UserError:
            raise
        except Exception as fault:  # noqa: BLE001  # whatever a plugin raises, the cluster must be served
            session.take_back()
            self.fail(fault)
            session.blame(blamed(fault)[0], None)

    def fail(self, fault: Exception) -> None:
        """Note that something went wrong."""
        error = self.internal_error(fault)
        log.error("event=error cycle=%d error=%r", self.number, str(error), exc_info=fault)
        self.error = self.error or error

    def internal_error(self, fault: Exception, step: str = "") -> InternalError:
        """Say what failed: the innermost plugin on the stack if there is one, and the step of the cycle."""
        name, asked = blamed(fault)
        where = f"plugin {name}.{asked} in {step or self.step}" if name else step or self.step
        error = InternalError(f"cycle {self.number}: {where} failed: {type(fault).__name__}: {fault}")
        error.__cause__ = fault
        return error

    def deliver(
        self, cluster: Cluster, hyper_nodes: Sequence[messages.HyperNodeUpdate], faults: tuple[InternalError, ...]
    ) -> CycleResult:
        """Send what was committed: room is promised before it is made, so that no eviction is for nobody."""
        session, updates = self.session, self.updates
        decisions = [] if session is None else decisions_of(session)
        ungated = [] if session is None else ungates_of(session)
        failures = [
            *_send(cluster.nominate, [made for made in decisions if isinstance(made, messages.Nominate)]),
            *_send(cluster.evict, [made for made in decisions if isinstance(made, messages.Evict)]),
            *_send(cluster.bind, [made for made in decisions if isinstance(made, messages.Bind)]),
            *_send(cluster.ungate, ungated),
            *report("jobs", lambda: _send(cluster.update_jobs, updates)),
            *report("queues", lambda: _send(cluster.update_queues, self.queues)),
            *report("hypernodes", lambda: _send(cluster.update_hypernodes, hyper_nodes)),
        ]
        refused = {failure.decision for failure in failures}

        def carried_out(made: Sequence[_Any]) -> tuple[_Any, ...]:
            return tuple(one for one in made if one not in refused) if refused else tuple(made)

        return CycleResult(
            number=self.number,
            time=self.now,
            decisions=carried_out(decisions),
            updates=carried_out(updates),
            failures=tuple(failures),
            error=self.error,
            faults=faults,
            queues=carried_out(self.queues),
            ungated=carried_out(ungated),
            hyper_nodes=carried_out(hyper_nodes),
            due=None if session is None else session.due,
            tallies={} if session is None else session.tallies,
        )


def _send(
    verb: Callable[[Sequence[_Any]], list[messages.Failure]], decisions: Sequence[_Any]
) -> list[messages.Failure]:
    return verb(decisions) if decisions else []


def report(what: str, make: Callable[[], list[_Any]]) -> list[_Any]:
    """What a report leads to; one that cannot be made costs the others nothing."""
    try:
        return make()
    except Exception:
        log.exception("event=error what=%s", what)
        return []


def log_result(result: CycleResult) -> None:
    """One line per decision, key=value."""
    if not log.isEnabledFor(logging.INFO):
        return
    for made in result.decisions:
        log.info(
            "event=%s cycle=%d job=%s pod=%s node=%s beneficiary=%s why=%r",
            type(made).__name__.lower(),
            result.number,
            made.job,
            made.pod,
            made.node,
            "" if isinstance(made, messages.Bind) else made.beneficiary,
            made.why,
        )
    for gone in result.ungated:
        log.info("event=ungate cycle=%d job=%s pod=%s", result.number, gone.job, gone.pod)
    for failure in result.failures:
        refused = failure.decision
        if isinstance(refused, messages.HyperNodeUpdate | messages.QueueUpdate):
            subject = f"name={refused.name}"
        else:
            subject = f"job={refused.job}"
        kind = type(refused).__name__.lower()
        log.warning("event=refused cycle=%d %s decision=%s error=%r", result.number, subject, kind, failure.error)
