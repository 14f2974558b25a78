"""Backfill with a reservation: nobody delays the head of the queue, and room is used meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.api import KubeObject, UserError
from muster.framework import SchedulerConfig, parse_config
from muster.framework.config import DEFAULT_YAML
from muster.lab.cluster import EPOCH
from muster.lab.policies import find_policy, policy_text
from muster.lab.replay import Replay, ReplayOptions
from muster.lab.sources.tables import uniform_nodes
from muster.lab.trace import Estimates, Trace, TraceJob
from muster.plugins.jobs.reservation import Reservation
from muster.scheduler import builtin_registry
from muster.snapshot import TaskStatus

REGISTRY = builtin_registry(third_party=False)
#: Two nodes: one is busy until 100, the gang needs both, so it could start then.
BUSY = (("old", 0, 100, 8, 1), ("gang", 1, 50, 8, 2))


def trace(rows: Sequence[tuple[str, int, int, int, int]], estimates: str = "exact", seed: int = 0) -> Trace:
    jobs = [TraceJob(name, at, run, n, (("nvidia.com/gpu", str(gpus)),), user="ann") for name, at, run, gpus, n in rows]
    return Trace(Estimates.read(estimates).told(jobs, seed))


def begun(made: Trace, policy: str, nodes: int = 2) -> Replay:
    objects: list[KubeObject] = [*uniform_nodes(nodes, 8)]
    return Replay(made, objects, configured(policy), registry=REGISTRY)


#: As `easy-shortest`, for those who have no patience, and for those who have some.
SHORTEST = "no patience"
PATIENT = "30 seconds of it"


def configured(policy: str) -> SchedulerConfig:
    patience = {SHORTEST: "0", PATIENT: "30"}.get(policy)
    if patience is None:
        return find_policy(f"policy:{policy}")
    return parse_config(policy_text("easy-shortest").replace("patience: 24h", f"patience: {patience}"), policy)


def test_nothing_is_reserved_before_patience_has_an_end() -> None:
    """The gang could start at 100; the long job comes when the gang has waited for less than its patience, or more."""
    early = starts(trace((*BUSY, ("long", 3, 500, 8, 1))), PATIENT)
    assert (early["long"], early["gang"]) == (3, 503)
    late = starts(trace((*BUSY, ("between", 2, 38, 8, 1), ("long", 40, 500, 8, 1))), PATIENT)
    assert (late["gang"], late["long"]) == (100, 150)


def test_the_larger_a_job_is_the_sooner_its_patience_ends() -> None:
    """Thirty seconds are those of a job as large as a node: a gang of two has 21, seven eighths of a node 32."""
    beside = ("between", 2, 24, 8, 1)
    assert starts(trace((*BUSY, beside, ("long", 26, 500, 8, 1))), PATIENT)["long"] == 150, "after 25 seconds"
    small = (("old", 0, 100, 6, 1), ("most", 1, 50, 7, 1))
    assert starts(trace((*small, ("long", 32, 500, 2, 1))), PATIENT, nodes=1)["most"] == 532, "after 31 of 32 seconds"
    assert starts(trace((*small, ("long", 34, 500, 2, 1))), PATIENT, nodes=1)["most"] == 100, "after 33"


def test_only_the_most_overdue_goes_before_shorter_ones() -> None:
    busy = (("old", 0, 100, 8, 2),)
    found = starts(trace((*busy, ("first", 1, 50, 8, 1), ("next", 2, 40, 8, 1), ("short", 90, 5, 8, 1))), PATIENT)
    assert (found["first"], found["short"], found["next"]) == (100, 100, 105)
    found = starts(trace((*busy, ("one", 1, 50, 8, 1), ("two", 9, 60, 8, 2))), PATIENT)
    assert (found["two"], found["one"]) == (100, 160), "as large as two its patience ends at 30, the other's at 31"


def test_who_is_overdue_is_not_overtaken_by_one_that_becomes_so_later() -> None:
    """The larger one has soon waited for more of its patience, but room has been promised to the smaller one."""
    rows = (("old", 0, 100, 8, 3), ("first", 1, 50, 8, 1), ("larger", 20, 60, 8, 3), ("short", 40, 5, 8, 1))
    found = starts(trace(rows), PATIENT, nodes=3)
    assert (found["first"], found["short"], found["larger"]) == (100, 100, 150)


def starts(made: Trace, policy: str, nodes: int = 2) -> dict[str, float]:
    replay = begun(made, policy, nodes)
    replay.run()
    return {job.name: replay.recorder.first_start[k] for k, job in enumerate(made.jobs)}


def test_strict_order_lets_nobody_pass() -> None:
    rows = (*BUSY, ("short", 2, 10, 8, 1))
    assert starts(trace(rows), "fifo") == {"old": 0, "gang": 100, "short": 150}
    assert starts(trace(rows), "skip") == {"old": 0, "gang": 100, "short": 2}


def test_who_ends_before_the_reserved_start_may_pass_and_who_does_not_may_not() -> None:
    found = starts(trace((*BUSY, ("short", 2, 90, 8, 1), ("long", 3, 500, 8, 1))), "easy")
    assert found == {"old": 0, "gang": 100, "short": 2, "long": 150}
    assert starts(trace((*BUSY, ("long", 3, 500, 8, 1))), "skip")["gang"] == 503, "without, the gang waits for it"


def test_a_long_job_may_start_on_other_nodes_and_beside_the_reservation() -> None:
    rows = (("old", 0, 100, 8, 2), ("head", 1, 50, 6, 2), ("long", 2, 900, 2, 1), ("longer", 3, 900, 8, 1))
    found = starts(trace(rows), "easy", nodes=3)
    assert found["head"] == 100
    assert found["long"] == 2
    assert found["longer"] == 100, "the free node is one of the two that the gang can have at 100"


def test_the_shortest_goes_first_among_those_that_pass() -> None:
    rows = (*BUSY, ("later", 2, 60, 8, 1), ("sooner", 2, 20, 8, 1))
    assert starts(trace(rows), "easy-fcfs")["later"] == 2
    found = starts(trace(rows), SHORTEST)
    assert (found["sooner"], found["gang"]) == (2, 100)
    assert found["later"] == 22


def test_the_longer_a_job_is_the_further_back_it_stands() -> None:
    """An hour is set back by ninety minutes, a hundredth of it by nine: as far as if it had come at 1440."""
    rows = (("old", 0, 1000, 8, 1), ("head", 1, 10, 8, 1), ("hour", 2, 3600, 8, 1), ("short", 900, 36, 8, 1))
    found = starts(trace(rows), "easy", nodes=1)
    assert (found["head"], found["short"], found["hour"]) == (1000, 1010, 1046)
    assert starts(trace(rows), "easy-fcfs", nodes=1)["hour"] == 1010
    later = (*rows[:3], ("short", 4900, 36, 8, 1))
    found = starts(trace(later), "easy", nodes=1)
    assert found["short"] > found["hour"] == 1010, "nobody is there who would go before it"


def test_a_setback_that_is_no_time_is_named() -> None:
    config = parse_config(policy_text("easy").replace("reservation}", "reservation, arguments: {setback: soon}}"), "x")
    with pytest.raises(UserError, match="plugin reservation: arguments: setback: "):
        REGISTRY.make_plugins(config)


def test_nobody_who_comes_later_overtakes_a_reservation() -> None:
    rows = (("old", 0, 1000, 8, 1), ("hour", 2, 3600, 8, 1), ("short", 900, 36, 8, 1))
    found = starts(trace(rows), "easy", nodes=1)
    assert (found["hour"], found["short"]) == (1000, 4600)


def test_who_has_no_reservation_any_more_is_not_remembered() -> None:
    replay = begun(trace((*BUSY, ("late", 300, 10, 8, 1))), "easy")
    seen: list[list[str]] = []

    def look() -> bool:
        session = replay.last_session
        seen.append([] if session is None else sorted(session.memory))
        return False

    replay.run(pause=look)
    assert ["reservation of default/gang"] in seen
    assert seen[-1] == []


def test_nothing_is_known_of_jobs_that_say_nothing_until_their_owner_has_a_record() -> None:
    rows = (*BUSY, ("short", 2, 10, 8, 1))
    assert starts(trace(rows, "none"), "easy")["short"] == 2, "nobody knows when the gang could start: all may pass"
    before = tuple((f"was{k}", k * 20, 10, 8, 1) for k in range(4))
    later = (("old", 100, 10, 8, 1), ("gang", 101, 50, 8, 2), ("late", 104, 10, 8, 1))
    found = starts(trace((*before, *later), "none"), "easy")
    assert (found["gang"], found["late"]) == (110, 160), "by the record it would end after the gang could start"


def test_why_it_waits_says_what_is_reserved() -> None:
    replay = begun(trace(BUSY), "easy")
    replay.run(pause=lambda: replay.recorder.cycles >= 2)
    session = replay.last_session
    assert session is not None
    verdict = session.verdicts[session.snapshot.jobs.index["default/gang"]]
    assert verdict.detail.endswith("reserved from 2001-01-01T00:01:40Z: node-1, node-2")


def evicting(made: Trace, nodes: int) -> Replay:
    """The default profile, with all that evicts, and a reservation."""
    text = DEFAULT_YAML.replace("  - name: priority\n", "  - name: priority\n  - name: reservation\n", 1)
    return Replay(made, [*uniform_nodes(nodes, 8)], parse_config(text, "test"), registry=REGISTRY)


def test_who_makes_room_by_moving_others_delays_nobody_who_has_a_reservation() -> None:
    """Two nodes are half free and a third is full; the head of the queue can have two whole ones from 100 on.

    The job behind it could have a whole one at once if a job moved from one half free node to the other; but one of
    these two is reserved.
    """
    halves = (("a", 0, 900, 4, 1), ("a-beside", 0, 10, 4, 1), ("b", 0, 100, 4, 1), ("b-beside", 0, 10, 4, 1))
    made = trace((*halves, ("c", 0, 100, 8, 1), ("head", 20, 50, 8, 2), ("later", 21, 500, 8, 1)))
    replay = evicting(made, nodes=3)
    replay.run()
    began = dict(zip([job.name for job in made.jobs], replay.recorder.first_start, strict=True))
    assert (began["head"], began["later"]) == (100, 150)
    assert not replay.recorder.evictions


#: Two are moved for the seventh, and the first of the queue waits while it is promised their place.
PROMISED = [(0, 8, 2, 2), (0, 12, 2, 2), (1, 1, 8, 3), (1, 12, 1, 1), (3, 5, 2, 3), (7, 3, 2, 2), (8, 1, 8, 1)]


#: One pod of the third is moved for the fifth: it has to begin again, later than the last counts on.
BROKEN = [(0, 2, 1, 2), (1, 27, 2, 3), (1, 14, 1, 3), (15, 13, 1, 1), (2, 1, 8, 2), (15, 14, 2, 2)]


@settings(max_examples=20, deadline=None)
@example(rows=PROMISED)
@example(rows=BROKEN)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 80), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3)),
        min_size=2,
        max_size=14,
    )
)
def test_evicting_actions_keep_what_is_reserved(rows: list[tuple[int, int, int, int]]) -> None:
    """After every cycle, whatever was evicted or moved in it, reserved nodes will have the room that is needed."""
    made = trace([(f"j{k:02d}", *row) for k, row in enumerate(sorted(rows))])
    replay = evicting(made, nodes=3)

    def look() -> bool:
        session = replay.last_session
        plugin = None if session is None else session.plugins["reservation"]
        for known in plugin.reserved if isinstance(plugin, Reservation) else ():
            assert session is not None
            assert isinstance(plugin, Reservation)
            if session.snapshot.jobs.counts[known.job, TaskStatus.PENDING]:
                assert (plugin._room_then(known) >= known.needs).all()  # the promise itself
        return False

    replay.run(pause=look)


ROWS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 80), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3)),
    min_size=2,
    max_size=14,
)


#: One that waits with a reservation while a larger one, which comes later, waits for more of its patience.
OVERTAKEN = [(0, 1, 1, 1), (0, 1, 1, 1), (0, 32, 1, 1), (0, 35, 1, 2), (0, 36, 4, 3), (2, 1, 8, 1), (8, 1, 4, 3)]
#: The one whose patience has ended first starts, and in the same cycle a shorter one has its turn before the next.
TOGETHER = [(0, 8, 2, 3), (1, 41, 4, 3), (4, 6, 4, 3), (4, 32, 1, 1), (7, 1, 4, 3), (14, 48, 8, 3)]


@settings(max_examples=20, deadline=None)
@given(rows=ROWS, policy=st.sampled_from(["easy", "easy-fcfs", SHORTEST, PATIENT]))
@example(rows=OVERTAKEN, policy=PATIENT)
@example(rows=TOGETHER, policy=PATIENT)
def test_a_reserved_start_is_kept_when_times_are_right(rows: list[tuple[int, int, int, int]], policy: str) -> None:
    """Whatever starts before it, a job begins no later than the first moment that was reserved for it."""
    made = trace([(f"j{k:02d}", at, run, gpus, n) for k, (at, run, gpus, n) in enumerate(sorted(rows))])
    replay = begun(made, policy, nodes=3)
    promised: dict[str, float] = {}

    def look() -> bool:
        session = replay.last_session
        plugin = None if session is None else session.plugins["reservation"]
        for known in plugin.reserved if isinstance(plugin, Reservation) else ():
            assert session is not None
            promised.setdefault(session.snapshot.jobs.records[known.job].name, known.at - EPOCH)
        return False

    replay.run(pause=look)
    began = {job.name: replay.recorder.first_start[k] for k, job in enumerate(made.jobs)}
    for name, at in promised.items():
        assert began[name] <= at


@settings(max_examples=10, deadline=None)
@given(rows=ROWS, policy=st.sampled_from(["easy", "conservative", SHORTEST, PATIENT]), seed=st.integers(0, 5))
def test_wrong_times_keep_nobody_for_ever(rows: list[tuple[int, int, int, int]], policy: str, seed: int) -> None:
    made = trace([(f"j{k:02d}", *row) for k, row in enumerate(sorted(rows))], "factor:5", seed)
    replay = begun(made, policy, nodes=3)
    replay.run()
    assert min(replay.recorder.end, default=0) >= 0, "everybody has ended"


def test_a_policy_that_is_none_is_named() -> None:
    with pytest.raises(Exception, match="there is no policy 'best'; there are fifo, skip, sjf"):
        find_policy("policy:best")


def test_the_one_with_least_left_takes_the_place_of_one_with_more() -> None:
    rows = (("long", 0, 100, 8, 2), ("short", 10, 20, 8, 2), ("between", 20, 85, 8, 2))
    made = trace(rows)
    replay = Replay(
        made,
        [*uniform_nodes(2, 8)],
        find_policy("policy:srtf"),
        ReplayOptions(checkpoint_s=0.0),
        registry=REGISTRY,
    )
    replay.run()
    # Short takes the place of long at 10; long has 90 left at 30 and between 85, which therefore goes before it.
    found = dict(zip((job.name for job in made.jobs), replay.recorder.end, strict=True))
    assert found["short"] == pytest.approx(30, abs=3)
    assert found["between"] == pytest.approx(115, abs=6)
    assert found["long"] == pytest.approx(205, abs=9)
    assert replay.recorder.evictions["gangpreempt"] == 2, "long gave way once, with both pods"
