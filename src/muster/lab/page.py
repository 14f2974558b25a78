"""One HTML page for one or several reports: works from a file, without any network, and its pictures can be zoomed.

The page is a template with the figures in it as JSON; a small script of our own draws them (`page.js`). Several runs
are drawn into the same pictures, side by side in the tables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from muster.api import BackendError
from muster.lab.report import Report

#: Rows of the table of figures: what, where it stands, and how it is written.
ROWS: Final = (
    ("jobs that ended", ("finished",), 0),
    ("wait, mean (s)", ("wait_s", "mean"), 0),
    ("wait, p50 (s)", ("wait_s", "p50"), 0),
    ("wait, p90 (s)", ("wait_s", "p90"), 0),
    ("wait, p99 (s)", ("wait_s", "p99"), 0),
    ("largest 1 %: wait, mean (s)", ("largest", "wait_s", "mean"), 0),
    ("largest 1 %: wait, p99 (s)", ("largest", "wait_s", "p99"), 0),
    ("completion, mean (s)", ("jct_s", "mean"), 0),
    ("slowdown, mean", ("slowdown", "mean"), 2),
    ("makespan (s)", ("makespan_s",), 0),
    ("utilisation", ("utilisation",), 3),
    ("fragmentation", ("fragmentation",), 3),
    ("GPU-hours done", ("gpu_s",), 0),
    ("GPU-hours lost", ("lost_gpu_s",), 0),
    ("pods evicted", ("evictions", "total"), 0),
    ("gangs broken", ("gangs_broken",), 0),
    ("fairness, Jain", ("fairness", "jain"), 3),
    ("nodes of gangs, over fewest", ("topology", "nodes"), 2),
    ("cycles", ("cycles",), 0),
)


#: What stands where there is no figure.
NOTHING: Final = "–"


def figure(report: Report, path: Sequence[str]) -> float | None:
    """A figure of a report by its keys; None: it has none. GPU-seconds are given in hours."""
    value: Any = report.figures
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return None
    return float(value) / 3600 if path[-1].endswith("gpu_s") else float(value)


def figure_text(value: float | None, digits: int) -> str:
    """A figure as tables show it."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def write_page(reports: Sequence[Report], path: Path) -> None:
    """Write the page. Raises BackendError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(reports), encoding="utf-8")
    except OSError as error:
        raise BackendError(f"cannot write {path}: {error.strerror}", retryable=False) from None


def page(reports: Sequence[Report]) -> str:
    """The page as text."""
    room = files("muster.lab")
    template = (room / "page.html").read_text(encoding="utf-8")
    script = (room / "page.js").read_text(encoding="utf-8")
    # What ends a script inside of JSON would end it in the page, too.
    data = json.dumps([report.to_json() for report in reports], ensure_ascii=False).replace("</", "<\\/")
    title = " · ".join(escape(report.name) for report in reports)
    return (
        template.replace("@TITLE@", title)
        .replace("@TABLE@", _table(reports))
        .replace("@STARVING@", _starving(reports))
        .replace("@SCRIPT@", script)
        .replace("@DATA@", data)
    )


def _table(reports: Sequence[Report]) -> str:
    head = "".join(f"<th>{escape(report.name)}</th>" for report in reports)
    rows = []
    for what, keys, digits in ROWS:
        cells = [figure_text(figure(report, keys), digits) for report in reports]
        if set(cells) != {NOTHING}:
            rows.append(f"<tr><th>{escape(what)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _starving(reports: Sequence[Report]) -> str:
    parts = []
    for report in reports:
        rows = "".join(
            f"<tr><th>{escape(one['job'])}</th><td>{escape(one['queue'])}</td><td>{escape(one['user'])}</td>"
            f"<td>{one['gpus']:g}</td><td>{one['wait_s']:,.0f}</td></tr>"
            for one in report.figures["starving"][:10]
        )
        parts.append(
            f"<div><h3>{escape(report.name)}</h3><table><tr><th>job</th><th>queue</th><th>user</th><th>GPUs</th>"
            f"<th>wait (s)</th></tr>{rows}</table></div>"
        )
    return f'<div class="beside">{"".join(parts)}</div>'
