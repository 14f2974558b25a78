"""`muster run` as a process of its own, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.testing.control_plane import ControlPlane, free_ports

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/muster"


class Process:
    """One replica."""

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        self.port = free_ports(1)[0]
        self.log = log
        command = [sys.executable, "-m", "muster", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--lease-namespace", "default", "--listen", f"127.0.0.1:{self.port}", *options]
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, stderr=out, stdout=out, env=os.environ)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            text: bytes = answer.read()
        return text.decode()

    def has_logged(self, text: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return text in self.log.read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)


@contextmanager
def replica(plane: ControlPlane, log: Path, *options: str) -> Iterator[Process]:
    """A replica that is ended at once when the block is left."""
    process = Process(plane.kubeconfig, log, *options)
    try:
        yield process
    finally:
        process.end(signal.SIGKILL)
