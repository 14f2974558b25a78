"""The table of docs/performance.md, made from results: `python -m benchmarks --docs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def write_page(results: list[dict[str, Any]]) -> None:
    """Replace the table on the page."""
    write_section("table", table(results))


def write_section(name: str, made: str) -> None:
    """Replace what stands between two marks on the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = PAGE.read_text().split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(before + begin + "\n" + made + "\n" + end + after)


def table(results: list[dict[str, Any]]) -> str:
    """Results as a Markdown table, milliseconds."""
    lines = [
        "| case | work | goal | median | snapshot | session | actions | peak MiB | done |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        parts = result["parts"]
        figures = [result["goal_seconds"], result["seconds"], parts["snapshot"], parts["session"], parts["actions"]]
        done = ", ".join(f"{count:,} {what}" for what, count in result["done"].items() if count)
        cells = [
            result["case"],
            result["work"],
            *(_ms(figure) for figure in figures),
            f"{result['peak_mib']:.0f}",
            done,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    calibration = sorted(result["calibration_seconds"] for result in results)
    lines += ["", f"Calibration loop: {_ms(calibration[len(calibration) // 2])} ms (median over the cases)."]
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    if seconds == 0:
        return "–"
    return f"{1000 * seconds:.1f}" if seconds < 1 else f"{1000 * seconds:,.0f}"
