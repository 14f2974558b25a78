"""What holds for every question "what if": no change makes no difference, and a copy does as the original would."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import KubeObject, encode
from muster.framework import find_config
from muster.scheduler import CycleResult
from muster.simulate import Run, simulate
from muster.whatif import AddNodes, Change, Delete, Drain, Options, SetPriority, SetQueue, Submit, load, what_if
from tests.properties.busy_worlds import World, worlds

PROFILES = st.sampled_from(["muster", "volcano", "kai"])
#: Long enough for evicted pods to have left and others to have come, twice.
SECONDS = 120.0


def _documents(objects: Iterable[KubeObject]) -> list[dict[str, object]]:
    return [encode(thing) for thing in objects]


def _decisions(cycles: Iterable[CycleResult]) -> list[tuple[object, ...]]:
    return [
        (round(cycle.time, 3), type(made).__name__, made.job, made.pod, made.node)
        for cycle in cycles
        for made in cycle.decisions
    ]


@settings(max_examples=20)
@given(world=worlds(), profile=PROFILES)
def test_no_change_makes_no_difference(world: World, profile: str) -> None:
    found = what_if(world.objects(), [], Options(config=find_config(profile), seconds=SECONDS))
    assert found.differences == ()
    assert found.without == found.within


@settings(max_examples=20)
@given(world=worlds(), profile=PROFILES)
def test_a_submitted_job_fares_as_if_it_were_really_submitted(world: World, profile: str) -> None:
    config = find_config(profile)
    submitted = world.jobs.pop()
    submitted.on = []
    picture = load(world.objects(), Options(config=config))
    asked = what_if(picture, [Submit(tuple(submitted.objects()))], Options(seconds=SECONDS))
    really = simulate([*world.objects(), *submitted.objects()], config, until=SECONDS)
    for job, report in really.jobs.items():
        found = asked.of(job)
        if found is not None and found.within is not None:
            assert (found.within.placed, found.within.pending) == (report.running, report.pending), job
    placed = {job: report.running for job, report in really.jobs.items()}
    for found in asked.jobs:
        # A pod without a gang that was evicted is gone.
        assert found.within is None or placed.get(found.job, 0) == found.within.placed


@settings(max_examples=20)
@given(world=worlds(), profile=PROFILES, cycles=st.integers(0, 4))
def test_a_copy_goes_on_as_the_original_would_and_leaves_it_alone(world: World, profile: str, cycles: int) -> None:
    config = find_config(profile)
    alone, copied = Run(world.objects(), config), Run(world.objects(), config)
    alone.go_on(cycles=cycles)
    copied.go_on(cycles=cycles)
    first, second = copied.fork(), copied.fork()
    first.go_on(until=SECONDS)
    second.go_on(until=SECONDS)
    alone.go_on(until=SECONDS)
    copied.go_on(until=SECONDS)
    expected = _decisions(alone.cycles)
    assert [_decisions(run.cycles) for run in (first, second, copied)] == [expected] * 3


@st.composite
def changes(draw: st.DrawFn, world: World) -> list[Change]:
    """Some of everything that can be changed."""
    node = st.sampled_from(sorted(world.nodes))
    job = st.sampled_from([job.name if job.minimum else f"{job.name}-0" for job in world.jobs])
    queue = st.sampled_from(sorted(world.queues))
    kinds = st.one_of(
        st.builds(AddNodes, st.integers(1, 3), node),
        st.builds(Drain, node),
        st.builds(SetPriority, job, st.sampled_from(["high", "low", "70"])),
        st.builds(SetQueue, queue, st.sampled_from(["quota", "limit", "guarantee"]), st.just("4"), st.just("gpu")),
        st.builds(SetQueue, queue, st.just("weight"), st.just("5")),
    )
    last = draw(st.lists(st.builds(Delete, job), max_size=1))
    return [*draw(st.lists(kinds, max_size=3)), *last]


@settings(max_examples=20)
@given(world=worlds(), profile=PROFILES, data=st.data())
def test_objects_and_pictures_are_never_changed(world: World, profile: str, data: st.DataObject) -> None:
    objects = world.objects()
    before = _documents(objects)
    picture = load(objects, Options(config=find_config(profile)))
    options = Options(seconds=SECONDS)
    asked = data.draw(changes(world))
    first = what_if(picture, asked, options).as_document()
    assert what_if(picture, asked, options).as_document() == first
    assert what_if(picture, [], options).differences == ()
    assert _documents(objects) == before
