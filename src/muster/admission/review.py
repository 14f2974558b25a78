"""AdmissionReview, ``admission.k8s.io/v1``: the question of an API server, the verdict, and the answer, as bytes.

A question that cannot be read is a `BadReviewError` with the reason, which is the asker's mistake and no verdict. Of
what can be read, a verdict says what is wrong, what to watch out for, and what to fill in.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from muster.admission.hooks import REVIEW_API, Hook
from muster.admission.request import (
    CREATE,
    DELETE,
    UPDATE,
    Caution,
    Filler,
    Json,
    Known,
    Request,
    Settings,
    json_patch,
    read,
)
from muster.api import KubeObject, Pod, Problem, UserError, encode_hook
from muster.api.documents import MAX_DEPTH, TOO_DEEP, shallow
from muster.api.fields import unknown_fields

_KIND: Final = "AdmissionReview"
_FORBIDDEN: Final = 403
_INVALID: Final = 422
#: The server cuts longer warnings off.
_MAX_WARNING: Final = 256


# -- the verdict -----------------------------------------------------------------------------------------------


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
    cautions = [each for each in found if isinstance(each, Caution)]
    return Verdict(tuple(problems), (*cautions, *_unknown(hook.kind, request)))


def _unknown(kind: type[KubeObject], request: Request) -> Iterator[Caution]:
    """Warn of fields that nobody knows: our definitions keep them, and they do nothing.

    Not of pods, where the server drops what it does not know, and knows more than we do. Of changes only what is new.
    """
    if kind is Pod:
        return
    standing = {path for path, _ in unknown_fields(request.old, kind)}
    for path, text in unknown_fields(request.document, kind):
        if path not in standing:
            yield Caution(path, text)


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


# -- the question, and the answer ------------------------------------------------------------------------------


class BadReviewError(Exception):
    """The body is no question that this hook answers."""


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Asked(msgspec.Struct, rename="camel"):
    uid: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    name: str = ""
    namespace: str = ""
    operation: str = ""
    object: Json | None = None
    old_object: Json | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Asked | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)


def answer(hook: Hook, body: bytes, known: Known, settings: Settings) -> tuple[bytes, Verdict]:
    """Answer a question; the verdict is for those who count and log. Raises BadReviewError."""
    asked, verdict = _read(hook, body)
    request = Request(asked.operation, asked.object or {}, asked.old_object or {}, asked.name, asked.namespace)
    verdict = verdict or judge(hook, request, known, settings)
    response: Json = {"uid": asked.uid, "allowed": verdict.is_allowed}
    if not verdict.is_allowed:
        response["status"] = _status(asked, verdict)
    if verdict.cautions:
        response["warnings"] = [text[:_MAX_WARNING] for text in verdict.warnings]
    if verdict.patch:
        patch = msgspec.json.encode(verdict.patch, enc_hook=encode_hook)
        response["patch"] = binascii.b2a_base64(patch, newline=False).decode()
        response["patchType"] = "JSONPatch"
    return msgspec.json.encode({"apiVersion": REVIEW_API, "kind": _KIND, "response": response}), verdict


def _decode(body: bytes) -> tuple[_Review, Verdict | None]:
    """Decode a question; about an object that is nested too deep for any reader with the answer."""
    try:
        return _REVIEW.decode(body), None
    except RecursionError:
        return _REVIEW.decode(shallow(body.decode(), depth=MAX_DEPTH)[0]), Verdict((Problem("", TOO_DEEP),))


def _read(hook: Hook, body: bytes) -> tuple[_Asked, Verdict | None]:
    try:
        review, verdict = _decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadReviewError(f"expected an {_KIND} in JSON: {error}") from None
    if (review.api_version, review.kind) != (REVIEW_API, _KIND):
        raise BadReviewError(f"expected {_KIND} of {REVIEW_API}, got {review.kind!r} of {review.api_version!r}")
    asked = review.request
    if asked is None or not asked.uid:
        raise BadReviewError("expected a request with a uid, got none")
    if (asked.kind.group, asked.kind.kind) != (hook.group, hook.kind.kind):
        wanted = f"{hook.kind.kind} of {hook.kind.api_version}"
        raise BadReviewError(f"{hook.path} is about {wanted}, got {asked.kind.kind!r} of {asked.kind.group!r}")
    return asked, verdict


def _status(asked: _Asked, verdict: Verdict) -> Json:
    """What is wrong, with the name of the object, as the server passes it on to the user."""
    name = f"{asked.namespace}/{asked.name}" if asked.namespace and asked.name else asked.name
    subject = f"{asked.kind.kind} {name}".strip()
    code, reason = (_FORBIDDEN, "Forbidden") if asked.operation == DELETE else (_INVALID, "Invalid")
    return {"code": code, "reason": reason, "message": f"{subject}: {verdict.message}"}
