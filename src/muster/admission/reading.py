"""Objects of requests as typed objects, and parts of their documents."""

from __future__ import annotations

from typing import TypeVar

from muster.admission.model import Json
from muster.api import KubeObject
from muster.api.kinds import decode_as

_Kind = TypeVar("_Kind", bound=KubeObject)

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
