"""Tests of output see what a file would: no terminal, no width and no colours from the environment."""

import pytest

from muster.cli.screen import SHAPING


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SHAPING:
        monkeypatch.delenv(name, raising=False)
