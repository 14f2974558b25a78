"""What limits evictions whatever strategy chooses them: PodDisruptionBudgets, and evicted ÷ requested resources.

A pod may be a victim while the budget that selects it has a disruption left; taking it uses one. A pod that several
budgets select is never one: the eviction API refuses such pods. Pods that were evicted earlier in the session have used
their part already. A selector without conditions selects every pod of its namespace and a missing one selects none, as
the eviction API has it. Differences from Volcano, which never evicts a pod without labels, and does evict those of
several budgets.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from muster.api import Pod, PodDisruptionBudget
from muster.engine.gangs import requests_of
from muster.framework import Session
from muster.snapshot import Mask, Rows, Snapshot, TaskStatus

_log = logging.getLogger(__name__)

_ENDED: Final = frozenset({"Succeeded", "Failed"})
#: So many budgets are named in a sentence.
_NAMED: Final = 3
#: A ratio above this is legal and worth a warning.
WARN_RATIO: Final = 4.0


def allowed_by(
    budgets: Iterable[PodDisruptionBudget],
    pods: Iterable[Pod],
    gone: Iterable[Pod] = (),
    population: Sequence[Pod] = (),
) -> tuple[list[bool], set[str]]:
    """Which pods may go together, taken in the order given, and the names of budgets that keep the others.

    `gone` are counted as taken already; `population` are the pods of the cluster, for budgets whose status nobody has
    written yet.
    """
    books = _Books(budgets, gone, population)
    allowed, kept_by = list[bool](), set[str]()
    for pod in pods:
        names = books.selecting(pod)
        allowed.append(len(names) < 2 and all(books.left[name] > 0 for name in names))
        if allowed[-1]:
            books.left.subtract(names)
        else:
            kept_by.update(names)
    return allowed, kept_by


class _Books:
    """What budgets select, and how many disruptions each has left."""

    def __init__(
        self, budgets: Iterable[PodDisruptionBudget], gone: Iterable[Pod], population: Sequence[Pod] = ()
    ) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        self.left: Counter[str] = Counter()
        for budget in budgets:
            self._by_namespace.setdefault(budget.namespace, []).append(budget)
            self.left[budget.key] = disruptions_allowed(budget, population)
        for pod in gone:
            self.left.subtract(self.selecting(pod))

    def selecting(self, pod: Pod) -> list[str]:
        return [budget.key for budget in self._by_namespace.get(pod.namespace, ()) if selects(budget, pod)]


def disruptions_allowed(budget: PodDisruptionBudget, population: Sequence[Pod] = ()) -> int:
    """How many pods may go now: as the status says, else what follows from the spec and the pods that run."""
    if budget.status is not None:
        return budget.status.disruptions_allowed
    mine = [pod for pod in population if pod.status.phase not in _ENDED and selects(budget, pod)]
    healthy = sum(pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None for pod in mine)
    spec = budget.spec
    if spec.max_unavailable is not None:
        return healthy - (len(mine) - _scaled(spec.max_unavailable, len(mine)))
    # Neither bound given is one that must stay, the API's default.
    return healthy - _scaled(1 if spec.min_available is None else spec.min_available, len(mine))


def _scaled(amount: int | str, count: int) -> int:
    """A number of pods, given as such or as a percentage, rounded up; text that is neither protects everything."""
    if isinstance(amount, int):
        return amount
    text = amount.removesuffix("%")
    if not text.isdecimal():
        return count
    return -(-int(text) * count // 100) if amount.endswith("%") else int(text)


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Does the budget protect the pod?"""
    selector = budget.spec.selector
    if selector is None or budget.namespace != pod.namespace:
        return False
    return selector.matches(pod.metadata.labels)


class Budgets:
    """The PodDisruptionBudgets of a session; what they allow follows from the snapshot whenever it is asked."""

    def __init__(self, session: Session, ignore: bool = False) -> None:  # noqa: FBT001, FBT002 - an option's value
        self._snapshot = session.snapshot
        known = [] if ignore else list(session.snapshot.objects.get("PodDisruptionBudget", {}).values())
        self._budgets = [budget for budget in known if isinstance(budget, PodDisruptionBudget)]
        tasks, unknown = session.snapshot.tasks, any(budget.status is None for budget in self._budgets)
        every = zip(tasks.pods, tasks.status, strict=True) if unknown else ()
        self._population = [pod for pod, status in every if status != TaskStatus.GONE]
        #: Names of the budgets that have kept pods since somebody emptied it.
        self.kept_by: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there is any budget to respect."""
        return bool(self._budgets)

    def allowed(self, tasks: Rows) -> Mask:
        """Which of the tasks may be evicted together now, budgets being used up in the order given."""
        if not self._budgets:
            return np.ones(len(tasks), np.bool_)
        chosen, gone = self._pods(tasks), self._pods(evicted_in_session(self._snapshot))
        allowed, kept_by = allowed_by(self._budgets, chosen, gone, self._population)
        self.kept_by |= kept_by
        return np.array(allowed, np.bool_)

    def _pods(self, tasks: Rows) -> list[Pod]:
        return [self._snapshot.tasks.pods[task] for task in tasks.tolist()]

    def alone(self, tasks: Rows) -> tuple[Mask, Rows, set[str]]:
        """Which of the tasks might go if nobody else did, and the jobs of which not all of them might, likewise.

        Also the names of the budgets that say so.
        """
        table, wanted = self._snapshot.tasks, dict[int, Counter[str]]()
        books = _Books(self._budgets, self._pods(evicted_in_session(self._snapshot)), self._population)
        may_go, bound, kept_by = np.ones(len(tasks), np.bool_), set[int](), set[str]()
        for at, (task, job) in enumerate(zip(tasks.tolist(), table.job[tasks].tolist(), strict=True)):
            names, own = books.selecting(table.pods[task]), wanted.setdefault(job, Counter())
            own.update(names)
            may_go[at] = len(names) < 2 and all(books.left[name] > 0 for name in names)
            if not may_go[at] or any(own[name] > books.left[name] for name in names):
                bound.add(job)
                kept_by.update(names)
        return may_go, np.array(sorted(bound), np.intp), kept_by

    def and_kept_by(self, obstacles: str) -> str:
        """What stands in the way of evicting, with the budgets that do."""
        budgets = f"pods are kept by {told(self.kept_by)}" if self.kept_by else ""
        return ", ".join(filter(None, (obstacles, budgets)))


def told(budgets: set[str]) -> str:
    """Budgets in a sentence."""
    names = sorted(budgets)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"PodDisruptionBudget {', '.join(names[:_NAMED])}{more}"


def evicted_in_session(snapshot: Snapshot) -> Rows:
    """Tasks that leave because somebody evicted them in this session: the cluster does not know of it yet."""
    tasks = snapshot.tasks
    leaving = np.flatnonzero((tasks.status == TaskStatus.RELEASING) | (tasks.status == TaskStatus.PIPELINED)).tolist()
    pods = [tasks.pods[task] for task in leaving]
    # A task that is promised a place and has one already is moved: evicted here, started there.
    chosen = [pod.metadata.deletion_timestamp is None and bool(pod.spec.node_name) for pod in pods]
    return np.array(leaving, np.intp)[np.array(chosen, np.bool_)]


def disruption_ratio(snapshot: Snapshot, victims: Rows, beneficiaries: Rows) -> float:
    """Evicted ÷ requested, of the requested resource where it is largest; pods are not counted as a resource."""
    gone, asked, pods = (
        requests_of(snapshot, victims),
        requests_of(snapshot, beneficiaries),
        snapshot.axis.index["pods"],
    )
    pairs = enumerate(zip(gone.tolist(), asked.tolist(), strict=True))
    return max((evicted / want for column, (evicted, want) in pairs if want > 0 and column != pods), default=0.0)


def within_ratio(snapshot: Snapshot, victims: Rows, beneficiaries: Rows, limit: float | None) -> bool:
    """Whether evicting `victims` for `beneficiaries` stays within the limit; None: no limit, but a warning."""
    ratio = disruption_ratio(snapshot, victims, beneficiaries)
    if limit is not None and ratio > limit:
        return False
    if ratio > WARN_RATIO:
        jobs, tasks = snapshot.jobs, snapshot.tasks
        beneficiary = jobs.records[int(tasks.job[beneficiaries[0]])].id
        _log.warning("eviction ratio=%.1f job=%s victims=%d", ratio, beneficiary, len(victims))
    return True


def warn_of_limit(limit: float | None, action: str) -> None:
    """Say once, when an action starts, that a configured limit is a lax one."""
    if limit is not None and limit > WARN_RATIO:
        _log.warning("maxDisruptionRatio=%g action=%s is above %g", limit, action, WARN_RATIO)
