"""Row numbers and masks: the types that all tables share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Mask = NDArray[np.bool_]

NO_ROW: Final = -1


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows in pieces that follow each other; a piece is cut out only when somebody asks for it."""

    rows: Rows
    #: Where pieces begin, and where the last one ends.
    bounds: Rows

    def __getitem__(self, piece: int) -> Rows:
        return self.rows[self.bounds[piece] : self.bounds[piece + 1]]

    def sizes(self) -> Rows:
        return np.diff(self.bounds)
