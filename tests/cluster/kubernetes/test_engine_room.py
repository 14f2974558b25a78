from __future__ import annotations

from muster.cluster.kubernetes.engine_room import EngineRoom, Target
from muster.cluster.kubernetes.inbox import Inbox


def test_a_connection_that_was_stopped_is_not_opened() -> None:
    room = EngineRoom(Inbox(), Target(), None)
    room.stop()
    room.start(0.0)
