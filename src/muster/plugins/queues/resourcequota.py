"""Resource quotas: a job waits for admission while its minimum would go beyond the ResourceQuota of its namespace.

What a quota has used is read from its status, which counts pods that wait for a node as well. So of a job's minimum
only what its own pods do not hold already is added, or a job whose pods exist would stand in its own way. Where
nobody has written a status, pods are counted here, those of jobs that wait for admission left out. Jobs that were
admitted, in this cycle or before, keep what they have yet to take. Quotas with scopes hold for some pods only and are
left to the API server. The differences from Volcano: it adds the whole minimum, forgets what was admitted at the end
of a cycle, takes `cpu` and `requests.cpu` for two things, and scoped quotas for plain ones.

For Kubernetes `cpu` and `requests.cpu` are one thing, and so are `pods` and `count/pods`; `limits.cpu` is the sum of
limits. Other names (`count/jobs.batch`, `services`) are nothing that a pod takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from muster.api import Pod, ResourceQuota
from muster.api.resources import format_amount, to_base_all
from muster.framework.plugin import Plugin, Rejection, Vote
from muster.framework.reasons import reason
from muster.snapshot import ALLOCATED_STATUSES, JobPhase, Rows, Snapshot, TaskStatus
from muster.snapshot.columns import OCCUPYING_STATUSES

NAMESPACE_QUOTA = reason(
    "namespace-quota",
    "the ResourceQuota of its namespace has no room for it",
    remedy="wait for pods of the namespace to finish, raise the ResourceQuota, or lower minResources",
)
#: Pods that are done hold nothing of a quota.
_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.GONE)
_LIMITS: Final = "limits."


@dataclass(slots=True)
class Ledger:
    """One quota: its limits, what is taken, and what was promised to admitted jobs."""

    name: str
    hard: dict[str, int]
    taken: dict[str, int]
    #: Names whose use was counted here, without the pods of jobs that wait for admission.
    counted: frozenset[str]
    promised: dict[str, int] = field(default_factory=dict)

    def promise(self, amounts: Mapping[str, int]) -> None:
        for name, amount in amounts.items():
            self.promised[name] = self.promised.get(name, 0) + amount

    def beyond(self, needs: Mapping[str, int], besides: Mapping[str, int]) -> list[str]:
        """The resources for which there is no room, with the numbers; what is not needed is not looked at.

        `besides` is the part of what was promised that does not count.
        """
        lines = []
        for name, need in needs.items():
            taken = self.taken[name] + self.promised.get(name, 0) - besides.get(name, 0)
            if need > 0 and taken + need > self.hard[name]:
                amounts = (format_amount(name, amount) for amount in (need, taken, self.hard[name]))
                lines.append("{1} of {2} {name} taken, {0} needed".format(*amounts, name=name))
        return lines


class ResourceQuotas(Plugin):
    """Admit jobs within the quotas of their namespaces."""

    name = "resourcequota"
    summary = "Admit jobs while their minResources fit into the ResourceQuotas of their namespace."

    def job_enqueueable(self, job: int) -> Vote | Rejection:
        jobs = self.session.snapshot.jobs
        record = jobs.records[job]
        is_in = jobs.phase[job] == JobPhase.INQUEUE  # such a job does not compete with itself
        for ledger in self._ledgers.get(record.namespace, ()) if record.min_resources else ():
            needs = self._needs(job, ledger)
            beyond = ledger.beyond(needs, besides=needs if is_in else {})
            if beyond:
                return Rejection(NAMESPACE_QUOTA, f"ResourceQuota {ledger.name}: {'; '.join(beyond)}")
        return Vote.PERMIT

    def job_enqueued(self, job: int) -> None:
        for ledger in self._ledgers.get(self.session.snapshot.jobs.records[job].namespace, ()):
            ledger.promise(self._needs(job, ledger))

    @cached_property
    def _ledgers(self) -> dict[str, list[Ledger]]:
        """The quotas of every namespace that has some, with what admitted jobs have yet to take."""
        snapshot = self.session.snapshot
        known = snapshot.objects.get("ResourceQuota", {})
        quotas = [quota for _, quota in sorted(known.items()) if isinstance(quota, ResourceQuota)]
        ledgers: dict[str, list[Ledger]] = {}
        for quota in quotas:
            if not quota.spec.scopes and quota.spec.scope_selector is None:
                ledgers.setdefault(quota.namespace, []).append(self._ledger(quota))
        admitted = snapshot.jobs.live & (snapshot.jobs.phase == JobPhase.INQUEUE) if ledgers else np.zeros(0, np.bool_)
        for job in np.flatnonzero(admitted).tolist():
            for ledger in ledgers.get(snapshot.jobs.records[job].namespace, ()):
                ledger.promise(self._needs(job, ledger))
        return ledgers

    def _ledger(self, quota: ResourceQuota) -> Ledger:
        hard = to_base_all(quota.status.hard or quota.spec.hard)
        used = to_base_all(quota.status.used)
        counted = frozenset(name for name in hard if name not in used)
        if counted:
            rows = self._holding.get(quota.namespace, np.empty(0, np.intp))
            used |= usage_of(self.session.snapshot, rows, counted)
        return Ledger(quota.name, hard, {name: used[name] for name in sorted(hard)}, counted)

    @cached_property
    def _holding(self) -> dict[str, Rows]:
        """Tasks by namespace, those of jobs that wait for admission left out unless they have a node."""
        tasks, jobs = self.session.snapshot.tasks, self.session.snapshot.jobs
        waiting = (tasks.job >= 0) & (jobs.phase[tasks.job] == JobPhase.PENDING)
        holds = np.isin(tasks.status, OCCUPYING_STATUSES) | (~waiting & ~np.isin(tasks.status, _ENDED))
        found: dict[str, list[int]] = {}
        for task in np.flatnonzero(holds).tolist():
            found.setdefault(tasks.pods[task].namespace, []).append(task)
        return {namespace: np.array(rows, np.intp) for namespace, rows in found.items()}

    def _needs(self, job: int, ledger: Ledger) -> dict[str, int]:
        """What a job would take of a quota beyond what its pods are counted with."""
        jobs = self.session.snapshot.jobs
        minimum = jobs.records[job].min_resources
        if not minimum:
            return {}
        is_waiting = jobs.phase[job] == JobPhase.PENDING
        needs: dict[str, int] = {}
        for name in ledger.taken:
            amount = amount_under(name, minimum)
            if amount > 0:
                unplaced = not (is_waiting and name in ledger.counted)
                needs[name] = max(0, amount - held_by(self.session.snapshot, job, name, unplaced=unplaced))
        return needs


def plain_name(name: str) -> str:
    """The resource behind the name of a quota, limits aside."""
    return "pods" if name == "count/pods" else name.removeprefix("requests.")


def amount_under(name: str, amounts: Mapping[str, int]) -> int:
    """What a list of amounts says about the name of a quota, by that name or another that means the same."""
    plain = plain_name(name)
    same = (name, plain, "count/pods" if plain == "pods" else f"requests.{plain}")
    return next((amounts[known] for known in same if known in amounts), 0)


def usage_of(snapshot: Snapshot, tasks: Rows, names: Iterable[str]) -> dict[str, int]:
    """What tasks take together, under each of the names."""
    requests: list[int] = np.sum(snapshot.classes.requests[snapshot.tasks.cls[tasks], 0], axis=0).tolist()
    found: dict[str, int] = {}
    for name in names:
        column = snapshot.axis.index.get(plain_name(name))
        if name.startswith(_LIMITS):
            found[name] = _limited(snapshot, tasks, name)
        else:
            found[name] = 0 if column is None else requests[column]
    return found


def held_by(snapshot: Snapshot, job: int, name: str, *, unplaced: bool) -> int:
    """What a job's own pods take under a name; `unplaced`: also those that have no node.

    Read from the sums that the snapshot has, as it is asked for every job that waits. Pods that leave do not count.
    """
    if name.startswith(_LIMITS):
        tasks = snapshot.tasks_of(job)
        statuses = (*ALLOCATED_STATUSES, TaskStatus.PENDING) if unplaced else ALLOCATED_STATUSES
        return _limited(snapshot, tasks[np.isin(snapshot.tasks.status[tasks], statuses)], name)
    column = snapshot.axis.index.get(plain_name(name))
    if column is None:
        return 0
    held = int(snapshot.jobs.allocated[job, column])
    return held + int(snapshot.jobs.pending[job, column]) if unplaced else held


def _limited(snapshot: Snapshot, tasks: Rows, name: str) -> int:
    resource = name.removeprefix(_LIMITS)
    return sum(_limits(snapshot.tasks.pods[task]).get(resource, 0) for task in tasks.tolist())


def _limits(pod: Pod) -> dict[str, int]:
    """The limits of a pod: its containers' together, or those of an init container where that has more."""
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, amount in to_base_all(container.resources.limits).items():
            total[name] = total.get(name, 0) + amount
    for container in pod.spec.init_containers:
        for name, amount in to_base_all(container.resources.limits).items():
            total[name] = max(total.get(name, 0), amount)
    return total
