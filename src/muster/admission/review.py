"""AdmissionReview, ``admission.k8s.io/v1``: the question of an API server, and the answer, as bytes.

Called by the server for every request. A question that cannot be read is a `BadReviewError` with the reason, which is
the asker's mistake and no verdict.
"""

from __future__ import annotations

import binascii
from typing import Final

import msgspec

from muster.admission.hooks import Hook
from muster.admission.model import DELETE, Json, Known, Request, Settings
from muster.admission.verdicts import Verdict, judge
from muster.api import Problem, encode_hook
from muster.api.documents import MAX_DEPTH, TOO_DEEP, shallow

API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_FORBIDDEN: Final = 403
_INVALID: Final = 422
#: The server cuts longer warnings off.
_MAX_WARNING: Final = 256


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
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": _KIND, "response": response}), verdict


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
    if (review.api_version, review.kind) != (API_VERSION, _KIND):
        raise BadReviewError(f"expected {_KIND} of {API_VERSION}, got {review.kind!r} of {review.api_version!r}")
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
