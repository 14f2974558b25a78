"""Resource type: tasks that ask for no GPU go to nodes without any, as long as these have room."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.framework.plugin import NodeScores, Plugin
from muster.plugins.gpu_kinds import asks_for_gpu, gpu_nodes

_POINTS: Final = 10.0


class ResourceType(Plugin):
    """Keep nodes with GPUs for those who need them."""

    name = "resourcetype"
    summary = "Prefers nodes without GPUs for tasks that ask for none."

    def node_score(self, cls: int) -> NodeScores:
        if asks_for_gpu(self.session.snapshot, cls):
            return NodeScores()
        return NodeScores(self._points)

    @cached_property
    def _points(self) -> NDArray[np.float64]:
        return np.where(gpu_nodes(self.session.snapshot), 0.0, _POINTS)
