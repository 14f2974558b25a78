"""Reading of recorded cases: which files hold them, and what kind of case each one is.

Called by the command line and by tests. A file is a JSON list of cases, plain or gzipped; folders are searched
for both. Four kinds are told apart by their fields, never by file name, so that cases may lie anywhere.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.api import UserError

#: One object of a case file, as JSON gives it.
Body = dict[str, Any]

VOLCANO = "volcano"
KAI = "kai"

_SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded case."""

    id: str
    #: Path of its file, relative to the folder that was searched.
    file: str
    #: The scheduler that it was recorded from.
    system: str
    #: One function with input and output; otherwise a whole cluster.
    is_function: bool
    tags: frozenset[str]
    body: Body = field(repr=False)

    @property
    def is_random(self) -> bool:
        return self.body.get("package") == "random" or "random" in self.tags


def find_files(place: Path) -> list[Path]:
    """Return the case files at or below `place`, sorted."""
    if not place.exists():
        raise UserError(f"{place}: no such file or folder; name a folder with *.json or *.json.gz cases")
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*") if path.is_file() and path.name.endswith(_SUFFIXES))


def read_cases(place: Path, only: str = "") -> Iterator[Case]:
    """Yield the cases at or below `place` whose id contains `only`, file by file."""
    root = place if place.is_dir() else place.parent
    for path in find_files(place):
        name = path.relative_to(root).as_posix()
        for number, body in enumerate(_read_list(path), start=1):
            case = _case(body, name, f"{path}: case {number}")
            if only in case.id:
                yield case


def _read_list(path: Path) -> list[object]:
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.name.endswith(".gz") else raw
        found = json.loads(text)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise UserError(f"{path}: expected a gzip file, got something else: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: expected a JSON list of cases: {error}") from error
    if not isinstance(found, list):
        raise UserError(f"{path}: expected a JSON list of cases, got {type(found).__name__}")
    return found


def _case(body: object, file: str, place: str) -> Case:
    if not isinstance(body, dict) or not isinstance(body.get("id"), str):
        raise UserError(f'{place}: expected an object with a text "id"')
    tags = body.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise UserError(f"{place}: tags: expected a list of text")
    system, is_function = _kind(body, place)
    return Case(body["id"], file, system, is_function, frozenset(tags), body)


def _kind(body: Body, place: str) -> tuple[str, bool]:
    """Tell by the fields which system a case is from, and whether it is a function case."""
    if "function" in body:
        if "output" in body or "steps" in body:
            return KAI, True
        if isinstance(body.get("expect"), dict):
            return VOLCANO, True
    elif isinstance(body.get("config"), dict) and isinstance(body.get("objects"), dict):
        if isinstance(body.get("expect"), dict):
            return VOLCANO, False
    elif "jobs" in body and "nodes" in body and "expect" in body:
        return KAI, False
    raise UserError(
        f"{place} ({body['id']}): expected config, objects and expect; function, input and expect or output; "
        "or nodes, jobs and expect"
    )
