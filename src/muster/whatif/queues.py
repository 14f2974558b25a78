"""Another quota, limit, weight or priority for a queue, of Volcano's family or KAI's.

`research.quota=40`, `research.limit.cpu=128`, `research.weight=3`. The words of both families mean the same here: quota
is deserved, limit is capability. Where a queue has several resources the one that is meant has to be named; `gpu`
stands for the GPUs that nodes have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from muster.api import KaiQueue, Node, Pod, Quantity, Queue, UserError
from muster.api.fields import did_you_mean
from muster.api.objects.scheduling import UNLIMITED, Guarantee, KaiQueueResource, KaiQueueResources
from muster.api.resources import CPU, GPU, MEMORY, pod_request
from muster.cluster import MemoryCluster
from muster.whatif.changes import Scene

#: What people write, and what it means.
FIELDS: Final[Mapping[str, str]] = {
    "quota": "quota",
    "deserved": "quota",
    "limit": "limit",
    "capability": "limit",
    "guarantee": "guarantee",
    "weight": "weight",
    "priority": "priority",
}
_FORM: Final = "expected QUEUE.FIELD=VALUE or QUEUE.FIELD.RESOURCE=VALUE, such as research.quota=40"
#: What one unit of KAI's numbers is, in what people write: thousandths of a CPU, millions of bytes.
_KAI_UNITS: Final = {"cpu": 1000.0, "memory": 1e-6, "gpu": 1.0}
_SHORT: Final = {CPU: "cpu", MEMORY: "memory", GPU: "gpu", "gpu": "gpu"}


@dataclass(frozen=True, slots=True)
class SetQueue:
    """One field of one queue."""

    queue: str
    #: A value of `FIELDS`.
    field: str
    value: str
    #: "": the only one that can be meant.
    resource: str = ""

    @property
    def text(self) -> str:
        of = f" of {self.resource}" if self.resource else ""
        return f"{self.field}{of} {self.value} for queue {self.queue}"

    def apply(self, scene: Scene) -> None:
        queue = find_queue(scene.cluster, self.queue)
        if self.field in ("weight", "priority") and not (self.field == "weight" and isinstance(queue, KaiQueue)):
            if self.resource:
                raise UserError(f"a queue has one {self.field}, not one for {self.resource}")
            spec = replace(queue.spec, **{self.field: self._whole()})
            scene.cluster.replace_object(replace(queue, spec=spec))
        elif isinstance(queue, Queue):
            scene.cluster.replace_object(self._volcanos(queue, scene.cluster))
        else:
            scene.cluster.replace_object(self._kais(queue))

    def _whole(self) -> int:
        least = 1 if self.field == "weight" else -(2**31)
        if re.fullmatch(r"-?[0-9]{1,10}", self.value) is None or not least <= int(self.value) < 2**31:
            raise UserError(
                f'{self.field}: expected a whole number{" from 1 on" if least == 1 else ""}, got "{self.value}"'
            )
        return int(self.value)

    def _volcanos(self, queue: Queue, cluster: MemoryCluster) -> Queue:
        name = {"quota": "deserved", "limit": "capability"}.get(self.field, self.field)
        present = queue.spec.guarantee.resource if name == "guarantee" else getattr(queue.spec, name)
        resource = self._resource(present, cluster)
        try:
            amount = Quantity(self.value)
        except ValueError as error:
            raise UserError(f"{self.field} of {resource}: {error}") from None
        if amount.value < 0:
            raise UserError(f'{self.field} of {resource}: expected an amount of zero or more, got "{self.value}"')
        amounts = {**present, resource: amount}
        changed = Guarantee(amounts) if name == "guarantee" else amounts
        return replace(queue, spec=replace(queue.spec, **{name: changed}))

    def _resource(self, present: Collection[str], cluster: MemoryCluster) -> str:
        """The resource that is meant. Raises UserError where several are."""
        gpus = sorted({name for node in cluster.store.all(Node) for name in node.status.allocatable if _is_gpu(name)})
        if self.resource == "gpu" and len(gpus) == 1:
            return gpus[0]
        if self.resource:
            offered = {name for node in cluster.store.all(Node) for name in node.status.allocatable}
            asked = (
                {name for pod in cluster.store.all(Pod) for name in pod_request(pod)}
                if self.resource not in offered
                else set()
            )
            known = {*offered, *asked, *present}
            if self.resource not in known:
                raise UserError(f'no node has "{self.resource}"{did_you_mean(self.resource, known)}')
            return self.resource
        if len(present) == 1:
            return next(iter(present))
        if not present and len(gpus) == 1:
            return gpus[0]
        names = sorted(present) or gpus or [CPU, MEMORY]
        raise UserError(
            f"say which resource is meant, one of {', '.join(names)}: {self.queue}.{self.field}.{names[0]}={self.value}"
        )

    def _kais(self, queue: KaiQueue) -> KaiQueue:
        name = _SHORT.get(self.resource or "gpu")
        field = {"weight": "over_quota_weight"}.get(self.field, self.field)
        if name is None:
            raise UserError(f'queues of KAI know gpu, cpu and memory, got "{self.resource}"')
        if field == "guarantee":
            raise UserError("queues of KAI have no guarantee; their quota is one")
        resources = queue.spec.resources or KaiQueueResources()
        share: KaiQueueResource = getattr(resources, name)
        changed = replace(share, **{field: self._number(name)})
        spec = replace(queue.spec, resources=replace(resources, **{name: changed}))
        return replace(queue, spec=spec)

    def _number(self, name: str) -> float:
        """The amount as KAI writes it; -1 has no end."""
        if self.field != "weight" and self.value in ("-1", "unlimited"):
            return UNLIMITED
        try:
            amount = Quantity(self.value)
        except ValueError as error:
            raise UserError(f"{self.field} of {name}: {error}") from None
        if amount.value < 0:
            raise UserError(f'{self.field} of {name}: expected an amount of zero or more, or -1, got "{self.value}"')
        return float(amount.value) if self.field == "weight" else float(amount.value) * _KAI_UNITS[name]


def _is_gpu(name: str) -> bool:
    return name.endswith("/gpu")


def find_queue(cluster: MemoryCluster, name: str) -> Queue | KaiQueue:
    """The queue of a name, of either family. Raises UserError that names the nearest one."""
    found = cluster.store.get(Queue, name) or cluster.store.get(KaiQueue, name)
    if found is None:
        known = sorted({queue.name for kind in (Queue, KaiQueue) for queue in cluster.store.all(kind)})
        near = did_you_mean(name, known) or f"; there are {', '.join(known[:8])}"
        raise UserError(f'there is no queue "{name}"{near}')
    return found


def parse_queue_change(text: str) -> SetQueue:
    """Read `QUEUE.FIELD[.RESOURCE]=VALUE`. Raises UserError. Names of queues may have dots in them."""
    left, equals, value = text.partition("=")
    parts = left.split(".")
    places = [place for place, part in enumerate(parts) if place and part in FIELDS]
    if not equals or not value or not parts[0] or len(parts) < 2:
        raise UserError(f'{_FORM}, got "{text}"')
    if not places:
        near = did_you_mean(parts[-1], FIELDS) or f"; there are {', '.join(FIELDS)}"
        raise UserError(f'a queue has no "{parts[-1]}" to change{near}')
    # The last word that is a field: what is before it names the queue, what is behind it the resource.
    at = places[-1]
    return SetQueue(".".join(parts[:at]), FIELDS[parts[at]], value, ".".join(parts[at + 1 :]))
