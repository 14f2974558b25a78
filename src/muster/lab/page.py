"""One HTML page for one or several reports: works from a file, without any network, and its pictures can be zoomed.

The page is a template with the figures in it as JSON; a small script of our own draws them (`page.js`). Runs of one
group are drawn into the same pictures, side by side in the tables; groups, such as several traces, follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from muster.api import BackendError
from muster.lab.figures import FIGURES, NOTHING


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that are shown in the same pictures."""

    title: str
    #: Reports as `report.json` has them.
    reports: Sequence[Mapping[str, Any]]  # Any: JSON
    #: Rows of the table: what, and a cell for each report.
    rows: Sequence[tuple[str, Sequence[str]]]

    @classmethod
    def of(cls, title: str, reports: Sequence[Mapping[str, Any]]) -> Group:
        """A group with the figures of its reports as they are."""
        rows = [(figure.what, [figure.text(figure.of(report)) for report in reports]) for figure in FIGURES]
        return cls(title, reports, [(what, cells) for what, cells in rows if set(cells) != {NOTHING}])


def write_page(groups: Sequence[Group], path: Path) -> None:
    """Write the page. Raises BackendError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(groups), encoding="utf-8")
    except OSError as error:
        raise BackendError(f"cannot write {path}: {error.strerror}", retryable=False) from None


def page(groups: Sequence[Group]) -> str:
    """The page as text."""
    room = files("muster.lab")
    template = (room / "page.html").read_text(encoding="utf-8")
    script = (room / "page.js").read_text(encoding="utf-8")
    # What ends a script inside of JSON would end it in the page, too.
    data = json.dumps([list(group.reports) for group in groups], ensure_ascii=False).replace("</", "<\\/")
    names = dict.fromkeys(str(report["name"]) for group in groups for report in group.reports)
    parts = {
        "@HEADING@": "Replay" if len(names) == 1 else "Comparison",
        "@TITLE@": " · ".join(map(escape, names)),
        "@GROUPS@": "\n".join(_part(number, group) for number, group in enumerate(groups)),
        "@SCRIPT@": script,
        "@DATA@": data,
    }
    for mark, text in parts.items():
        template = template.replace(mark, text)
    return template


def _part(number: int, group: Group) -> str:
    return (
        f"<section>\n<h2>{escape(group.title)}</h2>\n{_table(group)}\n"
        f'<div class="pictures" id="pictures-{number}"></div>\n'
        f"<h3>Who waited longest?</h3>\n{_starving(group)}\n</section>"
    )


def _table(group: Group) -> str:
    head = "".join(f"<th>{escape(str(report['name']))}</th>" for report in group.reports)
    rows = (
        f"<tr><th>{escape(what)}</th>{''.join(f'<td{_mark(cell)}>{escape(cell)}</td>' for cell in cells)}</tr>"
        for what, cells in group.rows
    )
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _mark(cell: str) -> str:
    """How a cell with a verdict is shown."""
    verdict = cell.rpartition(" ")[2]
    return f' class="{verdict}"' if verdict in ("better", "worse") else ""


def _starving(group: Group) -> str:
    parts = []
    for report in group.reports:
        rows = "".join(
            f"<tr><th>{escape(one['job'])}</th><td>{escape(one['queue'])}</td><td>{escape(one['user'])}</td>"
            f"<td>{one['gpus']:g}</td><td>{one['wait_s']:,.0f}</td></tr>"
            for one in report["starving"][:10]
        )
        parts.append(
            f"<div><h4>{escape(str(report['name']))}</h4><table><tr><th>job</th><th>queue</th><th>user</th><th>GPUs</th>"
            f"<th>wait (s)</th></tr>{rows}</table></div>"
        )
    return f'<div class="beside">{"".join(parts)}</div>'
