"""Results on a real API server as text: for the terminal and for docs/performance.md."""

from __future__ import annotations

from typing import Any

_SIZES = {"part_of_a_core": 3, "old_part_of_a_core": 3, "peak_mib": 0}


def table(results: list[dict[str, Any]]) -> str:
    """Results as a Markdown table."""
    lines = ["| case | work | goal | met | figures |", "|---|---|---|---|---|"]
    for result in results:
        met = "yes" if result["is_met"] else "no"
        cells = [result["case"], result["work"], result["goal"], met, figures(result, "<br>")]
        lines.append("| " + " | ".join(cells) + " |")
    calibration = sorted(result["calibration_seconds"] for result in results)
    middle = 1000 * calibration[len(calibration) // 2]
    lines += ["", f"{results[0]['cores']} cores. Calibration loop: {middle:.0f} ms (median over the cases)."]
    return "\n".join(lines)


def figures(result: dict[str, Any], between: str) -> str:
    """The figures of a case, each with its name."""
    known = result["figures"].items()
    return between.join(f"{name.replace('_', ' ')} {value:,.{_SIZES.get(name, 2)}f}" for name, value in known)
