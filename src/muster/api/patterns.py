"""Regular expressions of Volcano's objects: Go's syntax, unanchored, with RE2 behind both.

Python's own `re` reads other patterns (look-ahead, back-references) and takes exponential time on some, so it is
not used for what users write into HyperNodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]  # the binding ships no types

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:  # noqa: ANN401 - the binding has no types
    """Compile a pattern. Raises ValueError that says what is wrong with it."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0] if error.args else "not a regular expression"
        text = said.decode() if isinstance(said, bytes) else str(said)
        raise ValueError(f'expected a regular expression in Go\'s syntax, got "{pattern}": {text}') from None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return compile_pattern(pattern).search(text) is not None
