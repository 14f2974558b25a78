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
from typing import TypeVar

from muster.api import InternalError, UserError
from muster.framework import Plugin, Registry, SchedulerConfig, Session, VerdictCache, Verdicts
from muster.scheduler.cycle import CycleResult, decisions_of, ungates_of
from muster.scheduler.hypernode_status import HyperNodeStatuses
from muster.scheduler.protocol import Cluster
from muster.scheduler.settled import Settled
from muster.scheduler.updates import updates_of
from muster.scheduler.usage import meter_for
from muster.snapshot import Intake, Mirror, Snapshot
from muster.snapshot.decisions import Bind, Decision, Evict, Failure, HyperNodeUpdate, JobUpdate, Nominate, Ungate

log = logging.getLogger("muster.scheduler")

# Keeps the random streams of cycles apart for every seed a person would choose.
_SEED_STRIDE = 1_000_003

#: As `Session.usage`.
Usage = Mapping[str, Mapping[str, float]]

_Made = TypeVar("_Made", bound=Decision | Ungate | JobUpdate | HyperNodeUpdate)


@dataclass(slots=True)
class _Cycle:
    """One cycle under way: what to keep of it, and where it stands if it breaks off."""

    config: SchedulerConfig
    registry: Registry
    number: int
    settled: Settled
    memory: dict[str, float]
    step: str = "opening the session"
    session: Session | None = None
    updates: list[JobUpdate] = field(default_factory=list)

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
        )
        self.session = session
        for name in self.config.actions:
            self.step = f"action {name}"
            self.registry.make_action(name, self.config.arguments_of(name)).run(session)
        self.step = "closing the session"
        self.updates = updates_of(session, self.settled)
        session.close()


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
    ) -> None:
        registry.check(config)
        self.cluster = cluster
        self.config = config
        self.registry = registry
        self.seed = seed
        self.mirror = Mirror(scheduler_names, allocates_claims=allocates_claims)
        self.intake = Intake(self.mirror)
        self._hyper_nodes = HyperNodeStatuses()
        self._settled = Settled()
        self._verdicts = VerdictCache()
        self._meter = meter_for(config, registry)
        self._memory: dict[str, float] = {}
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
        self.config = config

    def observe(self) -> Snapshot:
        """Take in everything that has happened and return the present picture."""
        self.intake.take(self.cluster.poll(), self.cluster.now())
        return self.intake.snapshot()

    def run_once(self) -> CycleResult:
        """Run one cycle. A broken plugin or action is reported in the result, not raised."""
        self.n_cycles += 1
        now = self.cluster.now()
        cycle = _Cycle(self.config, self.registry, self.n_cycles, self._settled, self._memory)
        error: InternalError | None = None
        try:
            snapshot = self.observe()
            seed = self.seed * _SEED_STRIDE + self.n_cycles
            cycle.run(snapshot, now, seed, self._verdicts.at(self.mirror.placement_revision), self._usage(now))
            if self._meter is not None:
                self._meter.hold(snapshot)
        except UserError:
            raise
        except Exception as fault:  # whatever a plugin raises, the cluster must be served
            error = _internal_error(fault, cycle)
            log.exception("event=error cycle=%d error=%r", self.n_cycles, str(error))
        self.last_session = cycle.session or self.last_session
        return self._deliver(cycle, now, error)

    def _usage(self, now: float) -> Usage:
        """What queues have had until now, if a plugin wants to know."""
        if self._meter is None:
            return {}
        self._meter.advance(now)
        return self._meter.fractions()

    def _deliver(self, cycle: _Cycle, now: float, error: InternalError | None) -> CycleResult:
        """Send what was committed: room is promised before it is made, so that no eviction is for nobody."""
        updates = cycle.updates
        decisions: list[Decision] = []
        hyper_nodes: list[HyperNodeUpdate] = []
        ungated: list[Ungate] = []
        if cycle.session is not None:
            decisions = decisions_of(cycle.session)
            ungated = ungates_of(cycle.session)
            hyper_nodes = self._hyper_nodes.updates(self.mirror, cycle.session.snapshot.topology.forest)
        failures = [
            *_send(self.cluster.nominate, [made for made in decisions if isinstance(made, Nominate)]),
            *_send(self.cluster.evict, [made for made in decisions if isinstance(made, Evict)]),
            *_send(self.cluster.bind, [made for made in decisions if isinstance(made, Bind)]),
            *_send(self.cluster.ungate, ungated),
            *_send(self.cluster.update_jobs, updates),
            *_send(self.cluster.update_hypernodes, hyper_nodes),
        ]
        refused = {failure.decision for failure in failures}
        result = CycleResult(
            number=self.n_cycles,
            time=now,
            decisions=tuple(made for made in decisions if made not in refused),
            updates=tuple(made for made in updates if made not in refused),
            failures=tuple(failures),
            error=error,
            ungated=tuple(made for made in ungated if made not in refused),
            hyper_nodes=tuple(made for made in hyper_nodes if made not in refused),
            due=None if cycle.session is None else cycle.session.due,
        )
        _log_result(result)
        return result


def _send(verb: Callable[[Sequence[_Made]], list[Failure]], decisions: Sequence[_Made]) -> list[Failure]:
    return verb(decisions) if decisions else []


def _internal_error(fault: Exception, cycle: _Cycle) -> InternalError:
    """Say what failed: the innermost plugin on the stack if there is one, and the step of the cycle."""
    plugin = ""
    trace = fault.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, Plugin):
            plugin = f"plugin {owner.name}.{trace.tb_frame.f_code.co_name} in "
        trace = trace.tb_next
    error = InternalError(f"cycle {cycle.number}: {plugin}{cycle.step} failed: {type(fault).__name__}: {fault}")
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
        subject = f"hypernode={refused.name}" if isinstance(refused, HyperNodeUpdate) else f"job={refused.job}"
        kind = type(refused).__name__.lower()
        log.warning("event=refused cycle=%d %s decision=%s error=%r", result.number, subject, kind, failure.error)
