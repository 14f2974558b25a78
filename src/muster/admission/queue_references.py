"""The queue that a gang, a Job or a pod names: it must exist, be open and, where asked for, take jobs itself."""

from __future__ import annotations

from muster.admission.model import Known
from muster.api import Problem, Queue
from muster.api.errors import Problems
from muster.api.names import ROOT_QUEUE

#: A queue that nobody has opened or closed yet is open.
_OPEN = ("", "Open")


def queue_reference(field: str, name: str, known: Known, *, leaf: bool = False) -> Problems:
    """Find what is wrong with the name of a queue; `leaf`: queues above others will not do."""
    queue = known.queue(name)
    if queue is None:
        text = f'expected the name of a queue, got "{name}", which does not exist'
        yield Problem(field, text, "unable to find job queue" if leaf else "unable to find queue")
        return
    if not isinstance(queue, Queue):
        return
    if queue.status.state not in _OPEN:
        text = f'expected an open queue, got "{name}", which is {queue.status.state.lower()}'
        yield Problem(field, text, known_as="to queue with state `Open`")
    if leaf and name == ROOT_QUEUE:
        text = f'expected a queue below the root, got "{name}" itself'
        yield Problem(field, text, known_as="can not submit job to root queue")
    elif leaf and (below := children_of(name, known)):
        shown = ", ".join(f'"{child}"' for child in below[:3]) + (", ..." if len(below) > 3 else "")
        text = f'expected a queue without queues below it, got "{name}"; below it are {shown}'
        yield Problem(field, text, known_as="can only submit job to leaf queue")


def children_of(name: str, known: Known) -> list[str]:
    """Names of the queues directly below one, sorted."""
    return sorted(queue.name for queue in known.queues().values() if queue.spec.parent == name)
