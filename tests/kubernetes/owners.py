"""Controllers and kubelets that a bare control plane lacks, played for tests.

An owner makes its pods anew when they are evicted; pods of nodes that are gone are collected; pods that say how long
they run end when that time is over. KWOK starts and removes pods, this does the rest. Every call looks at the cluster
once and does what is due, so that tests decide when controllers get a turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from muster.api.names import EXIT, RUN_SECONDS
from tests.kubernetes.documents import made_anew
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError


class Owners:
    """All controllers of a cluster. `clock` is the time by which pods run."""

    def __init__(self, kubectl: Kubectl, clock: Callable[[], float]) -> None:
        self._kubectl = kubectl
        self._clock = clock
        #: What is made anew, by namespace and name.
        self._owned: dict[str, Json] = {}
        #: When pods end that do, by uid.
        self._ends: dict[str, float] = {}

    def own(self, document: Json) -> None:
        """From now on the pod is made anew whenever it is gone."""
        self._owned[key_of(document)] = made_anew(document)

    def disown(self, keys: Iterable[str]) -> None:
        """Somebody deletes the pods for good."""
        for key in keys:
            self._owned.pop(key, None)

    def next_end(self) -> float | None:
        """When the next pod ends; None: none ever does."""
        return min(self._ends.values(), default=None)

    def take_a_turn(self) -> bool:
        """Do what is due; False when nothing was, and no pod is on its way between two states."""
        pods = {key_of(pod): pod for pod in self._kubectl.list("Pod")}
        nodes = {node["metadata"]["name"] for node in self._kubectl.list("Node")}
        present = {pod["metadata"]["uid"] for pod in pods.values()}
        self._ends = {uid: end for uid, end in self._ends.items() if uid in present}
        is_busy = False
        for key in sorted(pods.keys() | self._owned.keys()):
            is_busy |= self._anew(key) if key not in pods else self._look_at(pods[key], nodes)
        return is_busy

    def _anew(self, key: str) -> bool:
        self._kubectl.create(self._owned[key])
        return True

    def _look_at(self, pod: Json, nodes: set[str]) -> bool:
        name, namespace, uid = (pod["metadata"][field] for field in ("name", "namespace", "uid"))
        where, phase = pod["spec"].get("nodeName", ""), pod["status"]["phase"]
        if where and where not in nodes:
            with contextlib.suppress(RefusedError):  # gone already
                self._kubectl.delete("Pod", name, namespace, grace=0)
            return True
        if phase in ("Succeeded", "Failed"):
            return False
        if phase == "Running":
            self._let_end(pod, uid)
        return "deletionTimestamp" in pod["metadata"] or (bool(where) and phase != "Running")

    def _let_end(self, pod: Json, uid: str) -> None:
        marks = pod["metadata"].get("annotations", {})
        if RUN_SECONDS not in marks:
            return
        end = self._ends.setdefault(uid, self._clock() + float(marks[RUN_SECONDS]))
        if self._clock() >= end:
            del self._ends[uid]
            phase = marks.get(EXIT, "succeeded").capitalize()
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            self._kubectl.patch("Pod", name, {"status": {"phase": phase}}, namespace, status=True)


def key_of(document: Json) -> str:
    """Namespace and name."""
    meta = document["metadata"]
    return f"{meta.get('namespace', 'default')}/{meta['name']}"
