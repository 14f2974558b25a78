"""The head of a snapshot that was taken from a live cluster: when, and for which scheduler.

It stands first in what `muster snapshot save` writes and in what `--cluster` reads, and is the one object that no
cluster holds. Objects that follow it are used as they are: nothing is added or checked, since an API server has
done so already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import field

from muster.api.base import K8sModel, Timestamp
from muster.api.meta import KubeObject


class SnapshotShard(K8sModel):
    """The nodes of one of several schedulers, where others are seen too."""

    mode: Literal["hard", "soft"] = "hard"
    nodes: Sequence[str] = ()


class ClusterSnapshotSpec(K8sModel):
    """What a replay has to know besides the objects."""

    taken_at: Timestamp | None = None
    #: Pods with another schedulerName take room but are not scheduled; none: all are.
    scheduler_names: Sequence[str] = ()
    #: Which nodes that scheduler had; none: all that there are.
    shard: SnapshotShard | None = None


class ClusterSnapshot(KubeObject):
    """Says that the objects beside it were taken from a live cluster."""

    api_version: ClassVar[str] = "muster.sh/v1alpha1"
    kind: ClassVar[str] = "ClusterSnapshot"
    namespaced: ClassVar[bool] = False

    spec: ClusterSnapshotSpec = field(default_factory=ClusterSnapshotSpec)
