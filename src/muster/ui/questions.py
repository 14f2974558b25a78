"""What if: changes that a reader thinks of, asked of a copy of the cycle that is looked at. Nothing is changed.

A question is a list of changes, in the words of `muster whatif`; objects to submit come as text. Nothing of it names a
file: the server reads none for a reader. One question is answered at a time, since each is two runs of the scheduler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final, Protocol, runtime_checkable

import msgspec

from muster.api import UserError
from muster.api.reading.load import load_text
from muster.framework.profiles import PROFILES
from muster.ui.access import RefusedError
from muster.ui.history import Json
from muster.whatif import Change, Flag, Options, Picture, Submit, read_flags, what_if

MAX_BYTES: Final = 1 << 20
_MAX_CHANGES: Final = 50
_FILES: Final = (".yaml", ".yml", ".json", ".gz")
_FLAGS: Final = {
    "add-nodes": "--add-nodes",
    "drain": "--drain",
    "delete": "--delete",
    "queue": "--queue",
    "priority": "--priority",
    "config": "--config",
}


class ChangeText(msgspec.Struct, forbid_unknown_fields=True):
    """One change as written: its kind, and its value, or objects as YAML."""

    kind: str
    text: str


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """What a reader asks."""

    changes: list[ChangeText]
    #: The cycle from which to look ahead; None: the latest.
    at: int | None = None


_QUESTION: Final = msgspec.json.Decoder(Question)


@runtime_checkable
class Asked(Protocol):
    """A feed of which one can ask what if."""

    def picture(self, cycle: int) -> Picture:
        """The cluster after a cycle, loaded; nobody else uses it meanwhile. Raises MusterError."""
        ...


_turn = threading.Lock()


def read_question(body: bytes) -> Question:
    """Read what was sent. Raises UserError."""
    try:
        question = _QUESTION.decode(body)
    except msgspec.MsgspecError as fault:
        raise UserError(f'expected {{"changes": [{{"kind": "drain", "text": "gpu-1"}}]}}: {fault}') from None
    if not 0 < len(question.changes) <= _MAX_CHANGES:
        raise UserError(f"changes: expected 1 to {_MAX_CHANGES} changes, got {len(question.changes)}")
    return question


def answer(question: Question, picture: Callable[[], Picture], options: Options) -> Json:
    """What the changes would do, as `muster whatif --output json` says it. Raises UserError, RefusedError."""
    changes = [change for each in question.changes for change in _changes(each)]
    if not _turn.acquire(blocking=False):
        raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "another question is being answered; ask again in a moment")
    try:
        return what_if(picture(), changes, options).as_document()
    finally:
        _turn.release()


def _changes(given: ChangeText) -> Iterator[Change | Flag]:
    if given.kind == "submit":
        objects = tuple(load_text(given.text, "submitted").objects)
        if not objects:
            raise UserError("submit: expected a job as YAML, got no object at all")
        yield Submit(objects, "submitted")
        return
    flag = _FLAGS.get(given.kind)
    if flag is None:
        raise UserError(f'kind: expected one of {", ".join([*_FLAGS, "submit"])}, got "{given.kind}"')
    if given.kind == "config" and given.text not in PROFILES:
        raise UserError(f'config: expected a profile ({", ".join(PROFILES)}), got "{given.text}"')
    if given.kind == "add-nodes" and given.text.endswith(_FILES):
        raise UserError("add-nodes: expected so many nodes like one that is there, such as 8xgpu-1")
    yield from read_flags([(flag, given.text)])
