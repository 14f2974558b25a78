"""The schedulers that are measured, each a process of its own, started as users start them."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import yaml

from muster.testing.control_plane import ControlPlane, Part, free_ports, is_ready
from muster.testing.real_parts import find

_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 120.0


def _compiled(plane: ControlPlane) -> dict[str, str]:
    """Modules are compiled once for a control plane and kept, as an installation has them, whatever the shell says."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(plane.work / "bytecode")}


class Usage(NamedTuple):
    """What a process has taken so far."""

    cpu_s: float
    peak_mib: float


def usage(process: int) -> Usage:
    """CPU time and peak memory of a process since its start."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    status = Path(f"/proc/{process}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return Usage(cpu, int(peak.split()[1]) / 1024)


class Program(Part):
    """A scheduler."""

    def usage(self) -> Usage:
        """CPU time and peak memory since the start."""
        return usage(self.pid)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds while it runs."""
        until = time.monotonic() + _START_SECONDS
        while not holds():
            self.check()
            if time.monotonic() > until:
                raise RuntimeError(f"{self.name} was not ready in {_START_SECONDS:.0f} s; see {self.log}")
            await asyncio.sleep(0.02)


@asynccontextmanager
async def muster(
    plane: ControlPlane, config: str = "", *, wait: bool = True, options: Sequence[str] = ()
) -> AsyncIterator[Program]:
    """`muster run` with leader election, once it leads unless told otherwise; it gives up its lease at the end."""
    command = [sys.executable, "-m", "muster", "run", "--kubeconfig", str(plane.kubeconfig)]
    command += ["--lease-namespace", "default", "--listen", "127.0.0.1:0", *options]
    if config:
        path = plane.work / "scheduler.yaml"
        path.write_text(config)
        command += ["--config", str(path)]
    log = plane.work / f"muster-{time.monotonic_ns()}.log"
    program = Program("muster", command, log, _compiled(plane))
    program.start()
    try:
        if wait:
            await program.until(lambda: {"ready", "lease-taken"} <= _events(program.log))
        yield program
    finally:
        program.stop()


def _events(log: Path) -> set[str]:
    return set(re.findall(r"event=([\w-]+)", log.read_text(errors="replace")))


@asynccontextmanager
async def webhooks(plane: ControlPlane) -> AsyncIterator[tuple[Program, str]]:
    """`muster webhooks serve`, ready, and its address; it shows the API server's certificate."""
    (port,) = free_ports(1)
    certificates = plane.work / "certificates"
    command = [
        sys.executable,
        "-m",
        "muster",
        "webhooks",
        "serve",
        "--kubeconfig",
        str(plane.kubeconfig),
        "--drain",
        "0",
    ]
    command += ["--cert", str(certificates / "apiserver.crt"), "--key", str(certificates / "apiserver.key")]
    program = Program("webhooks", [*command, "--listen", f"127.0.0.1:{port}"], plane.work / "webhooks.log")
    program.start()
    try:
        await program.until(lambda: is_ready(f"https://127.0.0.1:{port}"))
        yield program, f"https://127.0.0.1:{port}"
    finally:
        program.stop()


@asynccontextmanager
async def kube_scheduler(plane: ControlPlane) -> AsyncIterator[Program]:
    """kube-scheduler, ready, without limits on its rate of requests."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 5000, "burst": 5000},
    }
    path = plane.work / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(document))
    (port,) = free_ports(1)
    flags = [f"--config={path}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    command = [str(find(["kube-scheduler"]) / "kube-scheduler"), *flags]
    program = Program("kube-scheduler", command, plane.work / "kube-scheduler.log")
    program.start()
    try:
        await program.until(lambda: is_ready(f"https://127.0.0.1:{port}"))
        yield program
    finally:
        program.stop()
