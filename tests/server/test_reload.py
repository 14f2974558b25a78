from __future__ import annotations

from pathlib import Path

import pytest

from muster.api import UserError
from muster.framework import SchedulerConfig
from muster.server import Service, ServiceOptions
from muster.server.reload import ConfigFile
from tests.server.test_service import Unreachable

GOOD = """\
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
"""
DEEP = "actions: allocate\ntiers: " + "[" * 3000 + "]" * 3000 + "\n"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Reloading:
    """A file that somebody changes, and a reader that looks until it has settled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_text(GOOD)
        self.clock = Clock()
        self.file = ConfigFile(str(path), self.clock)

    def look(self) -> SchedulerConfig | UserError | None:
        self.clock.now += 0.6
        try:
            return self.file.changed()
        except UserError as fault:
            return fault

    def settle(self, text: str) -> SchedulerConfig | UserError | None:
        self.path.write_text(text)
        assert self.look() is None
        assert self.look() is None
        return self.look()


@pytest.fixture
def reloading(tmp_path: Path) -> Reloading:
    return Reloading(tmp_path / "scheduler.yaml")


def test_a_changed_file_is_taken_once_it_has_settled(reloading: Reloading) -> None:
    found = reloading.settle(GOOD.replace("allocate, backfill", "allocate"))
    assert isinstance(found, SchedulerConfig)
    assert found.actions == ("allocate",)
    assert reloading.look() is None


def test_a_file_that_is_still_written_is_not_looked_at(reloading: Reloading) -> None:
    for cut in range(10, len(GOOD), 10):
        reloading.path.write_text("# new\n" + GOOD[:cut])
        assert reloading.look() is None


@pytest.mark.parametrize("cut", range(len(GOOD)))
def test_a_truncated_file_is_never_taken(reloading: Reloading, cut: int) -> None:
    assert isinstance(reloading.settle(GOOD[:cut]), UserError)
    assert isinstance(reloading.settle(GOOD), SchedulerConfig), "the whole text is fine again"


@pytest.mark.parametrize("cut", [len(GOOD) - 3, len(GOOD) + 20])
def test_a_truncated_new_text_is_not_taken_either(reloading: Reloading, cut: int) -> None:
    text = "# other\n" + GOOD + "  - name: nodeorder\n"
    found = reloading.settle(text[:cut])
    assert isinstance(found, UserError)
    assert "cut off" in str(found)


@pytest.mark.parametrize(
    "text",
    [GOOD + "  - name: nodeorder\n    arguments: {a: 2026-99-99}\n", GOOD + "x: 2026-99-99\n", DEEP],
    ids=["date-in-arguments", "date-in-unknown-field", "deep"],
)
def test_odd_texts_are_refused_and_the_service_goes_on(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(GOOD)
    service = Service(Unreachable(), ServiceOptions(config=str(path)))
    clock = Clock()
    service._file = ConfigFile(str(path), clock)
    before = service.scheduler.config
    path.write_text(text)
    for _ in range(3):
        clock.now += 1.0
        service.turn()
    assert service.scheduler.config == before
    assert 'muster_config_reloads_total{result="failed"} 1' in service.metrics.text()
    assert "config-refused" in caplog.text


def test_whatever_a_reader_raises_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(GOOD)
    service = Service(Unreachable(), ServiceOptions(config=str(path)))

    def explode(_: ConfigFile) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(ConfigFile, "changed", explode)
    service.turn()
    assert "RecursionError: too deep" in caplog.text
