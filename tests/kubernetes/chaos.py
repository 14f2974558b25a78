"""Users and misfortune, by the dice: what happens to a cluster while two replicas of the scheduler work on it.

Every strike is one thing that happens in real clusters: gangs come and go, somebody makes hostile objects, pods and
nodes are lost, watches break, the API server or the leader dies, a replica stands still. The same seed gives the same
strikes, at other moments.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence

from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, gang, node
from tests.kubernetes.owners import Owners, key_of
from tests.kubernetes.poison import Poison
from tests.kubernetes.proxy import RESET, SWALLOW, FaultyProxy, let_through
from tests.kubernetes.replicas import Process

N_NODES = 6
RANKS = ("low", "middle", "high")
QUEUES = ("red", "blue")


class Storm:
    """Strikes a cluster; `replicas` are started anew by `start` when they die."""

    def __init__(
        self,
        seed: int,
        kubectl: Kubectl,
        plane: ControlPlane,
        proxy: FaultyProxy,
        start: Callable[[], Process],
    ) -> None:
        self._dice = random.Random(seed)
        self._kubectl = kubectl
        self._plane = plane
        self._proxy = proxy
        self._start = start
        self._owners = Owners(kubectl, time.time)
        self._poison = Poison(kubectl, seed)
        self._n_gangs = 0
        self._gangs: dict[str, list[Json]] = {}
        self._lost: list[str] = []
        self.replicas = [start(), start()]
        self._acts: Sequence[tuple[Callable[[], None], int]] = (
            (self._gang_comes, 12),
            (self._gang_goes, 5),
            (self._somebody_means_harm, 3),
            (self._harm_is_undone, 1),
            (self._pod_is_deleted, 4),
            (self._node_is_lost, 2),
            (self._node_comes_back, 3),
            (self._watches_break, 2),
            (self._server_is_moody, 3),
            (self._server_is_well, 3),
            (self._server_dies, 1),
            (self._replica_dies, 2),
            (self._replica_stands_still, 1),
        )

    def strike(self) -> str:
        """Let one thing happen; return what."""
        acts, weights = zip(*self._acts, strict=True)
        act: Callable[[], None] = self._dice.choices(acts, weights)[0]
        act()
        self.turn()
        return act.__name__.strip("_")

    def turn(self) -> bool:
        """Let controllers do what is due; False when nothing was."""
        return self._owners.take_a_turn()

    def calm_down(self) -> None:
        """No more misfortune; all nodes are there again."""
        self._server_is_well()
        self._harm_is_undone()
        while self._lost:
            self._node_comes_back()

    def close(self) -> None:
        for replica in self.replicas:
            replica.end(signal.SIGKILL)

    # -- users ---------------------------------------------------------------------------------------------

    def _gang_comes(self) -> None:
        self._n_gangs += 1
        name, rank = f"g{self._n_gangs}", self._dice.choice(RANKS)
        size, gpu = self._dice.choice([1, 2, 3, 4, 6, 8, 12]), self._dice.choice([1, 1, 2, 4])
        minimum = self._dice.choice([size, size, max(1, size // 2)])
        spec = {"priorityClassName": rank, "queue": self._dice.choice(QUEUES)}
        head, *pods = gang(name, size, gpu=gpu, minimum=minimum, group=spec)
        for pod in pods:
            pod["spec"]["priorityClassName"] = rank
        self._kubectl.create_all([head, *pods])
        for pod in pods:
            self._owners.own(pod)
        self._gangs[name] = pods

    def _gang_goes(self) -> None:
        if not self._gangs:
            return
        name = self._dice.choice(sorted(self._gangs))
        pods = self._gangs.pop(name)
        self._owners.disown(key_of(pod) for pod in pods)
        self._kubectl.delete("PodGroup", name)
        present = self._kubectl.nodes_of_pods()
        for pod in pods:
            if pod["metadata"]["name"] in present:
                self._kubectl.delete("Pod", pod["metadata"]["name"])

    def _pod_is_deleted(self) -> None:
        present = sorted(name for name in self._kubectl.nodes_of_pods() if not name.startswith("evil"))
        if present:
            self._kubectl.delete("Pod", self._dice.choice(present), grace=self._dice.choice([0, 1]))

    def _somebody_means_harm(self) -> None:
        self._poison.put(3)

    def _harm_is_undone(self) -> None:
        self._poison.remove()

    # -- misfortune ----------------------------------------------------------------------------------------

    def _node_is_lost(self) -> None:
        if len(self._lost) < N_NODES // 2:
            name = self._dice.choice([name for name in node_names() if name not in self._lost])
            self._lost.append(name)
            self._kubectl.delete("Node", name)

    def _node_comes_back(self) -> None:
        if self._lost:
            self.turn()  # what was on it is collected first
            self._kubectl.create(node(self._lost.pop(0)))

    def _watches_break(self) -> None:
        self._proxy.cut_watches()

    def _server_is_moody(self) -> None:
        dice = random.Random(self._dice.random())

        def rule(method: str, _path: str) -> int:
            if method == "GET" or dice.random() < 0.7:
                return 0
            return dice.choice([409, 429, 500, RESET, SWALLOW])

        self._proxy.refuse = rule

    def _server_is_well(self) -> None:
        self._proxy.refuse = let_through

    def _server_dies(self) -> None:
        self._plane.api_server.kill()
        time.sleep(self._dice.random())
        self._plane.start_api_server()
        self._kubectl.close()

    def _replica_dies(self) -> None:
        self.replicas.pop(self._dice.randrange(2)).end(signal.SIGKILL)
        self.replicas.append(self._start())

    def _replica_stands_still(self) -> None:
        process = self._dice.choice(self.replicas).process
        process.send_signal(signal.SIGSTOP)
        time.sleep(self._dice.choice([2, 12]))
        process.send_signal(signal.SIGCONT)


def node_names() -> list[str]:
    return [f"n{number}" for number in range(N_NODES)]
