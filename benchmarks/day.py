"""Case C8: a day of a busy cluster, and what evictions cost it, under each profile.

Three queues share 1,000 nodes. Jobs arrive and end by a seed, more than fit, so that queues borrow, take back and
preempt all day; who is evicted begins anew. Counted are the GPU-hours that evictions threw away beside those done,
evictions for somebody who then did not start, nor a more important job of the queue that came after, and how often the
unluckiest job was evicted, or broken. Beside it stands what they are for: which rule took the work, what jobs waited
for within their quota, and how long the most urgent did.
Run: python -m benchmarks.day [--nodes 1000] [--hours 24] [--days 1] [--only PROFILES or files] [--docs]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.clusters import hyper_node
from benchmarks.measure import calibrate
from benchmarks.report import write_section
from muster.api import KubeObject, NetworkTopology
from muster.cluster import MemoryCluster
from muster.framework import PROFILES, find_config
from muster.scheduler import CycleResult, Scheduler, builtin_registry
from muster.snapshot.messages import Bind, Evict
from muster.testing import node, pod, pod_group, priority_class, queue

NODES, HOURS, SEED = 1000, 24, 8
GPUS = 8
PERIOD = 60.0
_RACK = 16
#: Share of the cluster that each queue is entitled to, and its share of what arrives.
_QUEUES = {"research": (0.5, 0.3), "product": (0.3, 0.5), "students": (0.2, 0.2)}
_PRIORITIES = {"low": 10, "mid": 50, "high": 90}
#: Work that arrives, as a share of what the cluster can do.
_LOAD = 1.3
_MEAN_HOURS = 2.0
#: A beneficiary has so many cycles to start in.
_PATIENCE = 10
#: What evictions are for: a queue's quota, a higher priority of it, pods beyond a minimum, room by moving, nobody.
_CAUSES = ("quota", "priority", "growth", "moves", "broken gangs")


@dataclass(frozen=True, slots=True)
class Job:
    """A gang with its arrival."""

    name: str
    queue: str
    priority: str
    pods: int
    gpus: int
    minimum: int
    arrives: float
    seconds: float
    in_rack: bool

    def objects(self) -> list[KubeObject]:
        group = pod_group(
            self.name, minimum=self.minimum, queue=self.queue, priority_class=self.priority, created=self.arrives
        )
        if self.in_rack:
            group.spec.network_topology = NetworkTopology(mode="hard", highest_tier_allowed=1)
        members = [
            pod(
                f"{self.name}-{number}",
                group=self.name,
                cpu=8 * self.gpus,
                gpu=self.gpus,
                priority_class=self.priority,
                run_seconds=self.seconds,
                grace_seconds=30,
                created=self.arrives,
            )
            for number in range(self.pods)
        ]
        return [group, *members]


def arrivals(nodes: int, hours: float, seed: int = SEED) -> list[Job]:
    """The jobs of a day; half of the cluster is asked for at its beginning."""
    dice = random.Random(seed)  # noqa: S311 - a reproducible workload
    jobs: list[Job] = []
    left = nodes * GPUS * (_LOAD * hours + 0.5 * _MEAN_HOURS)
    while left > 0:
        whole = dice.random() < 0.7
        pods = dice.choice((1, 1, 2, 4, 8, 16, 32)) if whole else dice.choice((1, 2, 4))
        gpus = GPUS if whole else dice.choice((1, 2, 4))
        seconds = round(3600 * min(12.0, max(0.1, dice.lognormvariate(0.3, 0.9))))
        early = dice.random() < 0.5 * _MEAN_HOURS / (_LOAD * hours)
        jobs.append(
            Job(
                name=f"job-{len(jobs)}",
                queue=dice.choices(list(_QUEUES), [share for _, share in _QUEUES.values()])[0],
                priority=dice.choices(list(_PRIORITIES), (6, 3, 1))[0],
                pods=pods,
                gpus=gpus,
                minimum=pods if dice.random() < 0.8 else max(1, pods // 2),
                arrives=0.0 if early else float(dice.randrange(int(3600 * hours))),
                seconds=seconds,
                in_rack=pods <= _RACK and dice.random() < 0.2,
            )
        )
        left -= pods * gpus * seconds / 3600
    return sorted(jobs, key=lambda job: job.arrives)


@dataclass
class Wish:
    """What a job waits for: since which cycle, with so many pods running then, and where others went for it."""

    since: int
    had: int
    nodes: list[str] = field(default_factory=list)


@dataclass
class Ledger:
    """What pods did, and what was lost."""

    jobs: dict[str, Job]
    began: dict[str, float] = field(default_factory=dict)
    done: float = 0.0
    lost: float = 0.0
    #: Of what was lost, GPU-hours by cause.
    lost_for: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    #: GPU-hours that jobs waited for which would have had room within the quota of their queue.
    owed: float = 0.0
    #: When jobs were first seen to have their minimum.
    started: dict[str, float] = field(default_factory=dict)
    evictions: int = 0
    in_vain: int = 0
    #: How often each job lost pods, and how often so many that it had less than its minimum.
    hit: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    #: By beneficiary, what it waits for.
    waiting: dict[str, Wish] = field(default_factory=dict)

    def take(self, cycle: int, now: float, result: CycleResult) -> None:
        """Enter the decisions of a cycle."""
        for made in result.decisions:
            if isinstance(made, Bind):
                self.began[made.pod] = now
                self._pass_on(made)
        for name in [name for name, wish in self.waiting.items() if self._running(name, now) > wish.had]:
            del self.waiting[name]
        for name in [name for name, wish in self.waiting.items() if cycle - wish.since > _PATIENCE]:
            self.in_vain += len(self.waiting.pop(name).nodes)
        gone: defaultdict[str, int] = defaultdict(int)
        for made in result.decisions:
            if isinstance(made, Evict):
                self.evictions += 1
                cause = self._cause(made, now)
                lost = self._job(made.job).gpus * (now - self.began.pop(made.pod, now)) / 3600
                self.lost += lost
                self.lost_for[cause] += lost
                gone[made.job] += 1
                if made.beneficiary:
                    if made.beneficiary not in self.waiting:
                        self.waiting[made.beneficiary] = Wish(cycle, self._running(made.beneficiary, now))
                    self.waiting[made.beneficiary].nodes.append(made.node)
        self.hit.update(dict.fromkeys(gone, 1))
        self.broken.update(name for name in gone if self._running(name, now) < self._job(name).minimum)

    def _pass_on(self, made: Bind) -> None:
        """A pod starts: what went on its node went for it, if its job came later and comes first in the queue."""
        taker = self.jobs[made.pod.removeprefix("default/").rpartition("-")[0]]
        for name, wish in self.waiting.items():
            owner = self._job(name)
            comes_first = _PRIORITIES[taker.priority] > _PRIORITIES[owner.priority] and taker.queue == owner.queue
            if comes_first and taker.arrives > wish.since * PERIOD:
                wish.nodes = [node for node in wish.nodes if node != made.node]

    def _cause(self, made: Evict, now: float) -> str:
        if not made.beneficiary:
            return "broken gangs"
        if (made.record or {}).get("movesTo"):
            return "moves"
        taker = self._job(made.beneficiary)
        if self._running(taker.name, now) >= taker.minimum:
            return "growth"
        return "priority" if taker.queue == self._job(made.job).queue else "quota"

    def wait(self, elapsed: float, now: float, quotas: dict[str, int]) -> None:
        """Enter who waits at the end of a cycle, for a period, and what their queues owe them."""
        held: Counter[str] = Counter()
        for name, began in self.began.items():
            job = self.jobs[name.removeprefix("default/").rpartition("-")[0]]
            held[job.queue] += job.gpus if now - began < job.seconds else 0
        for job in self.jobs.values():
            if job.arrives > elapsed:
                continue
            size = job.minimum * job.gpus
            if self._running(job.name, now) >= job.minimum:
                self.started.setdefault(job.name, elapsed)
            elif held[job.queue] + size <= quotas[job.queue]:
                held[job.queue] += size
                self.owed += size * PERIOD / 3600

    def waited(self, priority: str, elapsed: float) -> float:
        """Mean minutes from arrival to the first start; who has not started waits still."""
        jobs = [job for job in self.jobs.values() if job.priority == priority and job.arrives <= elapsed]
        return sum(self.started.get(job.name, elapsed) - job.arrives for job in jobs) / 60 / max(1, len(jobs))

    def close(self, now: float) -> None:
        """Count what was done by all that ended, or still runs."""
        for name, began in self.began.items():
            job = self.jobs[name.removeprefix("default/").rpartition("-")[0]]
            self.done += job.gpus * min(job.seconds, now - began) / 3600

    def _job(self, name: str) -> Job:
        return self.jobs[name.removeprefix("default/")]

    def _running(self, name: str, now: float) -> int:
        job = self._job(name)
        pods = (f"default/{job.name}-{number}" for number in range(job.pods))
        return sum(pod in self.began for pod in pods)


def live(profile_name: str, nodes: int = NODES, hours: float = HOURS, seed: int = SEED) -> dict[str, Any]:
    """Run a day under a profile, or the configuration in a file; return what is told of it."""
    jobs = arrivals(nodes, hours, seed)
    names = [f"node-{number}" for number in range(nodes)]
    racks = [names[first : first + _RACK] for first in range(0, nodes, _RACK)]
    capacity = nodes * GPUS
    objects: list[KubeObject] = [priority_class(name, value) for name, value in _PRIORITIES.items()]
    objects += [node(name, cpu=96, gpu=GPUS) for name in names]
    objects += [hyper_node(f"rack-{number}", 1, "Node", inside) for number, inside in enumerate(racks)]
    quotas = {name: int(share * capacity) for name, (share, _) in _QUEUES.items()}
    objects += [queue(name, deserved={"gpu": quota}) for name, quota in quotas.items()]
    cluster = MemoryCluster(objects)
    start = cluster.now()
    for job in jobs:
        cluster.at(start + job.arrives, _adds(cluster, job))
    scheduler = Scheduler(cluster, find_config(profile_name), builtin_registry(third_party=False))
    ledger = Ledger({job.name: job for job in jobs})
    began = time.perf_counter()
    cycles = int(3600 * hours / PERIOD)
    for cycle in range(cycles):
        cluster.advance_to(start + cycle * PERIOD)
        result = scheduler.run_once()
        if result.error is not None:
            raise SystemExit(f"{profile_name}: {result.error}")
        ledger.take(cycle, cluster.now(), result)
        ledger.wait(cycle * PERIOD, cluster.now(), quotas)
    ledger.close(cluster.now())
    return {
        "profile": profile_name,
        "seconds": round(time.perf_counter() - began, 1),
        "jobs": len(jobs),
        "gpu_hours": round(ledger.done),
        "of_all": round(capacity * hours),
        "lost_hours": round(ledger.lost, 1),
        **{f"lost_for_{cause}": round(ledger.lost_for[cause], 1) for cause in _CAUSES},
        "owed_hours": round(ledger.owed, 1),
        "mean_high_waits": round(ledger.waited("high", 3600 * hours), 1),
        "evictions": ledger.evictions,
        "in_vain": ledger.in_vain,
        "most_of_one_job": max(ledger.hit.values(), default=0),
        "broken": ledger.broken.total(),
        "most_broken": max(ledger.broken.values(), default=0),
    }


def _adds(cluster: MemoryCluster, job: Job) -> Callable[[], None]:
    return lambda: cluster.add(job.objects())


def result(profile_name: str) -> dict[str, Any]:
    """The case as results.json holds it; `seconds` is for the whole day."""
    told = live(profile_name)
    return {
        "case": f"C8/{profile_name}",
        "work": f"a day of {NODES:,} nodes, {told['jobs']:,} jobs of 3 queues, profile {profile_name}",
        "seconds": told["seconds"],
        "goal_seconds": 0.0,
        "runs": 1,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calibration_seconds": calibrate(),
        "done": {
            "GPU-hours": told["gpu_hours"],
            "% of them lost to evictions": round(_percent(told["lost_hours"], told["gpu_hours"]), 2),
            "evictions": told["evictions"],
            "in vain": told["in_vain"],
            "of one job at most": told["most_of_one_job"],
            "gangs broken": told["broken"],
        },
        "parts": {"snapshot": 0.0, "session": 0.0, "actions": 0.0},
    }


def together(days: list[dict[str, Any]]) -> dict[str, Any]:
    """Several days under one profile as one: sums, and of what is told of one job the most."""
    joined = {"profile": days[0]["profile"]}
    for key in days[0].keys() - {"profile"}:
        values = [day[key] for day in days]
        total = sum(values) / len(values) if key.startswith("mean_") else sum(values)
        joined[key] = max(values) if key.startswith("most_") else round(total, 1)
    return joined


def _percent(part: float, whole: float) -> float:
    return 100 * part / max(1.0, whole)


def table(rows: list[dict[str, Any]], nodes: int, hours: float, days: int) -> str:
    """What was told of days, one row per profile, as a Markdown table."""
    several = f"{days} days of {hours:g} hours" if days > 1 else f"{hours:g} hours"
    lines = [
        f"{nodes:,} nodes, {several}, {rows[0]['jobs']:,} jobs:",
        "",
        "| profile | GPU-hours done | of all | lost to evictions | evicted | in vain | of one job | gangs broken |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['profile']} | {row['gpu_hours']:,} | {_percent(row['gpu_hours'], row['of_all']):.1f} % "
        f"| {_percent(row['lost_hours'], row['gpu_hours']):.2f} % | {row['evictions']:,} | {row['in_vain']:,} "
        f"| {row['most_of_one_job']} | {row['broken']}, one job {row['most_broken']} times at most |"
        for row in rows
    ]
    causes = " | ".join(f"lost for {cause}" for cause in _CAUSES)
    lines += [
        "",
        f"| profile | {causes} | owed within quota | high priority waits |",
        f"|---|{'---|' * len(_CAUSES)}---|---|",
    ]
    for row in rows:
        parts = [f"{_percent(row[f'lost_for_{cause}'], row['gpu_hours']):.2f} %" for cause in _CAUSES]
        owed = f"{row['owed_hours']:,.0f} GPU-hours"
        lines.append(f"| {row['profile']} | {' | '.join(parts)} | {owed} | {row['mean_high_waits']:.1f} min |")
    return "\n".join(lines)


def main() -> int:
    """Run the days and print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.day", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--days", type=int, default=1, help="so many days, each with other jobs")
    parser.add_argument("--only", default="", help="profiles, or files, separated by commas (default: all profiles)")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/performance.md")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else PROFILES
    rows = []
    for name in chosen:
        days = []
        for seed in range(SEED, SEED + options.days):
            days.append(live(name, options.nodes, options.hours, seed))
            print(json.dumps({"seed": seed, **days[-1]}), flush=True)
        rows.append(together(days))
    made = table(rows, options.nodes, options.hours, options.days)
    if options.docs:
        write_section("day", made)
    print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
