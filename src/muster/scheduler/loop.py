"""The scheduler: one cycle at a time, against any cluster that speaks the protocol.

A cycle polls the cluster, brings the mirror up to date, opens a session on a snapshot, runs the configured
actions in order, and sends what they committed. Nothing survives a cycle but the mirror, a counter and, if a plugin
asks for it, what queues have used and when it last did something.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from muster.actions import BUILTIN as ACTIONS
from muster.api import InternalError, UserError
from muster.framework import Registry, SchedulerConfig, Session, VerdictCache
from muster.framework.faults import Strikes, blamed
from muster.plugins import BUILTIN as PLUGINS
from muster.scheduler.cycle import Cycle, CycleResult, Usage, log_result, report
from muster.scheduler.job_updates import UnchangedJobs, finished_jobs
from muster.scheduler.object_updates import HyperNodeStatuses, QueueStatuses
from muster.scheduler.protocol import Cluster
from muster.scheduler.usage import meter_for
from muster.snapshot import Intake, Mirror, Snapshot
from muster.snapshot.messages import HyperNodeUpdate

log = logging.getLogger("muster.scheduler")

# Keeps the random streams of cycles apart for every seed a person would choose.
_SEED_STRIDE = 1_000_003


def builtin_registry(*, third_party: bool = True) -> Registry:
    """Return the built-in plugins and actions, with those of installed packages unless told otherwise."""
    registry = Registry.of(PLUGINS, ACTIONS)
    if third_party:
        registry.load_entry_points()
    return registry


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
        self._unchanged = UnchangedJobs()
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
        faults = self._put_aside(cycle, now)
        result = cycle.deliver(self.cluster, self._hyper_node_updates(cycle), faults)
        self._tell_quarantine()
        log_result(result)
        return result

    def _attempt(self, now: float) -> Cycle:
        cycle = Cycle(self.config, self.registry, self.n_cycles, now, self._unchanged, self._memory, self.strikes)
        try:
            snapshot = self.observe()
            cycle.queues = report("queues", lambda: self._queues.updates(snapshot, self.mirror.finished_groups))
            seed = self.seed * _SEED_STRIDE + self.n_cycles
            cycle.run(snapshot, seed, self._verdicts.at(self.mirror.placement_revision), self._usage(now))
            if self._meter is not None:
                self._meter.hold(snapshot)
            self._verdicts.forget_others(snapshot.classes.keys)
            self.mirror.put_away(finished_jobs(snapshot, cycle.updates))
        except UserError:
            raise
        except Exception as fault:  # noqa: BLE001  # as for actions
            cycle.fail(fault)
        return cycle

    def _may_begin_again(self, cycle: Cycle, now: float) -> bool:
        """Whether a plugin broke the session before anything came of it: without that plugin it may go well."""
        if cycle.error is None or cycle.session is not None:
            return False
        plugin, _ = blamed(cycle.error.__cause__ or cycle.error)
        if plugin and self.strikes.note(plugin, None, now):
            log.error("event=plugin-dropped plugin=%s", plugin)
        return bool(plugin)

    def _put_aside(self, cycle: Cycle, now: float) -> tuple[InternalError, ...]:
        """Put jobs aside about which questions went wrong, unless it was the plugin that was at fault."""
        session = cycle.session
        faults = [] if session is None else session.faults
        for fault in faults:
            assert session is not None
            if not fault.plugin or fault.plugin in session.plugins:
                record = session.snapshot.jobs.records[fault.job]
                thing = record.source or session.snapshot.tasks.pods[int(session.snapshot.tasks_of(fault.job)[0])]
                self.intake.put_job_aside(record.id, thing, fault.why, now)
        return tuple(cycle.internal_error(fault.error, fault.step) for fault in faults)

    def _usage(self, now: float) -> Usage:
        """What queues have had until now, if a plugin wants to know."""
        if self._meter is None:
            return {}
        self._meter.advance(now)
        return self._meter.fractions()

    def _hyper_node_updates(self, cycle: Cycle) -> list[HyperNodeUpdate]:
        if cycle.session is None:
            return []
        forest = cycle.session.snapshot.topology.forest
        return report("hypernodes", lambda: self._hyper_nodes.updates(self.mirror, forest))

    def _tell_quarantine(self) -> None:
        """Say what has been put aside and what came back; a report that cannot be made costs nothing else."""
        try:
            if updates := self.mirror.quarantine.tell():
                self.cluster.update_quarantine(updates)
        except Exception:
            log.exception("event=error what=quarantine")
