"""Changes as people write them, on a command line or in a form: `8xgpu-1`, `research.quota=40`, `train=high`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import Node, UserError, load_files
from muster.framework import find_config
from muster.scheduler import builtin_registry
from muster.whatif.changes import AddNodes, Change, Delete, Drain, SetPriority, Submit, UseConfig
from muster.whatif.queues import parse_queue_change

_MANY: Final = re.compile(r"([0-9]{1,6})[x×](.+)")
_FILES: Final = (".yaml", ".yml", ".json")
#: More nodes than this are a slip of the finger.
_MAX_NODES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Flag:
    """A change, and the flag that asked for it, for errors."""

    flag: str
    change: Change


def read_flags(given: Iterable[tuple[str, str]]) -> list[Flag]:
    """Read pairs of a flag (such as --drain) and its value, in order. Raises UserError that names the flag."""
    flags: list[Flag] = []
    for name, value in given:
        label = f"{name} {value}"
        try:
            flags += [Flag(label, change) for change in READERS[name](value)]
        except UserError as error:
            raise flagged(label, error) from None
    return flags


def flagged(label: str, error: UserError) -> UserError:
    """The error with the flag that it is about."""
    return UserError(f"{label}: {error}")


def _nodes(text: str) -> Iterator[Change]:
    match = _MANY.fullmatch(text)
    count, like = (int(match[1]), match[2]) if match else (1, text)
    if not 0 < count <= _MAX_NODES or not like:
        raise UserError(
            "expected so many nodes like one that is there, such as 8xgpu-1, or like those of a file, 8xnode.yaml"
        )
    if not like.endswith(_FILES):
        yield AddNodes(count, like)
        return
    nodes = [thing for thing in load_files([like]).objects if isinstance(thing, Node)]
    if not nodes:
        raise UserError("expected a file with a Node, got none")
    yield from (AddNodes(count, node) for node in nodes)


def _submit(text: str) -> Iterator[Change]:
    objects = tuple(load_files([text]).objects)
    if not objects:
        raise UserError("expected a file with a job, got no object at all")
    yield Submit(objects, text)


def _priority(text: str) -> Iterator[Change]:
    job, equals, priority = text.rpartition("=")
    if not equals or not job or not priority:
        raise UserError("expected JOB=CLASS or JOB=NUMBER, such as train=high or train=1000")
    yield SetPriority(job, priority)


def _config(text: str) -> Iterator[Change]:
    config = find_config(text)
    builtin_registry().check(config, text)
    yield UseConfig(config, Path(text).name)


#: What reads the value of each flag.
READERS: Final[dict[str, Callable[[str], Iterator[Change]]]] = {
    "--add-nodes": _nodes,
    "--drain": lambda text: iter([Drain(text)]),
    "--submit": _submit,
    "--delete": lambda text: iter([Delete(text)]),
    "--queue": lambda text: iter([parse_queue_change(text)]),
    "--priority": _priority,
    "--config": _config,
}
