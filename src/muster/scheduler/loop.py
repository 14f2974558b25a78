"""The scheduler: one cycle at a time, against any cluster that speaks the protocol.

A cycle polls the cluster, brings the mirror up to date, opens a session on a snapshot, runs the configured
actions in order, and sends what they committed. Nothing survives a cycle but the mirror, a counter and, if a plugin
asks for it, what queues have used and when it last did something. So a cycle that breaks off loses nothing: what was
committed is sent, what was not is dropped with the session.
Callers: the simulator, the server, tests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from muster.api import InternalError, UserError
from muster.framework import Action, Registry, SchedulerConfig, Session, VerdictCache, Verdicts
from muster.framework.faults import Strikes, blamed
from muster.scheduler.cycle import CycleResult, decisions_of, ungates_of
from muster.scheduler.hypernode_status import HyperNodeStatuses
from muster.scheduler.protocol import Cluster
from muster.scheduler.queue_status import QueueStatuses
from muster.scheduler.settled import Settled
from muster.scheduler.updates import finished_jobs, updates_of
from muster.scheduler.usage import meter_for
from muster.snapshot import Intake, Mirror, Snapshot
from muster.snapshot.messages import (
    Bind,
    Decision,
    Evict,
    Failure,
    HyperNodeUpdate,
    JobUpdate,
    Nominate,
    QueueUpdate,
    Ungate,
)

log = logging.getLogger("muster.scheduler")

# Keeps the random streams of cycles apart for every seed a person would choose.
_SEED_STRIDE = 1_000_003

#: As `Session.usage`.
Usage = Mapping[str, Mapping[str, float]]

_Any = TypeVar("_Any")
_Made = TypeVar("_Made", bound=Decision | Ungate | JobUpdate | HyperNodeUpdate | QueueUpdate)


@dataclass(slots=True)
class _Cycle:
    """One cycle under way: what to keep of it, and where it stands if it breaks off."""

    config: SchedulerConfig
    registry: Registry
    number: int
    settled: Settled
    memory: dict[str, float]
    strikes: Strikes
    step: str = "opening the session"
    session: Session | None = None
    updates: list[JobUpdate] = field(default_factory=list)
    queues: list[QueueUpdate] = field(default_factory=list)
    #: The first thing that went wrong and was no single job's fault.
    error: InternalError | None = None

    def run(self, snapshot: Snapshot, now: float, seed: int, known: dict[bytes, Verdicts], usage: Usage) -> None:
        session = Session(
            snapshot,
            self.config,
            self.registry,
            now=now,
            seed=seed,
            known_verdicts=known,
            usage=usage,
            memory=self.memory,
            strikes=self.strikes,
        )
        self.session = session
        for name in self.config.actions:
            self.step = f"action {name}"
            began = perf_counter()
            self._act(session, self.registry.make_action(name, self.config.arguments_of(name)))
            session.count_for(name).seconds += perf_counter() - began
        if self.error is None:  # else the columns may not tell the truth
            self.step = "closing the session"
            self.updates = updates_of(session, self.settled)
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
        error = _internal_error(fault, self)
        log.error("event=error cycle=%d error=%r", self.number, str(error), exc_info=fault)
        self.error = self.error or error


class Scheduler:
    """Runs cycles; raises `UserError` at once when the configuration names what the registry does not have."""

    def __init__(
        self,
        cluster: Cluster,
        config: SchedulerConfig,
        registry: Registry,
        *,
        seed: int = 0,
        scheduler_names: Iterable[str] | None = None,
        allocates_claims: bool = True,
        keeps_finished: bool = False,
    ) -> None:
        registry.check(config)
        self.cluster = cluster
        self.config = config
        self.registry = registry
        self.seed = seed
        self.mirror = Mirror(scheduler_names, allocates_claims=allocates_claims, keeps_finished=keeps_finished)
        self.intake = Intake(self.mirror)
        self._hyper_nodes = HyperNodeStatuses()
        self._queues = QueueStatuses()
        self._settled = Settled()
        self._verdicts = VerdictCache()
        self._meter = meter_for(config, registry)
        self._memory: dict[str, float] = {}
        #: Plugins that failed, and those that are left out because of it.
        self.strikes = Strikes()
        #: Cycles run so far.
        self.n_cycles = 0
        #: The session of the last cycle, for explanations; None before the first.
        self.last_session: Session | None = None

    def configure(self, config: SchedulerConfig) -> None:
        """Take another configuration from the next cycle on. Raises UserError, and the old one stays then."""
        self.registry.check(config)
        if config.tiers != self.config.tiers:
            self._meter = meter_for(config, self.registry)
            self._verdicts = VerdictCache()  # other plugins give other verdicts
            self._memory = {}
            self.strikes = Strikes()
        self.config = config

    def observe(self) -> Snapshot:
        """Take in everything that has happened and return the present picture."""
        self.intake.take(self.cluster.poll(), self.cluster.now())
        return self.intake.snapshot()

    def run_once(self) -> CycleResult:
        """Run one cycle. A broken plugin or action is reported in the result, not raised."""
        self.n_cycles += 1
        now = self.cluster.now()
        cycle = self._attempt(now)
        while self._may_begin_again(cycle, now):
            cycle = self._attempt(now)
        self.last_session = cycle.session or self.last_session
        return self._deliver(cycle, now, self._put_aside(cycle, now))

    def _attempt(self, now: float) -> _Cycle:
        cycle = _Cycle(self.config, self.registry, self.n_cycles, self._settled, self._memory, self.strikes)
        try:
            snapshot = self.observe()
            cycle.queues = _made("queues", lambda: self._queues.updates(snapshot, self.mirror.finished_groups))
            seed = self.seed * _SEED_STRIDE + self.n_cycles
            cycle.run(snapshot, now, seed, self._verdicts.at(self.mirror.placement_revision), self._usage(now))
            if self._meter is not None:
                self._meter.hold(snapshot)
            self._verdicts.forget_others(snapshot.classes.keys)
            self.mirror.put_away(finished_jobs(snapshot, cycle.updates))
        except UserError:
            raise
        except Exception as fault:  # noqa: BLE001  # as for actions
            cycle.fail(fault)
        return cycle

    def _may_begin_again(self, cycle: _Cycle, now: float) -> bool:
        """Whether a plugin broke the session before anything came of it: without that plugin it may go well."""
        if cycle.error is None or cycle.session is not None:
            return False
        plugin, _ = blamed(cycle.error.__cause__ or cycle.error)
        if plugin and self.strikes.note(plugin, None, now):
            log.error("event=plugin-dropped plugin=%s", plugin)
        return bool(plugin)

    def _put_aside(self, cycle: _Cycle, now: float) -> tuple[InternalError, ...]:
        """Put jobs aside about which questions went wrong, unless it was the plugin that was at fault."""
        session = cycle.session
        faults = [] if session is None else session.faults
        for fault in faults:
            assert session is not None
            if not fault.plugin or fault.plugin in session.plugins:
                record = session.snapshot.jobs.records[fault.job]
                thing = record.source or session.snapshot.tasks.pods[int(session.snapshot.tasks_of(fault.job)[0])]
                self.intake.put_job_aside(record.id, thing, fault.why, now)
        return tuple(_internal_error(fault.error, cycle, fault.step) for fault in faults)

    def _usage(self, now: float) -> Usage:
        """What queues have had until now, if a plugin wants to know."""
        if self._meter is None:
            return {}
        self._meter.advance(now)
        return self._meter.fractions()

    def _deliver(self, cycle: _Cycle, now: float, faults: tuple[InternalError, ...]) -> CycleResult:
        """Send what was committed: room is promised before it is made, so that no eviction is for nobody."""
        updates = cycle.updates
        decisions: list[Decision] = []
        hyper_nodes: list[HyperNodeUpdate] = []
        ungated: list[Ungate] = []
        if cycle.session is not None:
            decisions = decisions_of(cycle.session)
            ungated = ungates_of(cycle.session)
            forest = cycle.session.snapshot.topology.forest
            hyper_nodes = _made("hypernodes", lambda: self._hyper_nodes.updates(self.mirror, forest))
        failures = [
            *_send(self.cluster.nominate, [made for made in decisions if isinstance(made, Nominate)]),
            *_send(self.cluster.evict, [made for made in decisions if isinstance(made, Evict)]),
            *_send(self.cluster.bind, [made for made in decisions if isinstance(made, Bind)]),
            *_send(self.cluster.ungate, ungated),
            *_made("jobs", lambda: _send(self.cluster.update_jobs, updates)),
            *_made("queues", lambda: _send(self.cluster.update_queues, cycle.queues)),
            *_made("hypernodes", lambda: _send(self.cluster.update_hypernodes, hyper_nodes)),
        ]
        self._tell_quarantine()
        refused = {failure.decision for failure in failures}
        result = CycleResult(
            number=self.n_cycles,
            time=now,
            decisions=tuple(made for made in decisions if made not in refused),
            updates=tuple(made for made in updates if made not in refused),
            failures=tuple(failures),
            error=cycle.error,
            faults=faults,
            queues=tuple(made for made in cycle.queues if made not in refused),
            ungated=tuple(made for made in ungated if made not in refused),
            hyper_nodes=tuple(made for made in hyper_nodes if made not in refused),
            due=None if cycle.session is None else cycle.session.due,
            tallies={} if cycle.session is None else cycle.session.tallies,
        )
        _log_result(result)
        return result

    def _tell_quarantine(self) -> None:
        """Say what has been put aside and what came back; a report that cannot be made costs nothing else."""
        try:
            if updates := self.mirror.quarantine.tell():
                self.cluster.update_quarantine(updates)
        except Exception:
            log.exception("event=error what=quarantine")


def _send(verb: Callable[[Sequence[_Made]], list[Failure]], decisions: Sequence[_Made]) -> list[Failure]:
    return verb(decisions) if decisions else []


def _made(what: str, make: Callable[[], list[_Any]]) -> list[_Any]:
    """What a report leads to; one that cannot be made costs the others nothing."""
    try:
        return make()
    except Exception:
        log.exception("event=error what=%s", what)
        return []


def _internal_error(fault: Exception, cycle: _Cycle, step: str = "") -> InternalError:
    """Say what failed: the innermost plugin on the stack if there is one, and the step of the cycle."""
    name, asked = blamed(fault)
    where = f"plugin {name}.{asked} in {step or cycle.step}" if name else step or cycle.step
    error = InternalError(f"cycle {cycle.number}: {where} failed: {type(fault).__name__}: {fault}")
    error.__cause__ = fault
    return error


def _log_result(result: CycleResult) -> None:
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
            "" if isinstance(made, Bind) else made.beneficiary,
            made.why,
        )
    for gone in result.ungated:
        log.info("event=ungate cycle=%d job=%s pod=%s", result.number, gone.job, gone.pod)
    for failure in result.failures:
        refused = failure.decision
        if isinstance(refused, HyperNodeUpdate | QueueUpdate):
            subject = f"name={refused.name}"
        else:
            subject = f"job={refused.job}"
        kind = type(refused).__name__.lower()
        log.warning("event=refused cycle=%d %s decision=%s error=%r", result.number, subject, kind, failure.error)
