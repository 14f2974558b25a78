"""The backend's parts without a cluster; the package under test needs its client library all the same."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = ["test_*.py"] if find_spec("kubernetes_asyncio") is None else []
