from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from muster.cli.services import stop_on_signals


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_even_while_the_main_thread_holds_what_stopping_needs(number: signal.Signals) -> None:
    lock, stopped = threading.Lock(), threading.Event()

    def stop() -> None:
        if lock.acquire(timeout=5):
            stopped.set()

    stop_on_signals(stop)
    with lock:
        signal.raise_signal(number)
    assert stopped.wait(5)
