"""The dashboard as a part of `muster run`: alone in this process, or beside a scheduler in a process of its own.

Beside others it gets an interpreter, watches and memory of its own and gives way to them on the processor: nothing that
a browser asks for can hold up a cycle. It is started again when it ends, and ends when the process that began it does.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from muster.cli.dashboard.sources import address_of
from muster.cli.services import logging_to_stderr
from muster.cluster.kubernetes.client.shards import WHOLE_CLUSTER, Shard
from muster.ui.live import LiveFeed
from muster.ui.runs import Runs
from muster.ui.serve import ServeOptions, serve

log = logging.getLogger("muster.ui")

#: What Linux shares the processor between before niceness counts: sessions, but for those of containers.
AUTOGROUP: Final = Path("/proc/self/autogroup")
_TASKS: Final = Path("/proc/self/task")
#: Where cores are short a dashboard gets a thirtieth of what a session gets that is not nice: 10 would be felt (five
#: percent on two cores), and with 19 its page is a minute late where others keep all cores busy.
NICENESS: Final = 15
#: Seconds until one that has ended is started again.
_AGAIN_S: Final = 5.0
#: Seconds that it has to end its streams.
_GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What the dashboard of a cluster needs; other processes get it as it is."""

    kubeconfig: Path | None = None
    context: str | None = None
    config: str | None = None
    scheduler_names: tuple[str, ...] = ()
    shard: Shard = WHOLE_CLUSTER
    #: Where leases are, for those who may not look everywhere.
    namespace: str = ""
    listen: str = "127.0.0.1:8330"
    cert: Path | None = None
    key: Path | None = None


def serve_dashboard(dashboard: Dashboard) -> None:
    """Serve until SIGTERM or SIGINT. Raises UserError."""
    with logging_to_stderr():
        # What the next cycle would do is on the page; in the log it would look as if it were done.
        logging.getLogger("muster").setLevel(logging.WARNING)
        log.setLevel(logging.INFO)
        _serve(dashboard)


def _serve(dashboard: Dashboard) -> None:
    feed = LiveFeed(
        dashboard.kubeconfig,
        dashboard.context,
        dashboard.scheduler_names,
        dashboard.config,
        # Whoever works on a NodeShard sees the whole cluster; the page shows it.
        shard=Shard(dashboard.shard.node_selector, dashboard.shard.node_pool),
        namespace=dashboard.namespace,
    )
    host, port = address_of(dashboard.listen, "--ui-listen")
    options = ServeOptions(host, port, ask=feed.ask, cert=dashboard.cert, key=dashboard.key)
    serve(feed, Runs(), options, lambda address: log.info("event=dashboard address=%s", address))


def give_way(niceness: int = NICENESS) -> None:
    """Give way on the processor: altogether to others of our group, as the niceness says to other sessions.

    Niceness and policy count within a session only where sessions have groups of their own: beside an API server of the
    same machine a dashboard in the scheduler's session would count in full.
    """
    if os.access(AUTOGROUP, os.W_OK):
        with contextlib.suppress(OSError):
            if os.getsid(0) != os.getpid():
                os.setsid()  # or it would be the scheduler's group that gives way
            AUTOGROUP.write_text(f"{niceness}\n")
    done: set[int] = set()
    while new := _threads() - done:  # those of a thread that was not looked at yet are as it was
        for thread in new:
            with contextlib.suppress(OSError):  # it has ended
                # Whoever began us may have been nice already.
                os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))
                if sys.platform == "linux":
                    os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        done |= new


def _threads() -> set[int]:
    """The threads that niceness is said of; 0: the process, where threads have none of their own."""
    return {int(each.name) for each in _TASKS.iterdir()} if _TASKS.is_dir() else {0}


def _serve_beside(dashboard: Dashboard) -> None:
    """What the process of its own does."""
    give_way()
    parent = multiprocessing.parent_process()
    assert parent is not None  # we were started by one

    def end_with_it() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_it, name="muster-parent", daemon=True).start()
    serve_dashboard(dashboard)


class DashboardService:
    """The process, as other parts of `muster run` see it."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._stopping = threading.Event()
        self._process: BaseProcess | None = None
        self._thread = threading.Thread(target=self._watch, name="muster-ui", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End it, and wait until it has."""
        self._stopping.set()
        process = self._process
        if process is not None and process.is_alive():
            process.terminate()
            process.join(_GRACE_S)
            if process.is_alive():
                process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def trouble(self) -> str:
        """A dashboard that is away is no reason to end what schedules."""
        return ""

    def unready(self) -> str:
        """The same."""
        return ""

    def _watch(self) -> None:
        # A fork would share locks, threads and connections of the scheduler.
        context = multiprocessing.get_context("spawn")
        while not self._stopping.is_set():
            process = context.Process(target=_serve_beside, args=(self._dashboard,), name="muster-ui", daemon=True)
            process.start()
            self._process = process
            if self._stopping.is_set():  # it may have looked before there was a process
                process.terminate()
            process.join()
            if self._stopping.wait(_AGAIN_S):
                return
            log.error("event=dashboard-ended code=%s", process.exitcode)
