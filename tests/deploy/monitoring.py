"""The dashboard and the alert rules of the chart, made from the table of metrics: `make manifests` writes them.

Every metric of ours has a panel, drawn as its kind asks for: counters as rates, histograms as quantiles, gauges as they
are, of the replica that leads where others stand still. A few panels besides put two metrics in relation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from muster.server.metric_table import (
    ACTIONS,
    ALERTS,
    EVICTIONS,
    FAMILIES,
    GANGS,
    HEALTH,
    QUEUES,
    SERVER,
    Alert,
    Family,
)

Json = dict[str, Any]

#: Rows, from top to bottom.
ROWS = (GANGS, QUEUES, ACTIONS, EVICTIONS, SERVER, HEALTH)
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_JOB = 'job=~"$job"'
_OF_QUEUES = f'{_JOB}, queue=~"$queue", resource=~"$resource"'
_LEADS = f"and on (job, instance) muster_leader{{{_JOB}}} == 1"
_RATE = "$__rate_interval"
_WIDTH, _HEIGHT, _PER_LINE = 8, 8, 3


@dataclass(frozen=True)
class Panel:
    """One graph: queries with their legends."""

    row: str
    title: str
    text: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"


def _held(of: str) -> str:
    return f"sum by (queue, resource) (muster_queue_{of}{{{_OF_QUEUES}}} {_LEADS})"


_ACTION_SECONDS = f"sum by (action) (rate(muster_action_seconds_total{{{_JOB}}}[{_RATE}]))"
_CYCLES = f"sum (rate(muster_cycle_seconds_count{{{_JOB}}}[{_RATE}]))"
#: What no single metric says.
_RELATIONS = (
    Panel(
        GANGS,
        "Waiting, by reason",
        "Jobs with pods that wait, by the code of the reason. `muster explain JOB --cluster` says more.",
        ((f'sum by (reason) (muster_waiting_jobs{{{_JOB}, queue=~"$queue"}} {_LEADS})', "{{reason}}"),),
    ),
    Panel(
        GANGS,
        "Waiting, by queue",
        "Jobs with pods that wait.",
        ((f'sum by (queue) (muster_waiting_jobs{{{_JOB}, queue=~"$queue"}} {_LEADS})', "{{queue}}"),),
    ),
    Panel(
        QUEUES,
        "Use of the fair share",
        "What a queue holds, in parts of its fair share: above 1 it borrows, and others may take it back.",
        ((f"{_held('held')} / ({_held('fair_share')} > 0)", "{{queue}} {{resource}}"),),
        "percentunit",
    ),
    Panel(
        QUEUES,
        "Waiting",
        "What waiting pods of a queue, and of those below it, ask for: CPUs, bytes or devices.",
        ((f"{_held('asked')} - {_held('held')}", "{{queue}} {{resource}}"),),
    ),
    Panel(
        ACTIONS,
        "Seconds of a cycle, by action",
        "What a cycle spends in each action, on average.",
        ((f"{_ACTION_SECONDS} / ignoring (action) group_left {_CYCLES}", "{{action}}"),),
        "s",
    ),
    Panel(
        SERVER,
        "Requests",
        "Requests to the API server a second, watches left out.",
        ((f"sum by (method) (rate(muster_api_request_seconds_count{{{_JOB}}}[{_RATE}]))", "{{method}}"),),
        "reqps",
    ),
)


def panels() -> Iterator[Panel]:
    """All of them, row by row: what needs looking at first, then every metric of the row."""
    for row in ROWS:
        yield from (panel for panel in _RELATIONS if panel.row == row)
        yield from (_panel_of(family) for family in FAMILIES.values() if family.row == row)


def _panel_of(family: Family) -> Panel:
    legend = " ".join(f"{{{{{label}}}}}" for label in family.labels) or family.name.removeprefix("muster_")
    by = ", ".join(family.labels)
    total = f"sum by ({by})" if by else "sum"
    selector = _OF_QUEUES if family.row == QUEUES else _JOB
    if family.row == GANGS and "queue" in family.labels:
        selector = f'{_JOB}, queue=~"$queue"'
    queries: list[tuple[str, str]] = []
    match family.kind:
        case "counter":
            queries.append((f"{total} (rate({family.name}{{{selector}}}[{_RATE}]))", legend))
        case "gauge":
            leading = f" {_LEADS}" if family.of_leader else ""
            by_replica = total if family.of_leader else f"max by ({', '.join((*family.labels, 'instance'))})"
            name = legend if family.of_leader else f"{legend} {{{{instance}}}}"
            queries.append((f"{by_replica} ({family.name}{{{selector}}}{leading})", name))
        case "histogram":
            le = ", ".join(("le", *family.labels))
            name = f"{legend} " if family.labels else ""
            queries += [
                (
                    f"histogram_quantile({part}, sum by ({le}) (rate({family.name}_bucket{{{selector}}}[{_RATE}])))",
                    f"{name}{word}",
                )
                for part, word in (("0.5", "median"), ("0.99", "99 of 100"))
            ]
    return Panel(family.row, _title(family), family.text, tuple(queries), _unit(family))


def _title(family: Family) -> str:
    words = family.name.removeprefix("muster_").removeprefix("queue_").removesuffix("_total")
    text = words.replace("_", " ").replace("api ", "API ")
    return text[0].upper() + text[1:]


def _unit(family: Family) -> str:
    if family.kind == "counter" and family.unit == "s":
        return "percentunit"  # seconds in a second
    return {"s": "s", "": "ops" if family.kind == "counter" else "short"}[family.unit]


# -- as files --------------------------------------------------------------------------------------------------


def dashboard() -> str:
    """What Grafana imports."""
    shown: list[Json] = []
    bottom = 0
    for row in ROWS:
        mine = [panel for panel in panels() if panel.row == row]
        shown.append(_row(row, bottom, len(shown) + 1))
        bottom += 1
        for place, panel in enumerate(mine):
            x, y = place % _PER_LINE * _WIDTH, bottom + place // _PER_LINE * _HEIGHT
            shown.append(_graph(panel, x, y, len(shown) + 1))
        bottom += -(-len(mine) // _PER_LINE) * _HEIGHT
    about = {
        "uid": "muster",
        "title": "Muster",
        "description": "Queues, gangs, actions and the health of the scheduler.",
        "tags": ["muster", "kubernetes", "scheduling"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": shown,
    }
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def _variables() -> Iterator[Json]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    for name, metric in (("job", "muster_leader"), ("queue", "muster_queue_held"), ("resource", "muster_queue_held")):
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": f"label_values({metric}, {name})", "refId": name},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _row(title: str, y: int, number: int) -> Json:
    place = {"x": 0, "y": y, "w": _WIDTH * _PER_LINE, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _graph(panel: Panel, x: int, y: int, number: int) -> Json:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for place, (query, legend) in enumerate(panel.queries)
        ],
    }


def alert_rules() -> str:
    """What Prometheus loads, and what a PrometheusRule has in its spec."""
    rules = [_rule(alert) for alert in ALERTS]
    return yaml.safe_dump({"groups": [{"name": "muster", "rules": rules}]}, sort_keys=False, width=110)


def _rule(alert: Alert) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.when,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.remedy},
    }
