"""The replay: the real scheduler on a trace, cycle by cycle, where a cycle can change something.

A cycle is run when a job has come, when room has come free while somebody waits, when the scheduler has said that time
alone will change something, and after a cycle that did more than start jobs: evictions and promises lead to others.
Starting jobs alone leads to nothing new, since every job that waits has just had its turn.
Cycles happen at whole multiples of the period, as those of a running scheduler do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

from muster.api import KubeObject, UserError
from muster.framework import Registry, SchedulerConfig, Session
from muster.lab.cluster import EPOCH, ReplayCluster
from muster.lab.record import Recorder
from muster.lab.sampling import Sampler
from muster.lab.trace import Trace
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from muster.snapshot.messages import Bind

#: Told now and then: jobs that have ended, jobs in all, seconds passed on the virtual clock.
Progress = Callable[[int, int, float], None]
#: A scheduler that changes its mind for ever is stopped after so many cycles at which nothing came or ended.
_MAX_RESTLESS = 10_000
#: Cycles between two words on how far it is.
_TELL_EVERY = 200


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay a trace."""

    seed: int = 0
    period_s: float = 1.0
    grace_s: float = 0.0
    checkpoint_s: float | None = None
    #: Stop here, in seconds since the beginning of the trace; None: when everything has ended.
    until_s: float | None = None
    n_samples: int = 400


class Replay:
    """One trace under one configuration; can be saved in the middle and gone on with."""

    def __init__(
        self,
        trace: Trace,
        objects: Iterable[KubeObject],
        config: SchedulerConfig,
        options: ReplayOptions | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.options = options = options or ReplayOptions()
        if not options.period_s > 0:
            raise UserError(f"expected a period of more than 0 seconds, got {options.period_s:g}", field="period")
        self.recorder = Recorder(list(trace.jobs))
        self.cluster = ReplayCluster(
            objects,
            trace.jobs,
            self.recorder,
            grace_s=options.grace_s,
            checkpoint_s=options.checkpoint_s,
        )
        self._scheduler = Scheduler(
            self.cluster, config, registry or builtin_registry(), seed=options.seed, reports=False
        )
        self.cluster.run_times = self._scheduler.run_times
        self._sampler = Sampler(trace, self.recorder, options.n_samples)
        self._n_jobs = len(trace.jobs)
        #: The scheduler's own word on when to look again.
        self._due: float | None = None
        self._restless = 0
        self.is_over = False

    @property
    def now_s(self) -> float:
        return self.cluster.now() - EPOCH

    @property
    def last_session(self) -> Session | None:
        """The session of the last cycle, for whoever wants to know what plugins thought."""
        return self._scheduler.last_session

    def run(self, progress: Progress | None = None, *, pause: Callable[[], bool] = lambda: False) -> None:
        """Go on until everything has ended, or until `pause` says to stop between two cycles."""
        told = self.recorder.cycles
        while not self.is_over and not pause():
            self._step()
            if progress is not None and self.recorder.cycles >= told + _TELL_EVERY:
                told = self.recorder.cycles
                progress(self.cluster.n_done, self._n_jobs, self.now_s)

    def __getstate__(self) -> dict[str, Any]:  # Any: whatever there is
        """All that a replay goes on from: not what the last cycle was made of, nor code."""
        scheduler = copy(self._scheduler)
        scheduler.registry, scheduler.last_session = Registry(), None
        return {**self.__dict__, "_scheduler": scheduler}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._scheduler.registry = builtin_registry()

    def _step(self) -> None:
        """Let time pass to the next moment that matters, and run a cycle if it can change something."""
        moments = [moment for moment in (self.cluster.next_event_at(), self._due) if moment is not None]
        until = math.inf if self.options.until_s is None else EPOCH + self.options.until_s
        if not moments or min(moments) > until:
            self.is_over = True
            return
        at = self._tick(min(moments))
        is_news = self.cluster.advance_to(at)
        is_due = self._due is not None and self._due <= at
        if (is_news and self.cluster.n_waiting) or is_due:
            self._restless = 0 if is_news else self._restless + 1
            self._cycle()
        if self._restless > _MAX_RESTLESS:
            raise UserError(f"the scheduler went on changing its mind for {_MAX_RESTLESS} cycles at {self.now_s:g} s")

    def _tick(self, moment: float) -> float:
        period = self.options.period_s
        return EPOCH + math.ceil((moment - EPOCH) / period - 1e-9) * period

    def _cycle(self) -> None:
        result = self._scheduler.run_once()
        if result.error is not None:
            raise result.error
        if result.faults:
            raise result.faults[0]
        self.recorder.cycles += 1
        session = self._scheduler.last_session
        assert session is not None
        self._sampler.look(session, result, self.now_s)
        self._due = self._look_again(result)

    def _look_again(self, result: CycleResult) -> float | None:
        """When to run a cycle although nothing happens."""
        if all(isinstance(made, Bind) for made in result.decisions):
            return result.due
        return self.cluster.now() + self.options.period_s
