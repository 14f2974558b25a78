"""Markdown: the pieces that made pages share, and commands in hand-written pages that are kept true.

In a block that is marked `console`, a line `$ muster ...` or `$ cat FILE` is run in the root of the repository,
and the lines below it are replaced by its output; `| head -N` keeps the first lines, `| tail -N` the last ones. Other
commands, and what stands below them, are left as they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from muster.cli.main import run
from muster.cli.screen import SHAPING

GENERATED = "<!-- Made by `python -m muster.docs`; edit the code that it describes. -->"


def page(title: str, *blocks: str) -> str:
    """Return a page: the title, then its blocks with empty lines between them."""
    return "\n\n".join([f"# {title}", GENERATED, *(block for block in blocks if block)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [_row(header), "|" + "---|" * len(header), *(_row(row) for row in rows)]
    return "\n".join(lines)


def code(text: str, language: str = "") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def _row(cells: Sequence[str]) -> str:
    # A bar would end the cell, a line break the row.
    shown = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(shown)} |"


_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"(?P<command>.*?)\s*\|\s*(?P<end>head|tail) -(?P<n>\d+)$")


def has_commands(text: str) -> bool:
    """Whether a page has blocks to keep true."""
    return _BLOCK.search(text) is not None


def refreshed(text: str, root: Path) -> str:
    """Return a page with the output of its commands as it is now."""
    with contextlib.chdir(root), _plain_environment():
        return _BLOCK.sub(lambda block: _run_block(block[0]), text)


def _run_block(block: str) -> str:
    lines: list[str] = []
    skipping = False
    for line in block.splitlines():
        if line.startswith("$ "):
            output = _output_of(line[2:])
            skipping = output is not None
            lines += [line, *(output or ())]
        elif not skipping:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _output_of(command: str) -> list[str] | None:
    """Run a command and return its lines; None for commands that are not ours."""
    part = _PART.fullmatch(command)
    words = shlex.split(part["command"] if part else command)
    if words[0] == "cat":
        lines = Path(words[1]).read_text(encoding="utf-8").splitlines()
    elif words[0] == "muster":
        lines = _muster(words[1:])
    else:
        return None
    kept = [line.rstrip() for line in lines]
    if part is None or len(kept) <= int(part["n"]):
        return kept
    n = int(part["n"])
    return [*kept[:n], "..."] if part["end"] == "head" else ["...", *kept[-n:]]


def _muster(arguments: list[str]) -> list[str]:
    """Run one of our commands; what it says on either stream is what a reader would see."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        run(arguments)
    return output.getvalue().splitlines()


@contextlib.contextmanager
def _plain_environment() -> Iterator[None]:
    """Leave out what the reader's terminal would add."""
    before = {name: os.environ.pop(name) for name in SHAPING if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
