"""One request, one verdict: what is wrong, what to watch out for, and what to fill in."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

from muster.admission.differences import json_patch
from muster.admission.hooks import Hook
from muster.admission.model import CREATE, UPDATE, Caution, Filler, Json, Known, Request, Settings
from muster.admission.reading import read
from muster.api import KubeObject, Problem, UserError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the API server is told."""

    problems: tuple[Problem, ...] = ()
    cautions: tuple[Caution, ...] = ()
    #: Operations of JSON Patch.
    patch: tuple[Json, ...] = ()

    @property
    def is_allowed(self) -> bool:
        return not self.problems

    @property
    def message(self) -> str:
        """Everything that is wrong, in one line; "" if nothing is."""
        return "; ".join(_sentence(problem) for problem in self.problems)

    @property
    def warnings(self) -> list[str]:
        """What the user is shown beside the success."""
        return [_sentence(caution) for caution in self.cautions]


def _sentence(found: Problem | Caution) -> str:
    """The field, our words, and behind them the phrase that people's scripts look for."""
    sentence = f"{found.field}: {found.text}" if found.field else found.text
    return f"{sentence} ({found.known_as})" if isinstance(found, Problem) and found.known_as else sentence


def judge(hook: Hook, request: Request, known: Known, settings: Settings) -> Verdict:
    """Decide on a request."""
    if request.operation not in hook.operations:
        wanted = " or ".join(hook.operations)
        text = f"expected the operation {wanted}, got {request.operation or 'none'}"
        return Verdict((Problem("", text, known_as="invalid operation"),))
    if hook.filler is not None:
        return Verdict(patch=_filled(hook.kind, hook.filler, request, known, settings))
    if hook.rule is None or _is_ending(request):
        return Verdict()
    if request.operation == UPDATE and not _is_readable(request.old, hook.kind):
        # It came before there was anybody to refuse it, and nothing was made of it: what it becomes is new.
        request = replace(request, operation=CREATE, old={})
    try:
        found = list(hook.rule(request, known, settings))
    except UserError as error:  # a document that has not the types of its kind
        return Verdict((Problem(error.field, error.text),))
    problems = dict.fromkeys(each for each in found if isinstance(each, Problem))
    return Verdict(tuple(problems), tuple(each for each in found if isinstance(each, Caution)))


def _is_ending(request: Request) -> bool:
    """Whether an object only waits for its finalizers to be taken off, which is an update, too."""
    metadata = request.document.get("metadata")
    return request.operation == UPDATE and isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _is_readable(document: Json, kind: type[KubeObject]) -> bool:
    try:
        read(document, kind)
    except UserError:
        return False
    return True


def _filled(
    kind: type[KubeObject], filler: Filler, request: Request, known: Known, settings: Settings
) -> tuple[Json, ...]:
    if not _is_readable(request.document, kind):
        return ()  # nothing can be made of it, and it will be refused with the reason
    filled = deepcopy(request.document)
    filler(filled, request, known, settings)
    return tuple(json_patch(request.document, filled))
