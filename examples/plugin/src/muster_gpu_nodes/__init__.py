"""GPU nodes are for pods that ask for GPUs."""

import numpy as np

from muster.api import pod_request
from muster.framework import FITS, Plugin, Verdicts, reason

KEPT_FREE = reason("gpu-node", "are kept for pods that ask for GPUs", remedy="add nodes without GPUs")
GPU = "nvidia.com/gpu"


class GpuNodes(Plugin):
    """Keep pods that ask for no GPU off nodes that have some."""

    name = "gpu-nodes"

    def node_mask(self, cls: int) -> Verdicts:
        snapshot = self.session.snapshot
        asks = GPU in pod_request(snapshot.classes.pods[cls])
        has = np.array([GPU in node.status.allocatable for node in snapshot.nodes.objects], bool)
        return np.where(has & (not asks), KEPT_FREE.number, FITS).astype(np.int16)
