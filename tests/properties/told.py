"""A failure of a property test that carries its input."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from muster.api import KubeObject
from muster.api.kinds import encode


@contextmanager
def told(objects: Sequence[KubeObject], profile_name: str) -> Iterator[None]:
    """Let a failure carry its objects, as a file for `muster simulate FILE.jsonl --config PROFILE`."""
    before = [json.dumps(encode(thing)) for thing in objects]
    try:
        yield
    except AssertionError as error:
        error.add_note("\n".join([f"profile {profile_name}, objects:", *before]))
        raise
