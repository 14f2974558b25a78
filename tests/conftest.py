"""What every test shares: where things are, and how hard hypothesis tries.

Profiles: `dev` while working, `ci` (more examples, the same ones in every run) when CI is set, `soak`
(many more, new ones each time) with MUSTER_SOAK=1. None has a deadline: the first call of a kernel
compiles it. Tests marked `soak` run only with MUSTER_SOAK=1.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SOAK = os.environ.get("MUSTER_SOAK") == "1"

# Building a cluster is slow next to drawing an integer; that is no fault of the strategy.
_SLOW_IS_FINE = [HealthCheck.too_slow]

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "ci",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile("soak", max_examples=5000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile("soak" if SOAK else "ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave `soak` tests out of ordinary runs, and say so in the count of deselected tests."""
    if SOAK:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The directory that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def shared_conformance(repo_root: Path) -> Path:
    """The recorded cases beside the repository; the directory may be absent, so ask `is_dir()` first."""
    return repo_root.parent / "shared" / "conformance"
