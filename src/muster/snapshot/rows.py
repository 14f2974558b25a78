"""Row numbers and masks: the types that all tables share."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Mask = NDArray[np.bool_]

NO_ROW: Final = -1
