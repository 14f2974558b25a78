from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from muster.framework import default_config, parse_config
from muster.scheduler import builtin_registry
from muster.server.service import settle_memory, warm_up


@pytest.fixture
def _restored() -> Iterator[None]:
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def test_warming_up_works_with_the_default_configuration(caplog: pytest.LogCaptureFixture) -> None:
    warm_up(default_config(), builtin_registry())
    assert caplog.records == []


def test_a_configuration_that_cannot_run_does_not_stop_the_start(caplog: pytest.LogCaptureFixture) -> None:
    warm_up(parse_config('actions: "no-such-action"\ntiers: []\n', "test"), builtin_registry())
    assert "event=warm-up-failed" in caplog.text


@pytest.mark.usefixtures("_restored")
def test_what_lives_on_is_not_looked_at_again() -> None:
    settle_memory()
    assert gc.get_freeze_count() > 10_000
