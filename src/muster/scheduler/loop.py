"""The scheduler: one cycle at a time, against any cluster that speaks the protocol.

A cycle polls the cluster, brings the mirror up to date, opens a session on a snapshot, runs the configured
actions in order, and sends what they committed. Nothing survives a cycle but the mirror, a counter and, if a plugin
asks for it, what queues have used and when it last did something.

What queues have had, if a plugin asks for it (`Plugin.history`), are resource-seconds over a window, the older the
less they count, handed to sessions as `Session.usage`: per queue and resource, the part of the cluster that the queue
held, between 0 and 1. Between two cycles queues hold what they had when the first one ended. A queue holds what the
queues below it hold. It lives in memory: after a restart counting begins anew.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.actions import BUILTIN as ACTIONS
from muster.api import InternalError, UserError
from muster.framework import Registry, SchedulerConfig, Session, UsageHistory, VerdictCache
from muster.framework.faults import Strikes, blamed
from muster.framework.run_times import RunTimes
from muster.plugins import BUILTIN as PLUGINS
from muster.scheduler.cycle import Cluster, Cycle, CycleResult, Usage, log_result, report
from muster.scheduler.job_log import JobLog
from muster.scheduler.job_updates import UnchangedJobs, finished_jobs
from muster.scheduler.object_updates import HyperNodeStatuses, QueueStatuses
from muster.snapshot import Intake, Mirror, Snapshot
from muster.snapshot.messages import Event, HyperNodeUpdate

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
        reports: bool = True,
    ) -> None:
        """`reports`: whether statuses and reasons are written; without, only what later cycles decide by."""
        registry.check(config)
        self.cluster = cluster
        self.config = config
        self.registry = registry
        self.seed = seed
        self._reports = reports
        self.mirror = Mirror(scheduler_names, allocates_claims=allocates_claims, keeps_finished=keeps_finished)
        self.intake = Intake(self.mirror)
        self._hyper_nodes = HyperNodeStatuses()
        self._queues = QueueStatuses()
        self._unchanged = UnchangedJobs()
        self._job_log = JobLog() if reports else None
        self._verdicts = VerdictCache()
        self._meter = meter_for(config, registry)
        #: What is known of run times; None: no plugin asks for it.
        self.run_times = run_times_for(config, registry)
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
            self.run_times = run_times_for(config, self.registry)
            self._verdicts = VerdictCache()  # other plugins give other verdicts
            self._memory = {}
            self.strikes = Strikes()
        self.config = config

    def take(self, events: Iterable[Event]) -> None:
        """Take in some of what a cluster tells, ahead of a picture."""
        self.intake.take(events, self.cluster.now())

    def observe(self) -> Snapshot:
        """Take in everything that has happened and return the present picture."""
        self.take(self.cluster.poll())
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
        if self._job_log is not None and cycle.session is not None:
            self._job_log.note(cycle.session, result)
        return result

    def _attempt(self, now: float) -> Cycle:
        cycle = Cycle(
            self.config,
            self.registry,
            self.n_cycles,
            now,
            self._unchanged,
            self._memory,
            self.strikes,
            reports=self._reports,
            run_times=self.run_times,
        )
        try:
            snapshot = self.observe()
            if self.run_times is not None:
                self.run_times.follow(snapshot, now)
            if self._reports:
                cycle.queues = report("queues", lambda: self._queues.updates(snapshot, self.mirror.finished_groups))
            seed = self.seed * _SEED_STRIDE + self.n_cycles
            cycle.run(snapshot, seed, self._verdicts, self.mirror.placement_revision, self._usage(now))
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
        if cycle.session is None or not self._reports:
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


#: Queue and resource; the queue "" stands for the capacity of the cluster.
_Key = tuple[str, str]
_CAPACITY: Final = ""
#: The window moves on in steps of this part of it.
_STEPS: Final = 128


@dataclass(slots=True)
class _Stretch:
    """A part of the window: what was held in it, in resource-seconds as they count at its end."""

    start: float
    end: float
    sums: dict[_Key, float] = field(default_factory=dict)


class UsageMeter:
    """Adds up what queues hold while time passes."""

    def __init__(self, history: UsageHistory) -> None:
        self._window = history.window_s
        self._half_life = history.half_life_s
        self._held: dict[_Key, int] = {}
        self._stretches: deque[_Stretch] = deque()
        #: The sum of all stretches, as they count at `_at`.
        self._sums: dict[_Key, float] = {}
        self._at: float | None = None

    def advance(self, now: float) -> None:
        """Let time pass; queues hold what they held. A clock that goes back is waited for."""
        if self._at is None or now - self._at > self._window:
            # What is older than the window is of no interest.
            self._stretches.clear()
            self._sums.clear()
            self._at = now if self._at is None else now - self._window
        while self._at < now:
            step = min(now - self._at, self._window / _STEPS)
            self._pass(self._at, now if now - self._at <= step else self._at + step)

    def hold(self, snapshot: Snapshot) -> None:
        """From now on, queues hold what the snapshot says."""
        axis, queues = snapshot.axis, snapshot.queues
        self._held = {(_CAPACITY, name): amount for name, amount in axis.amounts(snapshot.total()).items()}
        for row, record in enumerate(queues.records):
            for name, amount in axis.amounts(queues.tree_allocated[row]).items():
                self._held[record.name, name] = amount

    def fractions(self) -> Mapping[str, Mapping[str, float]]:
        """Per queue and resource: what it had, in parts of what there was."""
        found: dict[str, dict[str, float]] = {}
        for (queue, name), amount in sorted(self._sums.items()):
            there_was = self._sums.get((_CAPACITY, name), 0.0)
            if queue != _CAPACITY and there_was > 0:
                found.setdefault(queue, {})[name] = amount / there_was
        return found

    def _pass(self, start: float, end: float) -> None:
        """Add what is held between two moments that are near to each other, and forget what has left the window."""
        fading = self._fading(end - start)
        seconds = self._counted_seconds(end - start)
        stretch = self._stretch(start)
        for sums in (self._sums, stretch.sums):
            for key in sums:
                sums[key] *= fading
            for key, amount in self._held.items():
                sums[key] = sums.get(key, 0.0) + amount * seconds
        stretch.end = end
        self._at = end
        while self._stretches and self._stretches[0].end <= end - self._window:
            self._forget(self._stretches.popleft(), end)

    def _stretch(self, start: float) -> _Stretch:
        """The stretch that a moment belongs to, a new one when the last is long enough."""
        if not self._stretches or start - self._stretches[-1].start >= self._window / _STEPS:
            self._stretches.append(_Stretch(start, start))
        return self._stretches[-1]

    def _forget(self, stretch: _Stretch, now: float) -> None:
        fading = self._fading(now - stretch.end)
        still_there = {key for known in self._stretches for key in known.sums}
        for key, amount in stretch.sums.items():
            if key in still_there:
                self._sums[key] = max(0.0, self._sums[key] - amount * fading)
            else:
                del self._sums[key]

    def _fading(self, seconds: float) -> float:
        """What one resource-second counts after a while."""
        return 1.0 if self._half_life is None else math.exp2(-seconds / self._half_life)

    def _counted_seconds(self, seconds: float) -> float:
        """How many seconds a stretch counts at its end: its later seconds count more than its earlier ones."""
        if self._half_life is None:
            return seconds
        return self._half_life / math.log(2) * -math.expm1(-seconds / self._half_life * math.log(2))


def meter_for(config: SchedulerConfig, registry: Registry) -> UsageMeter | None:
    """A meter for the first configured plugin that asks for one; None: nobody does."""
    asked = [plugin.history for plugin in registry.make_plugins(config)]
    history = next((found for found in asked if found is not None), None)
    return None if history is None else UsageMeter(history)


def run_times_for(config: SchedulerConfig, registry: Registry) -> RunTimes | None:
    """A record of run times, if a configured plugin asks for one; None: nobody does."""
    return RunTimes() if any(plugin.wants_run_times for plugin in registry.make_plugins(config)) else None
