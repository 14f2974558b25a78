"""Queues that are opened and closed: by Commands, and with the queue above them.

One that is closing is closed when nothing is left in it. A queue that was open when the one above it closed is closed
with it and remembers why, in an annotation: it opens again with the queue above, and one that was closed by a Command
does not. What a closed queue means is the scheduler's business: it lets nobody in. Everything else in a queue's status
is the scheduler's to write, so only the state is touched here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api import KubeObject, PodGroup, Queue
from muster.api.names import ROOT_QUEUE
from muster.api.objects.batch import Command
from muster.controllers.contract import (
    Action,
    Controller,
    Delete,
    EventKind,
    Keeper,
    Patch,
    Plan,
    Step,
    Tell,
    target_of,
)

OPEN: Final = "Open"
CLOSING: Final = "Closing"
CLOSED: Final = "Closed"
OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"
_SHUT: Final = frozenset({CLOSING, CLOSED})
#: Volcano's mark on queues that were closed because the one above was.
_WITH_PARENT: Final = "volcano.sh/closed-by-parent"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else decides on a queue: the PodGroups in it, the queue above, and whether that is about to open."""

    n_groups: int = 0
    parent: Queue | None = None
    parent_opens: bool = False


def reconcile(queue: Queue, around: Surroundings, commands: Sequence[Command]) -> Plan:
    """What to ask for next, for one queue."""
    stands = queue.status.state
    above = OPEN if around.parent is None else around.parent.status.state or OPEN
    state, with_parent = stands or OPEN, queue.metadata.annotations.get(_WITH_PARENT) == "true"
    told: list[Action] = []
    taken: list[Command] = []
    for command in commands:
        if command.action == OPEN_QUEUE and above in _SHUT and around.parent is not None:
            if around.parent_opens:
                continue  # the word to the queue above comes first, and ours is read again then
            said = f"Queue stays {state}: queue {around.parent.name} above it is {above}, open that one first"
            told.append(Tell(target_of(queue), OPEN_QUEUE, said, is_warning=True))
        elif command.action == OPEN_QUEUE:
            state, with_parent = OPEN, False
        elif command.action == CLOSE_QUEUE and queue.name == ROOT_QUEUE:
            told.append(Tell(target_of(queue), CLOSE_QUEUE, "Queue root cannot be closed", is_warning=True))
        elif command.action == CLOSE_QUEUE and state not in _SHUT:
            state = CLOSING
        taken.append(command)
    if above in _SHUT and state not in _SHUT:
        state, with_parent = CLOSING, True
    elif above not in _SHUT and state in _SHUT and with_parent:
        state, with_parent = OPEN, False
    if state == CLOSING and not around.n_groups:
        state = CLOSED
    return Plan(
        (
            *_marked(queue, with_parent=with_parent),
            *_written(queue, state, around.n_groups),
            *told,
            *(Delete(target_of(command)) for command in taken),
        )
    )


def _marked(queue: Queue, *, with_parent: bool) -> Iterator[Action]:
    """The mark comes before the state: without it a queue would stay closed for ever."""
    if (queue.metadata.annotations.get(_WITH_PARENT) == "true") != with_parent:
        mark = "true" if with_parent else "false"
        yield Patch(target_of(queue), {"metadata": {"annotations": {_WITH_PARENT: mark}}})


def _written(queue: Queue, state: str, n_groups: int) -> Iterator[Action]:
    if state == queue.status.state:
        return
    yield Patch(target_of(queue), {"status": {"state": state}}, of_status=True)
    if queue.status.state or state != OPEN:
        yield Tell(target_of(queue), state, f"Queue is {state}, with {n_groups} PodGroups in it")


class QueueController(Keeper):
    """The queues of a cluster."""

    name = "queues"

    def __init__(self) -> None:
        super().__init__()
        self._queues: dict[str, Queue] = {}
        self._commands: dict[str, dict[str, Command]] = {}
        self._groups: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        del now
        is_gone = kind == "DELETED"
        if isinstance(thing, Queue):
            self._take_queue(thing, is_gone=is_gone)
        elif isinstance(thing, PodGroup):
            self._count(thing.key, None if is_gone else thing.spec.queue)
        elif isinstance(thing, Command) and thing.target is not None and thing.target.kind == Queue.kind:
            name = thing.target.name
            self.keep(self._commands.setdefault(name, {}), thing, is_gone=is_gone)
            if not self._commands[name]:
                del self._commands[name]
            self._look_at_family(name)

    def _take_queue(self, queue: Queue, *, is_gone: bool) -> None:
        known = self._queues.get(queue.name)
        self.keep(self._queues, queue, is_gone=is_gone)
        if is_gone or known is None or known.status.state != queue.status.state:
            self._look_at_family(queue.name)
        self.agenda.add(queue.name)

    def _look_at_family(self, name: str) -> None:
        """Look at a queue and those below it, whose fate hangs on it."""
        self.agenda.add(name)
        for other in self._queues.values():
            if other.spec.parent == name:
                self.agenda.add(other.name)

    def _count(self, key: str, queue: str | None) -> None:
        before = self._groups.pop(key, None)
        if queue is not None:
            self._groups[key] = queue
        if before == queue:
            return
        for name, change in ((before, -1), (queue, 1)):
            if name is not None:
                self._counts[name] = self._counts.get(name, 0) + change
                self.agenda.add(name)

    def steps(self, now: float) -> Iterator[Step]:
        for name in self.agenda.ready(now):
            queue = self._queues.get(name)
            if queue is None:
                self.agenda.settle(name, now)
                continue
            yield Step(self.name, name, reconcile(queue, self._around(queue), self._words_to(name)))

    def _around(self, queue: Queue) -> Surroundings:
        parent = self._queues.get(queue.spec.parent) if queue.spec.parent != queue.name else None
        opens = parent is not None and any(word.action == OPEN_QUEUE for word in self._words_to(parent.name))
        return Surroundings(self._counts.get(queue.name, 0), parent, opens)

    def _words_to(self, name: str) -> list[Command]:
        commands = self._commands.get(name, {})
        return [commands[key] for key in sorted(commands)]


_check: type[Controller] = QueueController  # the contract
