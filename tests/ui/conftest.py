"""Feeds that have come to their end, and clients of their dashboards."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from muster.api import load_files
from muster.cli.demo.story import NETWORK, OBJECTS, TIMELINE
from muster.cluster import load_timeline
from muster.framework import default_config
from muster.ui.app import Desk, make_app
from muster.ui.feeds import FileFeed, Label, Played

TRIALS = Path(__file__).parents[3] / "shared" / "trials"


def finished(label: str, played: Played) -> FileFeed:
    """A feed whose simulation has ended."""
    feed = FileFeed(Label("files", label, label), played)
    feed.begin()
    assert feed.wait(60), "the simulation did not end"
    assert feed.trouble == ""
    return feed


@pytest.fixture(scope="session")
def demo() -> FileFeed:
    return finished("demo", Played(load_files([OBJECTS]), default_config(), load_timeline(TIMELINE)))


@pytest.fixture(scope="session")
def network() -> FileFeed:
    return finished("network", Played(load_files([NETWORK]), default_config()))


@pytest.fixture
def client(demo: FileFeed) -> Iterator[TestClient]:
    with TestClient(make_app(Desk(demo)), base_url="http://127.0.0.1:8330") as made:
        yield made
