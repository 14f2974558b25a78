"""Names as Kubernetes wants them, for the names that Muster or a Job controller makes objects of."""

from __future__ import annotations

import re
from typing import Final

from muster.api import Problem
from muster.api.errors import Problems

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253


def label(field: str, name: str) -> Problems:
    """The name of a container or of a task: part of other names."""
    if _LABEL.fullmatch(name) is None or len(name) > MAX_LABEL:
        wanted = f"at most {MAX_LABEL} lower-case letters, digits and dashes, with none at either end"
        yield Problem(field, f"expected {wanted}, got {_shown(name)}")


def subdomain(field: str, name: str) -> Problems:
    """The name of most objects."""
    if _SUBDOMAIN.fullmatch(name) is None or len(name) > _MAX_SUBDOMAIN:
        yield Problem(field, f"expected lower-case letters, digits, dashes and dots, got {_shown(name)}")


def label_value(field: str, name: str) -> Problems:
    """A name that pods carry as a label."""
    if _QUALIFIED.fullmatch(name) is None or len(name) > MAX_LABEL:
        wanted = f"at most {MAX_LABEL} letters, digits, dashes, dots and underscores"
        yield Problem(field, f"expected {wanted}, got {_shown(name)}")


def pod_name(field: str, name: str) -> Problems:
    """The longest name that a controller will make of others; pods carry theirs as a host name."""
    if len(name) > MAX_LABEL:
        text = f"expected a shorter name: names of pods have at most {MAX_LABEL} characters, got {_shown(name)}"
        yield Problem(field, text)


def _shown(name: str) -> str:
    return f'"{name}" ({len(name)} characters)' if len(name) > MAX_LABEL else f'"{name}"' if name else "nothing"
