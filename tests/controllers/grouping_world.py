"""Workloads of others on the embedded cluster, for tests: what was made of them, and how it was grouped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from muster.api import KaiPodGroup, KubeObject, Pod, PodGroup, group_of, load_text
from muster.api.objects.pod import role_of
from muster.cluster import MemoryCluster
from muster.controllers.contract import Controller
from muster.controllers.embedded import EmbeddedControllers
from muster.controllers.grouping.controller import GroupingController
from muster.controllers.grouping.table import Table
from muster.controllers.played.controller import WorkloadPlayer

POD = "spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]}"
TEMPLATE = f"template: {{{POD}}}"


@dataclass(frozen=True)
class Grouped:
    """What a group came to, in the words of both families."""

    minimum: int
    roles: dict[str, int]
    queue: str
    priority: str
    #: Pods by name, with their role.
    pods: dict[str, str]


class GroupingWorld:
    """An embedded cluster with others' operators and the grouping controller."""

    def __init__(self, *texts: str, table: Table | None = None, lone: bool = False) -> None:
        objects: list[KubeObject] = [thing for text in texts for thing in load_text(text).objects]
        self.cluster = MemoryCluster(objects, start=1000.0)
        self._table, self._lone = table, lone
        self.restart()

    def restart(self) -> None:
        """New processes, which know what they see and nothing else."""
        self.cluster.store.feed()
        self.cluster.store._feed = None
        made: list[Controller] = [WorkloadPlayer(), GroupingController(self._table, lone=self._lone)]
        self.controllers = EmbeddedControllers(self.cluster, made)
        self.cluster.attach(self.controllers)
        self.cluster.poll()

    def set_pods(self, phase: str, names: Iterable[str] = ()) -> None:
        """Pods get a node and a phase, all or those named."""
        wanted = set(names)
        for pod in list(self.cluster.store.all(Pod)):
            if not wanted or pod.name in wanted:
                status = replace(pod.status, phase=phase)
                self.cluster.replace_object(replace(pod, spec=replace(pod.spec, node_name="n1"), status=status))
        self.cluster.poll()

    @property
    def pods(self) -> dict[str, Pod]:
        return {pod.name: pod for pod in self.cluster.store.all(Pod)}

    @property
    def groups(self) -> dict[str, PodGroup | KaiPodGroup]:
        found: list[PodGroup | KaiPodGroup] = list(self.cluster.store.all(PodGroup))
        found += self.cluster.store.all(KaiPodGroup)
        return {group.name: group for group in found}

    def grouped(self) -> list[Grouped]:
        """All groups, those with the most pods first."""
        made = []
        for name, group in self.groups.items():
            pods = {pod.name: role_of(pod) for pod in self.pods.values() if group_of(pod) == name}
            spec = group.spec
            if isinstance(group, PodGroup):
                roles = dict(group.spec.min_task_member)
            else:
                roles = {each.name: each.min_member or 0 for each in group.spec.sub_groups}
            made.append(Grouped(spec.min_member, roles, spec.queue, spec.priority_class_name, pods))
        return sorted(made, key=lambda each: (-len(each.pods), sorted(each.pods)))
