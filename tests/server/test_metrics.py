from __future__ import annotations

from pathlib import Path

from muster.server.metrics import Metrics

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "install.md"


def lines(metrics: Metrics) -> list[str]:
    return metrics.text().splitlines()


def test_what_the_api_server_refused_is_counted_by_kind_from_zero() -> None:
    metrics = Metrics()
    assert 'muster_api_refusals_total{kind="bind"} 0' in lines(metrics)
    metrics.record_refusals({"bind": 3, "status": 1})
    assert 'muster_api_refusals_total{kind="bind"} 3' in lines(metrics)
    assert 'muster_api_refusals_total{kind="status"} 1' in lines(metrics)
    assert 'muster_api_refusals_total{kind="evict"} 0' in lines(metrics)


def test_every_metric_is_documented() -> None:
    metrics = Metrics()
    metrics.record_leadership(is_leader=True)
    names = {line.split()[2] for line in lines(metrics) if line.startswith("# TYPE ")}
    names |= {"muster_pods", "muster_nodes", "muster_jobs"}  # there after the first cycle
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"`{name}" not in page] == []
