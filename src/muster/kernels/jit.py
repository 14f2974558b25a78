"""The single place that decides how kernels are compiled, and when.

No fastmath (scores must be the same on every machine) and the compiled code is cached on disk, so that a
command starts in about a second instead of compiling for ten. `NUMBA_DISABLE_JIT=1` runs kernels as Python.

Loading the compiler and the compiled code takes longer than all else that a command on a small file does. With
`MUSTER_KERNELS=late`, which such commands set for themselves, kernels begin as the Python that they are written in, and
the compiler is loaded when they have taken as long as loading it would. Both do the same arithmetic.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any, Final, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
LATE: Final = "late"
#: The variable of the environment that says when kernels are compiled; read when the first of them is imported.
VARIABLE: Final = "MUSTER_KERNELS"
#: CPU seconds that kernels may take as Python, about what loading the compiler takes.
_ALLOWANCE: Final = 0.5


def kernel(function: F) -> F:
    """Compile `function` with the flags that all kernels share, now or when it pays."""
    if os.environ.get(VARIABLE) == LATE:
        return cast("F", _Late(function))
    return cast("F", _compiled(function))


def search_kernel(function: F) -> F:
    """Compile `function` before it is first called: it searches for long, and counts on integers that wrap around."""
    if os.environ.get(VARIABLE) == LATE:
        return cast("F", _Late(function, at_once=True))
    return cast("F", _compiled(function))


def _compiled(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - the compiler has no types
    import numba  # noqa: PLC0415  # takes a third of a second, and may not be needed

    return numba.njit(cache=True, fastmath=False, error_model="python")(function)


class _Late:
    """A kernel that is Python until kernels have taken long enough."""

    #: What all kernels together have taken so far; those inside others count twice.
    spent = 0.0

    def __init__(self, function: Callable[..., Any], *, at_once: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._at_once = at_once

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - whatever the kernel takes
        if self._at_once or _Late.spent > _ALLOWANCE:
            return self._dispatcher(*arguments)
        began = time.process_time()
        try:
            return self.py_func(*arguments)
        finally:
            _Late.spent += time.process_time() - began

    @cached_property
    def _dispatcher(self) -> Any:  # noqa: ANN401 - the compiler has no types
        return _compiled(self.py_func)

    @property
    def _numba_type_(self) -> Any:  # noqa: ANN401 - the compiler has no types
        """By this the compiler knows the kernel, where compiled ones call it."""
        return self._dispatcher._numba_type_
