"""Names of the planes of the node state array, int64[N_PLANES, nodes, resources].

One array instead of five keeps the snapshot a single copy and the kernels below eight arguments.
idle = ALLOCATABLE - USED; future idle = idle + RELEASING - PIPELINED.
"""

from __future__ import annotations

from typing import Final

ALLOCATABLE: Final = 0
#: Requests of every pod that sits on the node, terminating ones included.
USED: Final = 1
#: The part of USED that is terminating.
RELEASING: Final = 2
#: Requests promised to pods that wait for something to be released.
PIPELINED: Final = 3
#: What node scores count: requests with Kubernetes' non-zero defaults, pipelined pods included, evicted ones not.
SCORED: Final = 4
N_PLANES: Final = 5
