"""What is asked of a copy of the cycle that is looked at: what if, and what would let a job start. Nothing is changed.

A question is a list of changes, in the words of `muster whatif`; objects to submit come as text. Nothing of it names a
file: the server reads none for a reader. Remedies are tried as `muster explain` tries them. One question is answered at
a time, since each is several runs of the scheduler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, Protocol, runtime_checkable

import msgspec

from muster.api import UserError, format_amount
from muster.api.reading.load import load_text
from muster.explain import explain_job, explanation_lines, find_job
from muster.explain.remedies import BoundRises, JobsEnd, NodesCome, Remedy, Together, Trial
from muster.framework.profiles import PROFILES
from muster.simulate import Run
from muster.ui.access import RefusedError
from muster.ui.history import Json
from muster.whatif import Change, Flag, Options, Submit, picture_of, read_flags, what_if
from muster.whatif.remedies import with_remedies

MAX_BYTES: Final = 1 << 20
_MAX_CHANGES: Final = 50
#: How long a question waits for its turn.
_PATIENCE_S: Final = 5.0
#: How wide an explanation is as text.
WIDTH: Final = 110
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

    def run_to(self, cycle: int) -> Run:
        """A run that has come to a cycle, for nobody else meanwhile; its forks alone go on. Raises MusterError."""
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


def answer(question: Question, run: Callable[[], Run], options: Options) -> Json:
    """What the changes would do, as `muster whatif --output json` says it. Raises UserError, RefusedError."""
    changes = [change for each in question.changes for change in _changes(each)]
    with _one_at_a_time():
        return what_if(picture_of(run().fork()), changes, options).as_document()


def remedies(job: str, run: Callable[[], Run]) -> Json:
    """What would let a job start, tried, and when it is expected to. Raises UserError, RefusedError."""
    with _one_at_a_time():
        come = run()
        if come.scheduler.last_session is None:
            come.go_on(cycles=1)
        session = come.scheduler.last_session
        assert session is not None  # a cycle has run
        found = with_remedies(come, explain_job(session, find_job(session.snapshot, job), session.now))
    document = found.to_json()
    return {
        "advice": [{"text": remedy.text, "changes": list(_asked(remedy))} for remedy in found.advised],
        "untried": document.get("untried", []),
        "expectedStart": document.get("expectedStart"),
        "text": explanation_lines(found, WIDTH),
    }


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    if not _turn.acquire(timeout=_PATIENCE_S):
        raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "another question is being answered; ask again in a moment")
    try:
        yield
    finally:
        _turn.release()


def _asked(remedy: Remedy) -> Iterator[Json]:
    """A remedy as changes that can be asked about; of some nothing can be asked."""
    trial = remedy.trial
    for part in (trial.bound, trial.nodes) if isinstance(trial, Together) else (trial,):
        yield from _asked_alone(part)


def _asked_alone(trial: Trial) -> Iterator[Json]:
    if isinstance(trial, NodesCome):
        yield {"kind": "add-nodes", "text": f"{trial.count}x{trial.like}"}
    elif isinstance(trial, JobsEnd):
        for job in trial.jobs[: 1 if trial.any_one else None]:
            yield {"kind": "delete", "text": job}
    elif isinstance(trial, BoundRises):
        bound = "quota" if trial.is_quota else "limit"
        for queue, amount in trial.queues:
            change = f"{queue}.{bound}.{trial.resource}={format_amount(trial.resource, amount)}"
            yield {"kind": "queue", "text": change}


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
