"""Where cycles come from: a simulation of files that is played in a thread of its own.

A feed holds its lock while a cycle runs and lets go between cycles: whoever makes an answer from a session takes it, so
that nothing is read while it changes, and a browser that asks for much delays the dashboard's own cycles and nobody
else's. `muster.ui.live` is the same for a cluster.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from muster.api import ClusterSnapshot, KubeObject, Loaded, LoadedFiles, MusterError
from muster.cluster import Timeline
from muster.framework import Registry, SchedulerConfig
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from muster.simulate import Run, simulate
from muster.ui.history import History, Json, Moment, moment_of
from muster.ui.node_map import prepared

log = logging.getLogger("muster.ui")

Kind = Literal["files", "snapshot", "cluster", "replay"]
#: How long a feed steps aside for those who wait for an answer.
_YIELD_S: Final = 0.0005


@dataclass(frozen=True, slots=True)
class Label:
    """What a feed is called, and how commands name the same objects."""

    kind: Kind
    title: str
    #: What follows the name of the job in `muster explain JOB …`.
    words: str = ""


class Turns:
    """A lock whose holder can see that others wait, and step aside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0

    @contextmanager
    def mine(self) -> Iterator[None]:
        """Wait for a turn, and have it."""
        self._waiting += 1
        with self._lock:
            self._waiting -= 1
            yield

    def step_aside(self) -> None:
        """Let those who wait go first; for the one who has the turn."""
        while self._waiting > 0:
            self._lock.release()
            time.sleep(_YIELD_S)
            self._lock.acquire()


class Feed:
    """What the server reads: the history of cycles, and how the feed itself is."""

    def __init__(self, label: Label, config: SchedulerConfig, registry: Registry | None = None) -> None:
        self.label = label
        self.config = config
        self.registry = registry or builtin_registry()
        self.history = History()
        self.turns = Turns()
        #: What of the input may not be meant as it is written, a sentence each.
        self.notes: tuple[str, ...] = ()
        #: Seconds since the epoch at which it began, by the cluster's clock.
        self.start: float = 0.0
        self.has_ended = False
        #: What broke it, or keeps it from being current; "" if nothing does.
        self.trouble = ""
        #: Who leads and which shards there are; nobody is elected where files are played.
        self.surroundings: Json = {"leaders": None, "shards": [], "trouble": ""}

    @property
    def is_live(self) -> bool:
        return self.label.kind == "cluster"

    def keep(self, moment: Moment) -> None:
        """Take a new moment; where somebody watches, the map is made at once, before the next cycle begins."""
        if self.history.is_heard:
            prepared(moment, "state")
        self.history.add(moment)

    def begin(self) -> None:
        """Start to produce cycles."""

    def stop(self) -> None:
        """Produce no more of them."""


@dataclass(frozen=True, slots=True)
class Played:
    """What is played: objects that were read, a configuration and a timeline."""

    objects: Sequence[KubeObject | Loaded]
    config: SchedulerConfig
    timeline: Timeline | None = None
    scheduler_names: Sequence[str] = ()
    cycles: int | None = None
    until: float | None = None
    seed: int = 0
    #: Seconds of the virtual clock for each real one; None: as fast as it goes.
    speed: float | None = None
    registry: Registry | None = field(default=None, compare=False)


class _StoppedError(Exception):
    """The feed was asked to end."""


class FileFeed(Feed):
    """Plays a simulation, cycle by cycle."""

    def __init__(self, label: Label, played: Played) -> None:
        super().__init__(label, played.config, played.registry)
        self._played = played
        if isinstance(played.objects, LoadedFiles):
            self.notes = (*played.objects.notes, *(played.timeline.notes if played.timeline is not None else ()))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-ui-feed", daemon=True)
        self._began = 0.0
        #: The last cycle that was asked about, and the run up to there.
        self._replayed: tuple[int, Run] | None = None

    def begin(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the simulation; False: it has not come in time."""
        self._thread.join(timeout_s)
        return self.has_ended

    def run_to(self, cycle: int) -> Run:
        """The run up to a cycle, played again: the same input decides the same."""
        if self._replayed is None or self._replayed[0] != cycle:
            played = self._played
            run = Run(
                played.objects,
                played.config,
                seed=played.seed,
                timeline=played.timeline,
                registry=self.registry,
                scheduler_names=played.scheduler_names,
                repeats=played.until is not None or played.cycles is not None,
            )
            run.go_on(cycles=cycle)
            run.cycles.clear()  # what has happened by then is no answer
            self._replayed = (cycle, run)
        return self._replayed[1]

    def _run(self) -> None:
        played = self._played
        try:
            with self.turns.mine():
                result = simulate(
                    played.objects,
                    played.config,
                    cycles=played.cycles,
                    until=played.until,
                    seed=played.seed,
                    timeline=played.timeline,
                    registry=self.registry,
                    scheduler_names=played.scheduler_names,
                    observe=self._observe,
                )
            asides = [aside.to_json() for aside in result.quarantined or ()]
            latest = self.history.latest
            if latest is not None and asides:
                latest.quarantined = tuple(asides)  # with what could not even be read
        except _StoppedError:
            return
        except MusterError as fault:
            self.trouble = str(fault)
        except Exception as fault:
            log.exception("event=error what=feed")
            self.trouble = f"{type(fault).__name__}: {fault}"
        self.has_ended = True
        self.history.tell()

    def _observe(self, scheduler: Scheduler, result: CycleResult) -> None:
        if not self.start:
            self.start = _start_of(self._played.objects, result.time)
        self.keep(moment_of(scheduler, result, self.start))
        self.turns.step_aside()
        if self._stopping.is_set() or (self._played.speed is not None and self._waits_for(result.time)):
            raise _StoppedError

    def _waits_for(self, now: float) -> bool:
        """Keep pace with the real clock while others read; True when it is time to end."""
        assert self._played.speed is not None
        due = self._began + (now - self.start) / self._played.speed
        while (left := due - time.monotonic()) > 0:
            self.turns.step_aside()
            if self._stopping.wait(min(left, 0.02)):
                return True
        return False


def _start_of(objects: Sequence[KubeObject | Loaded], first: float) -> float:
    """When a simulation begins: at the moment of the snapshot, else with its first cycle."""
    for each in objects:
        thing = each.object if isinstance(each, Loaded) else each
        if isinstance(thing, ClusterSnapshot) and thing.spec.taken_at is not None:
            return thing.spec.taken_at.timestamp()
    return first
