from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from muster.server import Service, ServiceOptions
from muster.snapshot.messages import Event, Failure


class Unreachable:
    """A cluster that does not answer."""

    def __init__(self) -> None:
        self.is_starting = threading.Event()
        self._stopped = threading.Event()
        self.n_polls = 0
        self.n_stood_down = 0

    def begin(self) -> None:
        pass

    def start(self, *, take: Callable[[list[Event]], None]) -> None:
        del take
        self.is_starting.set()
        assert self._stopped.wait(20), "nobody stopped it"

    def stop(self) -> None:
        self._stopped.set()

    def wake(self) -> None:
        pass

    def check(self) -> None:
        pass

    def wait(self, timeout_s: float) -> bool:
        return False

    def is_leader(self) -> bool:
        return True

    def stand_down(self, seconds: float) -> None:
        self.n_stood_down += 1

    def trouble(self, limit_s: float) -> str:
        return ""

    def ask(self, path: str, body: bytes) -> bytes:
        raise AssertionError(path)

    def is_busy(self) -> bool:
        return False

    def refusals(self) -> dict[str, int]:
        return {}

    def time_requests(self, observe: Callable[[str, float], None]) -> None:
        pass

    def shard_nodes(self) -> frozenset[str] | None:
        return None

    def now(self) -> float:
        return 0.0

    def poll(self) -> list[Event]:
        self.n_polls += 1
        return []

    def _refuse(self, decisions: Sequence[object]) -> list[Failure]:
        raise AssertionError(decisions)

    def update_quarantine(self, updates: Sequence[object]) -> None:
        raise AssertionError(updates)

    bind = evict = nominate = ungate = update_jobs = update_queues = update_hypernodes = _refuse


def test_a_service_that_waits_for_its_cluster_can_be_stopped() -> None:
    cluster = Unreachable()
    service = Service(cluster, ServiceOptions())
    serving = threading.Thread(target=service.run)
    serving.start()
    assert cluster.is_starting.wait(30)
    service.stop()
    serving.join(10)
    assert not serving.is_alive()
    assert cluster.n_polls == 0
