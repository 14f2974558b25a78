"""The scheduler on a real API server, for tests: run cycles until something holds."""

from __future__ import annotations

from collections.abc import Callable

from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import SchedulerConfig, default_config, parse_config
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from tests.kubernetes.kubectl import Kubectl

WITH_EVICTIONS = parse_config(
    """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "with evictions",
)


class Stage:
    """A scheduler that works for Volcano's pods, or for those that name another one."""

    def __init__(
        self,
        cluster: KubernetesCluster,
        kubectl: Kubectl,
        config: SchedulerConfig | None = None,
        scheduler_name: str = "volcano",
    ) -> None:
        self.cluster = cluster
        self.kubectl = kubectl
        self.scheduler = Scheduler(
            cluster,
            config or default_config(),
            builtin_registry(),
            scheduler_names=[scheduler_name],
            allocates_claims=False,
        )
        self.results: list[CycleResult] = []

    def run_until(self, what: Callable[[], object], seconds: float = 20.0) -> None:
        """Run cycles until something holds; none may break off."""

        def holds() -> bool:
            self.run_once()
            return bool(what())

        self.kubectl.wait(holds, seconds)

    def run_once(self) -> CycleResult:
        result = self.scheduler.run_once()
        assert result.error is None
        self.results.append(result)
        return result

    def is_bound(self, *names: str) -> bool:
        placed = self.kubectl.nodes_of_pods()
        return all(placed.get(name) for name in names)
