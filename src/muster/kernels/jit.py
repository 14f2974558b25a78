"""The single place that decides how kernels are compiled.

No fastmath (scores must be the same on every machine) and the compiled code is cached on disk, so that a
command starts in about a second instead of compiling for ten. `NUMBA_DISABLE_JIT=1` runs kernels as Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` with the flags that all kernels share."""
    return cast("F", numba.njit(cache=True, fastmath=False, error_model="python")(function))
