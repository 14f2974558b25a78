"""A second copy of something that goes on living: what may change is copied, what never does is shared.

Objects of the API, records and everything else that is replaced rather than changed (structs, frozen dataclasses) are
values here, and so are code and configuration. Containers, arrays and our own objects are copied, each once, however
many refer to it; methods and partial calls belong to the copy afterwards. So a cluster of fifty thousand pods is copied
in the time that its tables take, and no attribute can be forgotten. What cannot be told apart (a function that
remembers its surroundings) is refused instead of being shared.
"""

# ruff: noqa: ANN401  # whatever there is, is copied

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection
from dataclasses import is_dataclass
from datetime import date, timedelta, tzinfo
from enum import Enum
from functools import partial
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

T = TypeVar("T")
_VALUES: Final = (
    str,
    bytes,
    int,
    float,
    complex,
    NoneType,
    Enum,
    date,
    timedelta,
    tzinfo,
    frozenset,
    range,
    type,
    re.Pattern,
    np.dtype,
    np.generic,
    msgspec.Struct,
    BuiltinFunctionType,
    ModuleType,
)
_DICTS: Final = (dict, defaultdict, Counter)
_CALLS: Final = (FunctionType, MethodType, partial)


def fork(thing: T, shared: Collection[object] = ()) -> T:
    """Return a copy that goes its own way. `shared` and all that is reached through them alone stays common."""
    return _Fork(shared).copy(thing)  # type: ignore[no-any-return]  # a copy is of the same type


#: What was found about types so far.
_KNOWN: Final[dict[type, bool]] = {}


def _is_value(kind: type) -> bool:
    """Whether what is of a type is never changed once it is made."""
    known = _KNOWN.get(kind)
    if known is None:
        is_frozen = is_dataclass(kind) and bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009  # has no type
        known = _KNOWN[kind] = issubclass(kind, _VALUES) or is_frozen
    return known


class _Fork:
    """One act of copying."""

    def __init__(self, shared: Collection[object]) -> None:
        #: What was copied, by identity; the original is kept so that its identity stays its own.
        self._done: dict[int, tuple[object, Any]] = {id(thing): (thing, thing) for thing in shared}

    def copy(self, thing: Any) -> Any:
        kind = type(thing)
        if _is_value(kind):
            return thing
        known = self._done.get(id(thing))
        if known is not None:
            return known[1]
        made = self._made(thing, kind)
        self._done[id(thing)] = thing, made
        return made

    def _made(self, thing: Any, kind: type) -> Any:
        if kind in _DICTS:
            return self._dict(thing)
        if kind is list:
            return self._list(thing)
        if kind in (set, np.ndarray):  # what can be looked up by its hash is a value
            return thing.copy()
        if kind is deque:
            return deque(map(self.copy, thing), thing.maxlen)
        if isinstance(thing, tuple):
            return self._tuple(thing, kind)
        return self._call(thing) if isinstance(thing, _CALLS) else self._object(thing, kind)

    def _call(self, thing: Any) -> Any:
        if isinstance(thing, FunctionType):
            if thing.__closure__:
                raise TypeError(f"{thing.__qualname__} remembers its surroundings and cannot be copied")
            return thing
        if isinstance(thing, MethodType):
            return MethodType(thing.__func__, self.copy(thing.__self__))
        return partial(self.copy(thing.func), *map(self.copy, thing.args), **self._dict(thing.keywords))

    def _tuple(self, thing: Any, kind: type) -> Any:
        if self._are_values(thing):
            return thing
        parts = [self.copy(part) for part in thing]
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)

    def _are_values(self, things: Collection[object]) -> bool:
        return all(map(_is_value, set(map(type, things))))

    def _object(self, thing: Any, kind: type) -> Any:
        if not kind.__module__.startswith("muster."):
            raise TypeError(f"nobody knows how {kind.__module__}.{kind.__qualname__} is copied")
        made: Any = object.__new__(kind)
        self._done[id(thing)] = thing, made  # before its parts, which may lead back to it
        for base in kind.__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                    object.__setattr__(made, name, self.copy(getattr(thing, name)))
        for name, value in getattr(thing, "__dict__", {}).items():
            made.__dict__[name] = self.copy(value)
        return made

    def _dict(self, thing: dict[Any, Any]) -> dict[Any, Any]:
        if self._are_values(thing.values()):
            return thing.copy()
        made = thing.copy()
        copied = self._all_flat(thing.values())
        if copied is not None:
            made.update(zip(thing, copied, strict=True))
            return made
        made.clear()
        self._done[id(thing)] = thing, made
        for key, value in thing.items():
            made[key] = self.copy(value)
        return made

    def _list(self, thing: list[Any]) -> list[Any]:
        if self._are_values(thing):
            return thing.copy()
        flat = self._all_flat(thing)
        if flat is not None:
            return flat
        made: list[Any] = []
        self._done[id(thing)] = thing, made
        made += map(self.copy, thing)
        return made

    def _all_flat(self, things: Collection[Any]) -> list[Any] | None:
        """Copies of many containers of values, all of one kind, in one go; None: they are something else."""
        kinds = set(map(type, things))
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None or not (issubclass(kind, tuple) or kind in (*_DICTS, list, set)):
            return None
        inner = list(chain.from_iterable((each.values() for each in things) if issubclass(kind, dict) else things))
        kinds = set(map(type, inner))
        if tuple in kinds:  # such as keys of several parts
            kinds.remove(tuple)
            kinds.update(map(type, chain.from_iterable(each for each in inner if type(each) is tuple)))
        if not all(map(_is_value, kinds)):
            return None
        return list(things) if issubclass(kind, tuple) else [each.copy() for each in things]
