"""The recording in the README: what a newcomer types in the first minutes, and what the screen shows, as a moving SVG.

Every scene is the real output of its command, run here and now. Scenes follow each other by CSS alone, without scripts
or anything from elsewhere, so that a picture in a page can show them; where nothing moves, the first one stands.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from muster.cli.demo.story import tell_beginning
from muster.cli.main import run
from muster.cli.screen import SHAPING

#: What is typed, and what it is good for. All but the first are commands of ours, run where the repository is.
SCENES: Final = (
    ("make demo", "a cluster, queues and gangs, decided and explained"),
    ("muster simulate examples/tutorial", "your own YAML: every decision, and how it ends"),
    ("muster explain evaluate examples/tutorial --cycles 1", "why a job waits, and what would let it start"),
    ("muster jobs examples/tutorial", "who is in line, and when it is expected to start"),
    ("muster queue show examples/fair-shares/now --config kai", "who holds what, and who borrows from whom"),
    ("muster topology show examples/network --run", "the network, with what is free"),
    ("muster explain crawl examples/urgent", "who was evicted, for whom, and why these pods"),
)
_WIDTH, _LINES = 100, 32
_CHARACTER, _LINE, _MARGIN = 12.2, 24.4, 20
_TYPED_S, _READ_S, _PER_LINE_S = 1.4, 3.0, 0.2
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
_BREAK: Final = "\n<!-- -->\n"


@dataclass(frozen=True, slots=True)
class _Scene:
    """A command with its output, and when it is on screen, in seconds."""

    number: int
    command: str
    caption: str
    styles: str
    output: str
    n_lines: int
    start: float

    @property
    def end(self) -> float:
        return self.start + _TYPED_S + _READ_S + _PER_LINE_S * self.n_lines


def recording() -> str:
    """Return the recording as SVG."""
    scenes: list[_Scene] = []
    for number, (command, caption) in enumerate(SCENES):
        text = _screen(command)
        styles, output = _drawn(text, number)
        start = scenes[-1].end if scenes else 0.0
        scenes.append(_Scene(number, command, caption, styles, output, text.count("\n") + 1, start))
    width, height = round(_WIDTH * _CHARACTER) + 2 * _MARGIN, round((_LINES + 3) * _LINE) + 2 * _MARGIN
    total = scenes[-1].end
    styles = "\n".join(line for scene in scenes for line in (scene.styles, *_moves(scene, total)))
    told = "; ".join(f"{command}: {caption}" for command, caption in SCENES)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title told">
<title id="title">The first minutes with Muster</title>
<desc id="told">{escape(told)}</desc>
<style>
text {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 20px; white-space: pre; }}
.scene {{ visibility: hidden; }}
#scene-0 {{ visibility: visible; }}
@media (prefers-reduced-motion: reduce) {{ * {{ animation: none !important; }} .cover {{ display: none; }} }}
{styles}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<g transform="translate({_MARGIN}, {_MARGIN})">
{"".join(map(_scene, scenes))}</g>
</svg>
"""


def _moves(scene: _Scene, total: float) -> Iterator[str]:
    """When a scene is on screen, its command is typed and its output appears; in parts of the whole."""
    start, typed, end = (f"{100 * at / total:.2f}%" for at in (scene.start, scene.start + _TYPED_S, scene.end))
    number, way = scene.number, round(len(scene.command) * _CHARACTER)
    before = "0% { visibility: hidden; } " if scene.number else ""
    steps = f"animation-timing-function: steps({len(scene.command)}); transform: translateX(0);"
    moves = {
        "show": f"{before}{start} {{ visibility: visible; }} {end}, 100% {{ visibility: hidden; }}",
        "tell": f"0% {{ opacity: 0; }} {typed}, 100% {{ opacity: 1; }}",
        "type": f"0%, {start} {{ {steps} }} {typed}, 100% {{ transform: translateX({way}px); }}",
    }
    yield from (f"@keyframes {name}-{number} {{ {frames} }}" for name, frames in moves.items())
    for what, each in (("#scene", "show"), ("#output", "tell")):
        yield f"{what}-{number} {{ animation: {each}-{number} {total:.1f}s step-end infinite; }}"
    yield f"#cover-{number} {{ animation: type-{number} {total:.1f}s infinite; }}"


def _scene(scene: _Scene) -> str:
    number, way = scene.number, round(len(scene.command) * _CHARACTER)
    bottom = round((_LINES + 2.6) * _LINE)
    return f"""\
<g class="scene" id="scene-{number}">
<text x="0" y="20" fill="#3fb950">$</text>
<text x="24.4" y="20" fill="#f0f6fc" textLength="{way}">{escape(scene.command)}</text>
<rect class="cover" id="cover-{number}" x="24" y="0" width="{way + 8}" height="{_LINE}" fill="#0d1117"/>
<g id="output-{number}" transform="translate(0, {1.5 * _LINE:.1f})">
{scene.output}
</g>
<text x="0" y="{bottom}" fill="#6e7681">{number + 1} of {len(SCENES)}: {escape(scene.caption)}</text>
</g>
"""


# -- what the screen shows ---------------------------------------------------------------------------------------


def _screen(command: str) -> str:
    """What a terminal shows after a command, with its colours, as far as there is room."""
    output = io.StringIO()
    with _terminal():
        if command == "make demo":
            tell_beginning(
                Console(file=output, width=_WIDTH, force_terminal=True, color_system="standard", highlight=False)
            )
        else:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                run(shlex.split(command)[1:])
    lines = output.getvalue().strip("\n").splitlines()
    return "\n".join(lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "..."])


def _drawn(text: str, number: int) -> tuple[str, str]:
    """The styles and the shapes of a screen."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(Text.from_ansi(text), soft_wrap=True)
    parts = ("styles", "backgrounds", "matrix")
    form = _BREAK.join(f"{{{part}}}" for part in parts)
    svg = console.export_svg(theme=_THEME, code_format=form, unique_id=f"s{number}")
    styles, backgrounds, matrix = svg.split(_BREAK)
    shapes = re.sub(r' clip-path="[^"]*"', "", f"{backgrounds}\n{matrix}")
    return styles, "\n".join(line.strip() for line in shapes.splitlines() if line.strip())


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Run as on a terminal of a fixed size with colours, in the root of the repository, whatever this one is."""
    wanted = {"COLUMNS": str(_WIDTH), "LINES": "60", "FORCE_COLOR": "1", "TERM": "xterm"}
    before: Mapping[str, str] = {name: os.environ.pop(name) for name in {*SHAPING, *wanted} if name in os.environ}
    os.environ.update(wanted)
    try:
        with contextlib.chdir(Path(__file__).resolve().parents[3]):
            yield
    finally:
        for name in wanted:
            os.environ.pop(name, None)
        os.environ.update(before)
