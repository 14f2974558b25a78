"""Texts taken apart into the documents and items that they hold, without reading them: what can be read one by one.

Only texts in the form in which kubectl and most tools write them are taken apart; `NotPlainError` says that a text has
to be read as a whole. In YAML documents are separated by lines of three dashes, and the items of a list begin with a
dash at the beginning of a line. In JSON there is one list, or one document on each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Raw

from muster.api.reading.quick import items_of

_ITEMS: Final = "items:\n"
#: The lines of the items of a list, which begin with a dash or are indented.
_ITEM_LINES: Final = re.compile(r"(?:(?:- |  )[^\n]*(?:\n|\Z)|\n)*+")
#: Empty lines and comments before a document begins.
_LEAD: Final = re.compile(r"(?:[ ]*(?:#[^\n]*)?(?:\n|\Z))*+")
_FIRST: Final = "apiVersion:"


class NotPlainError(Exception):
    """The text is not in a form that can be taken apart."""


class Piece(NamedTuple):
    """A document, or an item of one; documents, items and lines count from one."""

    text: str | bytes | Raw
    document: int
    line: int
    item: int | None = None
    #: What stands around the items of the list that this is one of; `text` then is that of an item.
    around: str | bytes = ""


class Section(NamedTuple):
    """A part of a text that is a stream of documents of its own, and how many lines come before it."""

    text: str
    lines_before: int


def outputs_of(text: str) -> list[Section]:
    """Several outputs of kubectl that were written one behind the other, apart; any other text as it is.

    Where a document that begins with its apiVersion has another one, a second document has begun.
    """
    cuts: list[int] = []
    begin, at = 0, text.find(f"\n{_FIRST}") + 1
    while at:
        marker = text.rfind("\n---", begin, at - 1) + 1
        if marker or text.startswith("---", begin):
            begin = text.find("\n", marker or begin) + 1
        lead = _LEAD.match(text, begin, at)
        first = at if lead is None else lead.end()
        if first < at and text.startswith(_FIRST, first):
            cuts.append(at)
            begin = at
        at = text.find(f"\n{_FIRST}", at) + 1
    edges = [0, *cuts, len(text)]
    lines = 0
    sections = []
    for start, end in pairwise(edges):
        sections.append(Section(text[start:end], lines))
        lines += text.count("\n", start, end)
    return sections


def yaml_pieces(text: str) -> Iterator[Piece]:
    """Yield the documents of a YAML text, lists item by item. Raises NotPlainError."""
    if text.startswith(("%", "...")) or "\n%" in text or "\n..." in text or "\r" in text or "\t" in text:
        raise NotPlainError
    number, line, counted = 0, 1, 0
    for start, end in _documents(text):
        lead = _LEAD.match(text, start, end)
        begin = start if lead is None else lead.end()
        is_first = start == 0 and not text.startswith("---")
        if begin >= end and is_first:
            continue
        number += 1
        if begin >= end:
            continue
        line, counted = line + text.count("\n", counted, begin), begin
        yield from _items(Piece(text[begin:end], number, line))


def _documents(text: str) -> Iterator[tuple[int, int]]:
    """Where documents begin and end: at lines of three dashes."""
    start, marker = 0, 0
    if not text.startswith("---"):
        marker = text.find("\n---") + 1 or len(text)
    while True:
        if marker:
            yield start, marker
        if marker == len(text):
            return
        behind = text.find("\n", marker) + 1 or len(text)
        if text[marker:behind].rstrip(" \n") != "---":
            raise NotPlainError
        start, marker = behind, text.find("\n---", behind - 1) + 1 or len(text)


def _items(document: Piece) -> Iterator[Piece]:
    text = document.text
    assert isinstance(text, str)
    at = 0 if text.startswith(f"{_ITEMS}- ") else text.find(f"\n{_ITEMS}- ") + 1
    if not text.startswith(f"{_ITEMS}- ", at):
        yield document
        return
    start = at + len(_ITEMS)
    lines = _ITEM_LINES.match(text, start)
    end = len(text) if lines is None else lines.end()
    around = f"{text[:at]}items: []\n{text[end:]}"
    item, number = start, 1
    while item < end:
        following = text.find("\n- ", item, end)
        until = end if following < 0 else following + 1
        yield document._replace(text=f"  {text[item + 2 : until]}", item=number, around=around)
        item, number = until, number + 1


def json_pieces(text: bytes) -> Iterator[Piece]:
    """Yield the items of the one list of a JSON text, or the documents of its lines. Raises NotPlainError."""
    found = items_of(text)
    if found is not None:
        items, around = found
        line = text[: len(text) - len(text.lstrip())].count(b"\n") + 1
        for number, item in enumerate(items, start=1):
            yield Piece(item, 1, line, number, around)
        return
    number = 0
    for line, padded in enumerate(text.split(b"\n"), start=1):
        row = padded.strip()
        if row:
            if not (row.startswith(b"{") and row.endswith(b"}")):
                raise NotPlainError
            number += 1
            yield Piece(row, number, line)
