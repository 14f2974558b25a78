"""KAI's function cases about fair shares: the division, the order of queues, limits, and who may reclaim.

Cases give queues with their numbers, so adapters lay the numbers out as the columns that the plugin's parts work on.
Amounts are scaled to integers: GPUs to thousandths, or finer where a case has finer fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

import numpy as np

from conformance.cases import Body
from conformance.results import Value
from muster.plugins.queues.fairshare.division import Claims, divide, divide_surplus
from muster.plugins.queues.fairshare.rules import Charges, QueueTurns, ReclaimRules
from muster.plugins.queues.fairshare.tree import Bounds, Entitlements, FairShares, Line, divide_tree
from muster.snapshot import UNLIMITED, Amounts, QueueRecord

#: In column order; as queues, totals and requests call them.
_RESOURCES = ("cpu", "memory", "gpu")
_TOTALS = ("CPU", "Memory", "GPU")
_REQUESTS = ("milliCpu", "memory", "gpu")
_COLUMNS = (0, 1, 2)
_GPU = 2


class _Picture:
    """The queues of a case as columns."""

    def __init__(self, queues: Sequence[Body], total: Body | None = None) -> None:
        self.queues = queues
        self.names = [queue["name"] for queue in queues]
        self.units = np.array([1, 1, _gpu_unit([*_numbers(queues), *(total or {}).values()])], np.int64)
        self.total = self.row(total or {}, _TOTALS)
        self.lines = [self._line(queue) for queue in queues]

    def row(self, amounts: Body, keys: Sequence[str]) -> Amounts:
        return np.array([self.amount(column, amounts.get(keys[column], 0)) for column in _COLUMNS], np.int64)

    def amount(self, column: int, given: float | str) -> int:
        """Convert to base units; -1 has no end, and a GPU request that is not a number is none."""
        if given == "NaN":
            return 0
        return int(UNLIMITED) if given == -1 else int(Decimal(str(given)) * int(self.units[column]))

    def table(self, key: str) -> Amounts:
        return np.array(
            [
                [self.amount(column, (queue.get(name) or {}).get(key, 0)) for column, name in enumerate(_RESOURCES)]
                for queue in self.queues
            ],
            np.int64,
        )

    def _line(self, queue: Body) -> Line:
        line = [self.names.index(queue["name"])]
        while parent := self.queues[line[-1]].get("parent"):
            line.append(self.names.index(parent))
        return tuple(line)

    def shares(self) -> FairShares:
        """The entitlements, with the fair shares that the case gives."""
        quota = self.table("deserved")
        return FairShares(
            quota,
            self.table("limit"),
            quota,
            self.table("fairShare"),
            self.total,
            self.lines,
            _COLUMNS,
            _COLUMNS,
            self.units,
        )

    def shown(self, fair: Amounts) -> Body:
        """Fair shares by queue, in the units of the case."""
        return {
            name: {resource: int(row[column]) / int(self.units[column]) for column, resource in enumerate(_RESOURCES)}
            for name, row in zip(self.names, fair, strict=True)
        }


def _numbers(queues: Iterable[Body]) -> list[float]:
    return [number for queue in queues for number in (queue.get("gpu") or {}).values()]


def _gpu_unit(numbers: Iterable[object]) -> int:
    """How many base units a GPU has, so that all numbers are whole."""
    places = [-int(Decimal(str(number)).as_tuple().exponent) for number in numbers]
    unit: int = 10 ** max(3, *places, 0)
    return unit


# -- the division ----------------------------------------------------------------------------------------------


def _one_resource(given: Body, *, only_surplus: bool) -> Value:
    """Siblings and one pot."""
    column = _TOTALS.index(given["resource"])
    picture = _Picture(given["queues"], {given["resource"]: given["total"]})
    demand = np.minimum(picture.table("request"), picture.table("limit"))
    count = len(picture.names)
    claims = Claims(
        pot=np.zeros(count, np.intp),
        quota=picture.table("deserved")[:, column],
        demand=demand[:, column],
        weight=_plain(picture, "overQuotaWeight")[:, column],
        usage=_plain(picture, "usage")[:, column],
        priority=np.array([queue.get("priority", 0) for queue in picture.queues], np.intp),
        rank=np.argsort(np.argsort(picture.names)).astype(np.intp),
        unit=np.full(count, picture.units[column], np.int64),
    )
    pot, k = picture.total[column : column + 1], given["k"]
    start = picture.table("fairShare")
    share, left = divide_surplus(pot, claims, start[:, column], k) if only_surplus else divide(pot, claims, k)
    start[:, column] = share
    return {"fairShare": picture.shown(start), "remaining": int(left[0]) / int(picture.units[column])}


def _plain(picture: _Picture, key: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Numbers that are no amounts."""
    return np.array([[(queue.get(name) or {}).get(key, 0) for name in _RESOURCES] for queue in picture.queues], float)


def _tree(given: Body) -> Body:
    picture = _Picture(given["queues"], given["total"])
    limits = picture.table("limit")
    quota = picture.table("deserved")
    said = Entitlements(quota, limits, quota, _plain(picture, "overQuotaWeight"), np.ones(limits.shape, np.bool_))
    records = [QueueRecord(queue["name"], priority=queue.get("priority", 0)) for queue in picture.queues]
    usage, k = _plain(picture, "usage"), given.get("k", 0)
    request = picture.table("request")
    fair = divide_tree(records, said, picture.lines, picture.total, request, picture.units, usage, k)
    return {"fairShare": picture.shown(fair)}


def _siblings(given: Body) -> Value:
    """As `_tree`; a case that calls its queues `queue-1` in the input calls them `1` in the output."""
    answer = _tree(given)
    return {"fairShare": {name.removeprefix("queue-"): row for name, row in answer["fairShare"].items()}}


# -- order -----------------------------------------------------------------------------------------------------


def _turn(given: Body) -> Value:
    """Who is first: -1 the left queue, 1 the right one."""
    picture = _Picture([given["left"], given["right"]], given.get("total"))
    turns = QueueTurns(picture.shares(), [queue.get("priority", 0) for queue in picture.queues])
    held = picture.table("allocated").tolist()
    nothing = [0, 0, 0]
    left, right = (
        turns.key(row, held[row], _job_request(picture, given.get(side), given["minNodeGpuMemory"]), nothing)
        for row, side in enumerate(("leftJob", "rightJob"))
    )
    return -1 if left < right else 1 if right < left else 0


def _job_request(picture: _Picture, job: Body | None, gpu_memory: int) -> list[int]:
    """What a job's tasks ask for; memory of GPUs counts as the part of the smallest GPU that it is."""
    total = np.zeros(len(_COLUMNS), np.int64)
    for task in (job or {}).get("tasks") or ():
        memory = task.get("gpuMemory", 0)
        gpus = task["gpuDevices"] * memory / gpu_memory if memory else task["gpus"]
        total += picture.row({**task, "gpu": gpus}, _REQUESTS)
    return [int(amount) for amount in total]


# -- limits ----------------------------------------------------------------------------------------------------


def _capacity(given: Body, *, limits: bool, quotas: bool) -> Value:
    picture = _Picture(given["queues"])
    shares = picture.shares()
    queue = picture.names.index(given["job"]["queue"])
    wanted = _wanted(picture, given)
    if limits and Bounds(shares, shares.limits).excess(queue, wanted, picture.table("allocated")):
        return {"schedulable": False, "reason": "OverLimit"}
    firm = picture.table("allocatedNonPreemptible")
    bound_by_quota = quotas and not given["job"]["preemptible"]
    if bound_by_quota and Bounds(shares, shares.firm_limits).excess(queue, wanted, firm):
        return {"schedulable": False, "reason": "NonPreemptibleOverQuota"}
    return {"schedulable": True}


def _wanted(picture: _Picture, given: Body) -> list[int]:
    if "requested" in given:
        rows = [picture.row(given["requested"], _TOTALS)]
    elif "requestedOnNode" in given:
        rows = [picture.row(given["requestedOnNode"], _REQUESTS)]
    else:
        rows = [picture.row({**task, "gpu": task["gpuQuota"]}, _REQUESTS) for task in given["tasks"]]
    return [int(amount) for amount in np.sum(rows, axis=0)]


# -- reclaim ---------------------------------------------------------------------------------------------------


def _can_reclaim(given: Body) -> Value:
    picture = _Picture(given["queues"])
    rules = ReclaimRules(picture.shares(), given["saturationMultiplier"])
    return _may_begin(picture, rules, given["reclaimer"])


def _may_begin(picture: _Picture, rules: ReclaimRules, reclaimer: Body) -> bool:
    queue = picture.names.index(reclaimer["queue"])
    wanted = picture.row(reclaimer["resources"], _REQUESTS).tolist()
    held, firm = (picture.table(key)[queue].tolist() for key in ("allocated", "allocatedNonPreemptible"))
    fits = reclaimer["preemptible"] or rules.within_firm_limit(queue, firm, wanted)
    return rules.within_share(queue, held, wanted) and fits


def _reclaim(given: Body) -> Value:
    picture = _Picture(given["queues"])
    rules = ReclaimRules(picture.shares(), given["saturationMultiplier"], unrequested=True)
    reclaimer = given["reclaimer"]
    queue = picture.names.index(reclaimer["queue"])
    wanted = picture.row(reclaimer["resources"], _REQUESTS).tolist()
    firm = picture.table("allocatedNonPreemptible").tolist()
    charges = Charges(rules, queue, wanted, picture.table("allocated"))
    for name, units in given["victimsByQueue"].items():
        giver = picture.names.index(name)
        for unit in units:
            if not charges.may_give(giver):
                return False
            charges.take(giver, picture.row(unit, _REQUESTS).tolist())
    firmly = all(rules.within_firm_limit(row, firm[row], wanted) for row in picture.lines[queue])
    return charges.stays_in_bounds() and (reclaimer["preemptible"] or firmly)


def _pair(given: Body) -> tuple[_Picture, ReclaimRules, list[int]]:
    """Taker and giver as rows 0 and 1, and what is left to the giver."""
    picture = _Picture([given["reclaimerQueue"], given["reclaimeeQueue"]])
    left = picture.row(given["reclaimeeRemaining"], _TOTALS).tolist()
    return picture, ReclaimRules(picture.shares()), left


def _gives_surplus(given: Body) -> Value:
    _, rules, left = _pair(given)
    return rules.gives_surplus(1, left)


def _owes_quota(given: Body) -> Value:
    picture, rules, left = _pair(given)
    wanted = picture.row(given["reclaimer"], _REQUESTS).tolist()
    return rules.owes_quota(0, picture.table("allocated")[0].tolist(), wanted, 1, left)


ADAPTERS: dict[str, Callable[[Body], Value]] = {
    "setFairShare": _tree,
    "SetResourcesShare": _siblings,
    "setResourceShare": lambda given: _one_resource(given, only_surplus=False),
    "divideOverQuotaResource": lambda given: _one_resource(given, only_surplus=True),
    "GetQueueOrderResult": _turn,
    "IsJobOverQueueCapacity": lambda given: _capacity(given, limits=True, quotas=True),
    "IsTaskAllocationOnNodeOverCapacity": lambda given: _capacity(given, limits=True, quotas=True),
    "IsNonPreemptibleJobOverQuota": lambda given: _capacity(given, limits=False, quotas=True),
    "resultsOverLimit": lambda given: _capacity(given, limits=True, quotas=False),
    "resultsWithNonPreemptibleOverQuota": lambda given: _capacity(given, limits=False, quotas=True),
    "CanReclaimResources": _can_reclaim,
    "Reclaimable": _reclaim,
    "MaintainFairShare": _gives_surplus,
    "GuaranteeDeservedQuota": _owes_quota,
}
