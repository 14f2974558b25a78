from __future__ import annotations

from muster.cluster.kubernetes.client.shards import Target
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.queues import Inbox


def test_a_connection_that_was_stopped_is_not_opened() -> None:
    api = ApiThread(Inbox(), Target(), None)
    api.stop()
    api.start(0.0)
