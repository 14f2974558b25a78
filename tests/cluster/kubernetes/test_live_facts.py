"""Starting to follow a cluster that is not there."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import yaml

from muster.admission.live import LiveFacts


def test_waiting_for_a_cluster_that_does_not_answer_can_be_given_up(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "nobody", "user": {"token": "x"}}],
                "contexts": [{"name": "none", "context": {"cluster": "none", "user": "nobody"}}],
                "current-context": "none",
            }
        )
    )
    facts = LiveFacts(kubeconfig)
    began = time.monotonic()
    threading.Timer(0.3, facts.give_up).start()
    facts.start(30.0)
    facts.stop()
    assert time.monotonic() - began < 10
