"""The picture in the README: the beginning of `muster demo`, as a terminal would show it."""

from __future__ import annotations

import io

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from muster.cli.demo.story import tell_beginning

_WIDTH = 100
_THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (13, 17, 23),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    [
        (110, 118, 129),
        (255, 161, 152),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (240, 246, 252),
    ],
)
# No fonts from elsewhere: a picture in a repository should not call home.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="muster demo">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<g transform="translate({terminal_x}, 24)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def demo_picture() -> str:
    """Return the picture as SVG."""
    console = Console(
        record=True,
        width=_WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    tell_beginning(console)
    text = console.export_svg(theme=_THEME, code_format=_FORMAT, unique_id="demo")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
