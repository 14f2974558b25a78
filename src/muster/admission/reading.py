"""Objects of requests as typed objects, and parts of their documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from muster.admission.model import Json
from muster.api import KubeObject, Problem, UserError
from muster.api.errors import Problems
from muster.api.kinds import decode_as

_Kind = TypeVar("_Kind", bound=KubeObject)
_Asked = ParamSpec("_Asked")

#: What the server puts behind a prefix when it makes up a name.
_MADE_UP = "xxxxx"


def read(document: Json, kind: type[_Kind]) -> _Kind:
    """Decode the object of a request. Raises UserError.

    An object that leaves its name to the server has none yet; one of the right length stands in for it.
    """
    thing = decode_as(document, kind)
    prefix = (document.get("metadata") or {}).get("generateName")
    if not thing.metadata.name and isinstance(prefix, str) and prefix:
        thing.metadata.name = prefix + _MADE_UP
    return thing


def spec_of(document: Json) -> Json:
    """Return the spec of a document, for changing; one that is not there is made."""
    spec: Json = document.get("spec") or {}
    document["spec"] = spec
    return spec


def checked(check: Callable[_Asked, None], *args: _Asked.args, **kwargs: _Asked.kwargs) -> Problems:
    """Ask a rule of the scheduler that raises UserError for what it would put aside."""
    try:
        check(*args, **kwargs)
    except UserError as fault:
        yield Problem(fault.field, fault.text)
