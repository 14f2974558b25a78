"""A live cluster: read by watches of its own, in a thread of its own, and shown as each cycle would leave it.

The scheduler of the cluster is not asked and not slowed: the dashboard has its own mirror, from which it makes the same
session as a cycle would (why jobs wait, what they could get). What was decided is taken from the pods themselves.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from muster.api import BackendError, MusterError
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client.commands import list_cluster
from muster.cluster.kubernetes.client.connection import name_of
from muster.cluster.kubernetes.client.leaders import Leader, read_leaders, read_shards
from muster.cluster.kubernetes.client.shards import WHOLE_CLUSTER, Shard, Target
from muster.cluster.kubernetes.reader import ClusterReader, Observed
from muster.framework import Session
from muster.scheduler import CycleResult, Scheduler
from muster.server.reload import ConfigFile
from muster.simulate import Run
from muster.ui.feeds import Feed, Label
from muster.ui.history import Json, moment_of

log = logging.getLogger("muster.ui")

#: The least time between two pictures; of a picture that took long, so many times that.
_PERIOD_S: Final = 0.25
_REST: Final = 2.0
#: How long nothing may happen until a picture is made all the same: waits grow by themselves.
_QUIET_S: Final = 5.0
#: How long the watches may be silent until that is said: of a kind that nobody touches a server tells once a minute.
SILENT_S: Final = 120.0
#: How long to wait before another attempt to connect.
_AGAIN_S: Final = 5.0
#: The least time between two looks at who leads.
_LEADERS_S: Final = 3.0
NAMES: Final = ("volcano",)


class LiveFeed(Feed):
    """The cluster that a kubeconfig, or the pod's own account, leads to."""

    def __init__(
        self,
        kubeconfig: Path | None,
        context: str | None,
        scheduler_names: tuple[str, ...],
        config: str | None = None,
        *,
        shard: Shard = WHOLE_CLUSTER,
        namespace: str = "",
        words: str = "--cluster",
    ) -> None:
        self._file = ConfigFile(config)
        super().__init__(Label("cluster", name_of(kubeconfig, context), words), self._file.first())
        self._names = scheduler_names or NAMES
        self._target = Target(kubeconfig, context, shard, scheduler_names=self._names)
        #: Where leases are looked for by those who may not look everywhere.
        self._namespace = namespace
        self._looked_at = float("-inf")
        self._reader = ClusterReader(self._target)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-ui-feed", daemon=True)

    def ask(self, path: str, body: bytes) -> bytes:
        """Post a question to the cluster that changes nothing. Raises BackendError."""
        return self._reader.ask(path, body)

    def _look_around(self) -> None:
        """See from time to time who leads and which shards there are; in the thread that waits for the cluster."""
        if time.monotonic() - self._looked_at < _LEADERS_S:
            return
        self._looked_at = time.monotonic()
        leaders: list[Leader] | None = None
        shards: Sequence[NodeShard] = ()
        trouble = ""
        try:
            leaders = read_leaders(self._reader.read, self._namespace)
            shards = read_shards(self._reader.read)
        except BackendError as fault:
            trouble = f"the cluster does not say who leads: {fault}"
        self.surroundings = {
            "leaders": None if leaders is None else [_leader_json(leader) for leader in leaders],
            "shards": [
                {
                    "shard": shard.name,
                    "scheduler": shard.spec.scheduler_name,
                    "wanted": len(shard.spec.nodes_desired),
                    "inUse": len(shard.status.nodes_in_use),
                    "toAdd": len(shard.status.nodes_to_add),
                    "toRemove": len(shard.status.nodes_to_remove),
                }
                for shard in shards
            ],
            "trouble": trouble,
        }

    def run_to(self, cycle: int) -> Run:
        """A run that begins with the cluster as it is now, listed anew: what is gone cannot be asked about.

        Raises MusterError.
        """
        objects = list_cluster(self._target).objects
        return Run(objects, self.config, registry=self.registry, scheduler_names=self._names, reports=False)

    def begin(self) -> None:
        self.start = time.time()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._reader.wake()
        self._reader.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._reader.start()
                self._follow()
            except MusterError as fault:
                self._say(str(fault))
            except Exception as fault:
                log.exception("event=error what=feed")
                self._say(f"{type(fault).__name__}: {fault}")
            if self._stopping.wait(_AGAIN_S):
                return
            self._reader.stop()
            self._reader = ClusterReader(self._target)

    def _say(self, trouble: str) -> None:
        if self.trouble != trouble:
            self.trouble = trouble
            self.history.tell()

    def _follow(self) -> None:
        """Make pictures until told to stop. Raises MusterError when the cluster is lost for good."""
        scheduler = Scheduler(
            self._reader, self.config, self.registry, scheduler_names=self._names, allocates_claims=False
        )
        latest = self.history.latest
        scheduler.n_cycles = 0 if latest is None else latest.cycle
        while not self._stopping.is_set():
            began = time.monotonic()
            self._reload(scheduler)
            self._look_around()
            with self.turns.mine():
                result = scheduler.run_once()
                if scheduler.last_session is not None:
                    seen = [_json(scheduler.last_session, each, result) for each in self._reader.observed()]
                    self.keep(moment_of(scheduler, result, 0.0, seen))
            self._say(str(result.error) if result.error is not None else self._reader.trouble(SILENT_S))
            took = time.monotonic() - began
            if self._stopping.wait(max(_PERIOD_S, _REST * took)):
                return
            self._reader.wait(_QUIET_S)

    def _reload(self, scheduler: Scheduler) -> None:
        """Take up a changed configuration as the scheduler does; what cannot be used leaves the one in force."""
        try:
            found = self._file.changed()
        except MusterError as fault:
            log.error("event=config-refused error=%r", str(fault))  # noqa: TRY400  # the user's mistake, not ours
            return
        if found is not None:
            scheduler.configure(found)
            self.config = found


def _leader_json(leader: Leader) -> Json:
    return {
        "lease": leader.lease,
        "namespace": leader.namespace,
        "holder": leader.holder,
        "since": leader.since,
        "renewed": leader.renewed,
        "lasts": leader.duration_s,
        "changes": leader.changes,
    }


def _json(session: Session, seen: Observed, cycle: CycleResult) -> Json:
    """As `decision_json`: the same form, of what was observed."""
    return {
        "cycle": cycle.number,
        "time": round(cycle.time, 3),
        "kind": seen.kind,
        "pod": seen.pod,
        "node": seen.node,
        "job": seen.job,
        "beneficiary": _named(session, seen),
        "why": seen.why,
    }


def _named(session: Session, seen: Observed) -> str:
    """The job that an eviction says it was for; "" where it names none that is there."""
    words = (word.strip(",:;.()") for word in seen.why.split())
    return next((word for word in words if word != seen.job and word in session.snapshot.jobs.index), "")
