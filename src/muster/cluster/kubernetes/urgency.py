"""Which changes of objects can wait for the next cycle, because they can change no decision.

Most events of a busy cluster are such: pods that we have bound are reported bound, then running, and statuses that we
wrote come back. When in doubt, a change is urgent. Asked by the reflectors.
"""

from __future__ import annotations

from typing import Final

from muster.api import KubeObject, Node, Pod

_ALIVE: Final = frozenset({"", "Pending", "Running"})


def can_wait(old: KubeObject, new: KubeObject) -> bool:
    """Whether a change gives nobody room, and nobody something to decide."""
    if isinstance(new, Pod):
        assert isinstance(old, Pod)
        return _pod_can_wait(old, new)
    if isinstance(new, Node):
        return False
    spec = getattr(new, "spec", None)
    return spec is not None and spec == getattr(old, "spec", None)


def _pod_can_wait(old: Pod, new: Pod) -> bool:
    if new.metadata.deletion_timestamp is not None or new.status.phase not in _ALIVE:
        return False
    return bool(new.spec.node_name) or new.spec == old.spec
