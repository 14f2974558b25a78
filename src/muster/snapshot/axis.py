"""The resource axis: which column of every amounts array belongs to which resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]

#: An amount that nothing reaches: what a limit that is not set stands for. Sums of two stay inside int64.
UNLIMITED: Final = np.int64(2**61)

_FIRST: Final = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class ResourceAxis:
    """Resource names in column order: cpu, memory, pods, then the others by name."""

    names: tuple[str, ...] = _FIRST
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {name: column for column, name in enumerate(self.names)})

    def __len__(self) -> int:
        return len(self.names)

    def extended(self, names: Iterable[str]) -> ResourceAxis:
        """Return an axis that also has `names`; the order depends on the set of names alone."""
        others = (set(self.names) | set(names)) - set(_FIRST)
        return ResourceAxis((*_FIRST, *sorted(others)))

    def vector(self, amounts: Mapping[str, int], missing: int = 0) -> Amounts:
        """Lay amounts out in column order; resources the axis does not have are left out."""
        row = np.full(len(self.names), missing, np.int64)
        for name, amount in amounts.items():
            column = self.index.get(name)
            if column is not None:
                row[column] = amount
        return row

    def amounts(self, row: Amounts) -> dict[str, int]:
        """Name the non-zero amounts of a row."""
        return {name: int(amount) for name, amount in zip(self.names, row, strict=True) if amount}
