"""Whole runs of contending jobs in every profile: who is evicted, for whom, and that it comes to an end.

Jobs do not change: pods run for ever, and who is evicted waits again. Judged from the decisions and the facts of the
world, without the code that chose.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, groupby
from typing import Any, cast

import pytest
from hypothesis import event, given, settings
from msgspec.structs import replace

from muster.api import Pod
from muster.api.names import PREEMPTABLE
from muster.cluster import MemoryCluster
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Bind, Evict, Nominate
from tests.properties.busy_worlds import CPUS, PRIORITIES, START, Job, World, worlds
from tests.properties.known_worlds import KNOWN

Facts = dict[str, Any]  # Any: a JSON document

REGISTRY = builtin_registry(third_party=False)
CYCLES = 150
#: From an eviction to the start of whom it was for.
PATIENCE = 10
#: So long nothing happens before a run is over, in steps of so much.
_QUIET, _STRIDE = 90.0, 20.0
#: So many cycles after an eviction its beneficiary is watched.
_SOON = 25
PROFILES = ("muster", "volcano", "kai")


@dataclass
class Cycle:
    """What a cycle found and did: pods that ran before it, and its evictions."""

    number: int
    now: float
    #: Job -> names of pods that had a node and were not leaving.
    held: dict[str, set[str]]
    evictions: list[Evict]
    binds: list[Bind]
    #: Pods that were promised a place.
    promised: frozenset[str] = frozenset()

    def pods_of(self, job: Job) -> set[str]:
        """The pods of a job that had a node or got one."""
        return self.held.get(job.name, set()) | {made.pod for made in self.binds if made.pod in job.pod_names()}

    def has(self, job: Job) -> int:
        """How many pods of a job have a node at its end, but for evictions."""
        return len(self.pods_of(job))


@dataclass
class Run:
    """A world that has run."""

    world: World
    cycles: list[Cycle] = field(default_factory=list)

    @property
    def evictions(self) -> Iterator[tuple[Cycle, Evict]]:
        return ((cycle, made) for cycle in self.cycles for made in cycle.evictions)

    def job(self, name: str) -> Job:
        """The job that the scheduler calls so: "namespace/name", for a lone pod "namespace/pod/name"."""
        return next(job for job in self.world.jobs if name in (f"{job.namespace}/{job.name}", _lone(job)))

    def after(self, cycle: Cycle) -> list[Cycle]:
        return self.cycles[cycle.number + 1 :]

    def next_to(self, cycle: Cycle) -> list[Cycle]:
        """The cycles soon after it, until others may be evicted than before.

        That is when a minimum runtime ends, or what is left of a broken gang is taken away.
        """
        began = [START - job.age for job in self.world.jobs if job.on]
        began += [earlier.now for earlier in self.cycles[: cycle.number + 1] if earlier.binds or earlier is cycle]
        ends = [since + self.world.runtime for since in began if since + self.world.runtime > cycle.now]
        stale = (later.now for later in self.after(cycle) for made in later.evictions if not made.beneficiary)
        end = min(*ends, next(stale, math.inf), math.inf)
        return [later for later in self.after(cycle)[:_SOON] if later.now < end]


def _lone(job: Job) -> str:
    return f"{job.namespace}/pod/{job.name}-0"


def run(world: World, profile_name: str, cycles: int = CYCLES, firm: Collection[str] = ()) -> Run:
    """Let a world run; `firm`: pods that nobody may take in the last of so many cycles."""
    cluster = MemoryCluster(world.objects(), start=START)
    scheduler = Scheduler(cluster, profile(profile_name), REGISTRY)
    done = Run(world)
    busy_until = START
    owners = {pod: job.name for job in world.jobs for pod in job.pod_names()}
    for number in range(cycles):
        held: defaultdict[str, set[str]] = defaultdict(set)
        for one in cluster.store.all(Pod):
            if number == cycles - 1 and one.key in firm:
                notes = one.metadata.annotations | {PREEMPTABLE: "false"}
                cluster.store.put(replace(one, metadata=replace(one.metadata, annotations=notes)))
            if one.spec.node_name and one.metadata.deletion_timestamp is None:
                held[owners[one.key]].add(one.key)
        result = scheduler.run_once()
        assert result.error is None
        assert result.failures == ()
        evictions = [made for made in result.decisions if isinstance(made, Evict)]
        binds = [made for made in result.decisions if isinstance(made, Bind)]
        promised = frozenset(made.pod for made in result.decisions if isinstance(made, Nominate))
        done.cycles.append(Cycle(number, cluster.now(), dict(held), evictions, binds, promised))
        resting = not (evictions or binds or cluster.store.has_events) and cluster.next_event_at() is None
        if resting and cluster.now() > busy_until + _QUIET:
            break
        busy_until = busy_until if resting else cluster.now()
        # Nothing but the clock can change anything: minimum runtimes end, gangs become stale.
        cluster.advance_to(cluster.now() + (_STRIDE if resting else 1.0))
    return done


def check_served(done: Run) -> None:
    """Whoever is evicted for somebody is evicted for one who starts, or grows; nobody else goes for it meanwhile."""
    for cycle, made in done.evictions:
        if not made.beneficiary:
            continue
        job = done.job(made.beneficiary)
        # What it loses in the same cycle to another does not count as had: it may be for that that it looks for room.
        left = cycle.pods_of(job) - {other.pod for other in cycle.evictions}
        least = max(len(left) + 1, job.minimum)
        for later in done.after(cycle)[:PATIENCE]:
            if later.has(job) >= least:
                break
            again = [other.pod for other in later.evictions if other.beneficiary == made.beneficiary]
            assert not again, f"{again} go for {made.beneficiary}, for which {made.pod} went in cycle {cycle.number}"
        else:
            raise AssertionError(
                f"{made.pod} went in cycle {cycle.number} for {made.beneficiary}, which does not start"
            )


def check_end(done: Run, profile_name: str) -> None:
    """Evictions end: no more cycles have evictions than there are jobs; in KAI, where gangs grow one by one, pods."""
    busy = [cycle.number for cycle in done.cycles if cycle.evictions]
    most = sum(job.pods for job in done.world.jobs) if profile_name == "kai" else len(done.world.jobs)
    assert len(busy) <= most, f"evictions in cycles {busy}"


def check_protected(done: Run, profile_name: str) -> None:
    """Nobody goes who must not."""
    for cycle, made in done.evictions:
        job = done.job(made.job)
        assert job.firm != "system", f"{made.pod} is a system pod"
        assert job.firm != "mark", f"{made.pod} says that it is not preemptable"
        assert job.firm != "group" or not made.beneficiary, f"{made.pod} is of a job that is not preemptible"
        if profile_name == "volcano":
            continue  # has neither of these plugins
        left = cycle.held[job.name] - {other.pod for other in cycle.evictions}
        assert len(left) >= job.budget, f"{made.pod}: the budget keeps {job.budget}"
        if job.minimum and done.world.runtime and made.beneficiary:
            began = _began(done, job, cycle)
            if len(left) < job.minimum:
                assert cycle.now - began >= done.world.runtime, f"{made.pod} has run since {began}, now {cycle.now}"


def _began(done: Run, job: Job, cycle: Cycle) -> float:
    """When the gang was last seen to begin, at the latest: who comes back beside pods that stayed begins not anew."""
    began = START - job.age if job.on else START
    runs = bool(job.on)
    for earlier in done.cycles[: cycle.number + 1]:
        has = bool(earlier.held.get(job.name))
        if has and not runs:
            began = earlier.now - 1.0
        runs = has
    return began


def check_minimums(done: Run, profile_name: str) -> None:
    """A gang that goes on after an eviction has what each role needs, and the sub-group that it needs.

    Volcano takes pods node by node, and breaks gangs where nobody else would do; there, what each role and sub-group
    needs is kept while others can be spared.
    """
    for cycle in done.cycles:
        gone = {made.pod for made in cycle.evictions if made.beneficiary}
        for job in done.world.jobs:
            had = cycle.pods_of(job)
            left = had - gone
            if left == had or len(left) < max(1, job.minimum) or _ends(job, cycle) or _holds(job, left):
                continue
            is_needless = profile_name != "volcano" or _could_stay(done, profile_name, cycle, job)
            assert not is_needless, f"{job.name} keeps {sorted(left)} in cycle {cycle.number}"


def _holds(job: Job, pods: Collection[str]) -> bool:
    """Whether a gang has its minimum with these pods alone, that of each role, and a sub-group."""
    parts = Counter(_number(pod) // job.part for pod in pods) if job.part else Counter({0: 1})
    roles = Counter(job.role(_number(pod)) for pod in pods)
    return (
        len(pods) >= max(1, job.minimum)
        and max(parts.values(), default=0) >= max(1, job.part)
        and all(roles[role] >= least for role, least in job.roles.items())
    )


def _could_stay(done: Run, profile_name: str, cycle: Cycle, job: Job) -> bool:
    """Whether the one who broke a gang gets its places as well where some minimum that was left to it is firm."""
    gone = [made for made in cycle.evictions if made.pod in job.pod_names()]
    left = [cycle.held[job.name] - {made.pod for made in gone[:count]} for count in range(len(gone) + 1)]
    taker = next((made.beneficiary for made, after in zip(gone, left[1:], strict=True) if not _holds(job, after)), "")
    began = next(count for count, made in enumerate(gone) if made.beneficiary == taker)
    pods = cycle.promised & set(done.job(taker).pod_names())
    kept = filter(partial(_holds, job), combinations(sorted(left[began]), job.minimum))
    others = (run(done.world, profile_name, cycle.number + 1, firm).cycles[-1] for firm in kept)
    return any(pods <= other.promised | {made.pod for made in other.binds} for other in others)


def _ends(job: Job, cycle: Cycle) -> bool:
    """Whether a gang is said to go whole: what it has elsewhere goes as a stale gang."""
    records = [cast("Facts", made.record or {}) for made in cycle.evictions if made.pod in job.pod_names()]
    return any(record.get("bundle", {}).get("kind") == "whole" for record in records)


def _number(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def check_records(done: Run) -> None:
    """What the record of an eviction claims is what the world shows."""
    for cycle, made in done.evictions:
        record = made.record
        if record is None or not made.beneficiary:
            continue
        assert record["beneficiary"] == made.beneficiary
        if "bundle" in record:
            _check_bundle(done, cycle, made, cast("Facts", record))
        elif "node" in record:
            assert record["node"] == made.node
            assert 1 <= cast("int", record["victims"]) <= cast("int", record["candidates"])
        else:
            moved, victims = cast("int", record["moved"]), cast("int", record["victims"])
            assert 0 <= moved <= victims
            told = record["movesTo"] or record.get("placeTakenBy") or moved < victims
            assert told, f"{made.pod} moves, and nobody says where"
            assert not (record["movesTo"] and record.get("placeTakenBy")), f"{made.pod} moves to a place of another"
        for runner_up in (record.get("nextBundle"), record.get("nextVictim")):
            if runner_up is not None:
                _check_runner_up(done, made, cast("Facts", runner_up))


def _check_bundle(done: Run, cycle: Cycle, made: Evict, record: Facts) -> None:
    bundle, job = record["bundle"], done.job(made.job)
    assert bundle["job"] == made.job
    assert made.pod in bundle["tasks"]
    assert bundle["frees"]["nvidia.com/gpu"] == str(job.gpus * len(bundle["tasks"]))
    gone = {other.pod: other for other in cycle.evictions if other.job == made.job}
    left = cycle.pods_of(job) - set(gone)
    kinds = {
        cast("Facts", other.record)["bundle"]["kind"] for other in gone.values() if "bundle" in (other.record or {})
    }
    if kinds == {"safe"}:
        assert len(left) >= job.minimum, f"{made.job} is said to spare {sorted(gone)}"
    if bundle["kind"] == "broken":
        others = {pod for pod, other in gone.items() if other.beneficiary != made.beneficiary}
        had = len(cycle.pods_of(job) - others)
        assert had < job.minimum or job.roles or job.part, f"{made.job} is said to be broken"
    if bundle["kind"] == "whole":
        is_broken = len(left) < max(1, job.minimum) or job.roles or job.part
        assert is_broken, f"{made.job} is said to go whole and keeps {sorted(left)}"


def _check_runner_up(done: Run, made: Evict, told: Facts) -> None:
    """Where a priority is given as the reason, it is that of the one who stays, above that of the one who goes."""
    found = re.search(r"its (?:job has the )?priority (-?\d+)(?: is|,) above (-?\d+)", told["reason"])
    if found is None:
        return
    stays = next(
        job for job in done.world.jobs if told["name"] in (*job.pod_names(), f"{job.namespace}/{job.name}", _lone(job))
    )
    pair = (PRIORITIES[stays.priority], PRIORITIES[done.job(made.job).priority])
    assert tuple(map(int, found.groups())) == pair
    assert pair[0] > pair[1]


def check_growth(done: Run) -> None:
    """Who has its minimum takes from others what they can spare, and no more."""
    for cycle in done.cycles:
        for victim in done.world.jobs:
            had = cycle.pods_of(victim)
            for_growth = {
                made.pod
                for made in cycle.evictions
                if made.pod in had and made.beneficiary and _has_minimum(done.job(made.beneficiary), cycle)
            }
            if for_growth and len(had) >= victim.minimum:
                left = len(had - for_growth)
                assert left >= max(1, victim.minimum), f"{sorted(for_growth)} go for somebody that has its minimum"


def _has_minimum(job: Job, cycle: Cycle) -> bool:
    return _holds(job, cycle.held.get(job.name, set()) - {made.pod for made in cycle.evictions})


def check_next(done: Run) -> None:
    """Nobody goes for one who would be evicted next: who has started for an eviction is not broken soon after.

    Who is moved loses nothing, so moving may serve one that a higher priority replaces later.
    """
    for cycle, made in done.evictions:
        if not made.beneficiary or (made.record or {}).get("movesTo"):
            continue
        job, started = done.job(made.beneficiary), False
        names = set(job.pod_names())
        for later in done.next_to(cycle):
            started = started or any(bind.pod in names for bind in later.binds)
            gone = [other for other in later.evictions if other.pod in names and other.beneficiary]
            gone = [other for other in gone if not (other.record or {}).get("movesTo")]
            left = len(later.held.get(job.name, ())) - len(gone)
            assert not (started and gone and left < max(1, job.minimum)), (
                f"{made.pod} went for {made.beneficiary} in cycle {cycle.number}, "
                f"which is broken for {gone[0].beneficiary} in cycle {later.number}"
            )


def check_kept(done: Run) -> None:
    """What somebody got beyond its minimum at the cost of others is not taken from it next."""
    for cycle, made in done.evictions:
        if not made.beneficiary or not _has_minimum(done.job(made.beneficiary), cycle):
            continue
        job = done.job(made.beneficiary)
        for later in done.next_to(cycle):
            gone = [other for other in later.evictions if other.pod in job.pod_names() and other.beneficiary]
            assert not gone, (
                f"{made.pod} went in cycle {cycle.number} so that {made.beneficiary} grows, "
                f"which loses {gone[0].pod} for {gone[0].beneficiary} in cycle {later.number}"
            )


def check_quota(done: Run) -> None:
    """Between queues nothing is taken from one that has no more than is its own, where the ways of the two part.

    That is its quota of GPUs. Of CPUs nobody has a quota: who asks for them may take what is more than an equal share.
    """
    world = done.world
    for cycle in done.cycles:
        pods = Counter({job.name: cycle.has(job) for job in world.jobs})
        pods += _promised_freely(done, cycle) + _moving(done, cycle)
        # Whose new place is given to others is lost after all who went.
        ordered = sorted(cycle.evictions, key=lambda made: "placeTakenBy" in (made.record or {}))
        for beneficiary, evictions in groupby(ordered, key=_taker):
            taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
            asks_cpus = False
            for made in evictions:
                victim = done.job(made.job)
                # Who comes before the one that they were chosen for has what that one may take.
                claims = str((made.record or {}).get("chosenFor") or beneficiary)
                asks_cpus |= bool(claims) and done.job(claims).cpu > 0
                if beneficiary and not (made.record or {}).get("movesTo"):  # who moves is not taken from its queue
                    taken[_parting(world, victim.queue, done.job(beneficiary).queue)][victim.name] += 1
            for queue, units in taken.items():
                if queue:
                    gpus = _before_last(world, queue, pods, units, "gpus")
                    cpus = _before_last(world, queue, pods, units, "cpu") if asks_cpus else 0
                    assert gpus > _quota(world, queue) or cpus > _cpu_share(world, queue), (
                        f"{queue} has {gpus} of {_quota(world, queue)} GPUs, {cpus} of {_cpu_share(world, queue)} CPUs "
                        f"when the last of {dict(units)} goes for {beneficiary} in cycle {cycle.number}"
                    )
                pods -= units
            if beneficiary:  # what it was promised counts for those who come after it
                job = done.job(beneficiary)
                pods[job.name] += len(cycle.promised & set(job.pod_names()))


def _promised_freely(done: Run, cycle: Cycle) -> Counter[str]:
    """Pods that were promised room for which nobody went, as far as they have it soon: they count for their queue."""
    served = {_taker(made) for made in cycle.evictions}
    soon = {made.pod for later in done.after(cycle)[:2] for made in later.binds}
    jobs = [job for job in done.world.jobs if not served & {f"{job.namespace}/{job.name}", _lone(job)}]
    return Counter({job.name: len(soon & set(job.pod_names())) for job in jobs})


def _moving(done: Run, cycle: Cycle) -> Counter[str]:
    """Pods that were moved in the cycle before: their new places count for their queue."""
    before = done.cycles[cycle.number - 1].evictions if cycle.number else []
    records = ((made.job, made.record or {}) for made in before)
    return Counter(
        done.job(job).name for job, record in records if record.get("movesTo") and "placeTakenBy" not in record
    )


def _before_last(world: World, queue: str, pods: Counter[str], units: Counter[str], resource: str) -> int:
    """What a queue has of a resource when the last of several gangs goes: a rigid one may leave it with less."""
    each: dict[str, int] = {job.name: getattr(job, resource) for job in world.jobs}
    has = sum(pods[job.name] * each[job.name] for job in world.jobs if queue in _path(world, job.queue))
    gone = [each[name] * count for name, count in units.items()]
    return has - sum(gone) + max(gone)


def _quota(world: World, queue: str) -> int:
    """How many GPUs a queue is guaranteed: no more than its limit lets it have."""
    quota = world.queues[queue][1]
    return min(quota, world.limits.get(queue, quota))


def _cpu_share(world: World, queue: str) -> float:
    """How many CPUs at least are a queue's fair share, if it has a use for them: siblings have equal weights."""
    parent = world.queues[queue][0]
    siblings = sum(above == parent for above, _ in world.queues.values())
    return (_cpu_share(world, parent) if parent else CPUS * len(world.nodes)) / siblings


def _taker(made: Evict) -> str:
    """For whom a pod is lost: who made it leave, or who took the place that it was to move to."""
    return str((made.record or {}).get("placeTakenBy") or made.beneficiary)


def _path(world: World, queue: str) -> list[str]:
    """The queue and those above it."""
    found = []
    while queue:
        found.append(queue)
        queue = world.queues[queue][0]
    return found


def _parting(world: World, queue: str, other: str) -> str:
    """The queue, of the first one and those above it, below which the two have nothing in common; "": none."""
    above = _path(world, other)
    return next((one for one in reversed(_path(world, queue)) if one not in above), "")


def check_limits(done: Run) -> None:
    """No queue gets more than its limit; what it has beyond that from the beginning it may keep."""
    world = done.world
    for queue, limit in world.limits.items():
        below = [job for job in world.jobs if queue in _path(world, job.queue)]
        most = max(limit, sum(job.gpus * len(job.on) for job in below))
        for cycle in done.cycles:
            has = sum(job.gpus * cycle.has(job) for job in below)
            assert has <= most, f"{queue} holds {has} of {limit} in cycle {cycle.number}"


CHECKS = {"served": check_served, "records": check_records}


def check_all(done: Run, profile_name: str) -> None:
    check_protected(done, profile_name)
    check_end(done, profile_name)
    check_minimums(done, profile_name)
    if profile_name != "volcano":
        check_limits(done)
        check_quota(done)  # the plugin proportion knows weights, and no quotas
    if profile_name != "kai":
        check_growth(done)  # in KAI gangs are broken for pods beyond a minimum
    if profile_name == "muster":
        check_kept(done)
        check_next(done)  # Volcano and KAI serve by reclaim whom a higher priority of the same queue preempts then
    for check in CHECKS.values():
        check(done)


# The same worlds in every ordinary run, others in each soak.
@pytest.mark.parametrize("profile_name", PROFILES)
@settings(derandomize=os.environ.get("MUSTER_SOAK") != "1")
@given(world=worlds())
def test_evictions_serve_end_and_spare_the_protected(profile_name: str, world: World) -> None:
    done = run(world, profile_name)
    event("evicts" if any(True for _ in done.evictions) else "evicts nobody")
    check_all(done, profile_name)


# A cycle of these has several plans, which have to hold together.
@pytest.mark.parametrize("profile_name", PROFILES)
@settings(derandomize=os.environ.get("MUSTER_SOAK") != "1", max_examples=settings().max_examples // 2)
@given(world=worlds(size=2))
def test_so_they_do_where_more_jobs_contend(profile_name: str, world: World) -> None:
    check_all(run(world, profile_name), profile_name)


@pytest.mark.parametrize("profile_name", PROFILES)
@pytest.mark.parametrize("world", KNOWN.values(), ids=KNOWN)
def test_what_went_wrong_once_stays_mended(profile_name: str, world: World) -> None:
    check_all(run(world, profile_name), profile_name)
