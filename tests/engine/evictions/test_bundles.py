"""Safe and whole bundles: the document's examples, the finer rules, and the order of bundles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from muster.api import KubeObject, Pod
from muster.engine.evictions.gang.bundles import BundleKind, Bundles, buckets, bundle_order, efficiency, make_bundles
from muster.framework import Session
from muster.snapshot import Amounts, Rows
from muster.testing import node, pod, pod_group
from muster.testing.builders import moment
from tests.engine.evictions.eviction_stage import configured, open_session, running
from tests.plugins.queue_stage import leaving
from tests.snapshot.networks import group, members, parts

GPU = "nvidia.com/gpu"
NODES = [node(f"n{k}", gpu=8) for k in range(4)]


def opened(objects: Iterable[KubeObject]) -> Session:
    return open_session([*NODES, *objects], configured("gangpreempt"))


def rows(session: Session, names: Sequence[str]) -> Rows:
    return np.array([session.snapshot.tasks.ids.index(f"default/{name}") for name in names], np.intp)


def gpus(session: Session, amount: int) -> Amounts:
    return session.snapshot.axis.vector({GPU: amount * 1000})


def split(session: Session, names: Sequence[str] | None = None, need: int = 1) -> dict[str, list[str]]:
    """Pods of the candidates by the kind of their bundle."""
    tasks = session.snapshot.tasks
    chosen = [name.removeprefix("default/") for name in tasks.ids] if names is None else names
    bundles = make_bundles(session.snapshot, rows(session, chosen), gpus(session, need))
    found: dict[str, list[str]] = {}
    for task, kind in zip(bundles.tasks.tolist(), bundles.kind[bundles.owners()].tolist(), strict=True):
        found.setdefault(BundleKind(kind).name.lower(), []).append(tasks.ids[task].removeprefix("default/"))
    return found


# -- the document ------------------------------------------------------------------------------------------------


def test_surplus_is_safe_and_the_core_is_whole() -> None:
    """Example 1: five run, three are needed."""
    session = opened(running("a", ["n0"] * 5, minimum=3, gpu=1))
    assert {kind: len(pods) for kind, pods in split(session).items()} == {"safe": 2, "whole": 3}


def test_roles_keep_their_minimums() -> None:
    """Example 2: one driver and four workers, of which the driver and three workers are needed."""
    session = opened(
        [
            pod_group("b", minimum=4, roles={"driver": 1, "worker": 3}, phase="Running"),
            pod("driver-0", group="b", role="driver", node="n0", gpu=1),
            *(pod(f"worker-{k}", group="b", role="worker", node="n0", gpu=1) for k in range(4)),
        ]
    )
    found = split(session)
    assert found["safe"] == ["worker-3"]
    assert sorted(found["whole"]) == ["driver-0", "worker-0", "worker-1", "worker-2"]


# -- finer rules -------------------------------------------------------------------------------------------------


def test_a_gang_that_is_broken_already_can_spare_everything() -> None:
    session = opened(running("a", ["n0"] * 2, minimum=3, gpu=1))
    assert set(split(session)) == {"safe"}


def test_a_gang_without_one_of_its_roles_is_broken() -> None:
    session = opened(
        [
            pod_group("b", minimum=3, roles={"driver": 1, "worker": 2}, phase="Running"),
            *(pod(f"worker-{k}", group="b", role="worker", node="n0", gpu=1) for k in range(3)),
        ]
    )
    assert set(split(session)) == {"safe"}


def test_a_gang_with_exactly_its_minimum_goes_whole() -> None:
    assert set(split(opened(running("a", ["n0"] * 3, gpu=1)))) == {"whole"}


def test_role_minimums_above_the_job_s_own_do_not_hold() -> None:
    session = opened(
        [
            pod_group("b", minimum=1, roles={"driver": 1, "worker": 3}, phase="Running"),
            pod("driver-0", group="b", role="driver", node="n0", gpu=1),
            *(pod(f"worker-{k}", group="b", role="worker", node="n0", gpu=1) for k in range(3)),
        ]
    )
    assert len(split(session)["safe"]) == 3


def test_a_role_without_a_minimum_is_always_safe() -> None:
    session = opened(
        [
            pod_group("b", minimum=2, roles={"worker": 2}, phase="Running"),
            pod("helper-0", group="b", role="helper", node="n0", gpu=1, priority=9),
            *(pod(f"worker-{k}", group="b", role="worker", node="n0", gpu=1) for k in range(2)),
        ]
    )
    found = split(session)
    assert found["safe"] == ["helper-0"]
    assert sorted(found["whole"]) == ["worker-0", "worker-1"]


def test_terminating_pods_are_nobody_s_survivors() -> None:
    objects = running("a", ["n0"] * 3, minimum=2, gpu=1)
    last = objects.pop()
    assert isinstance(last, Pod)
    session = opened([*objects, leaving(last)])
    assert split(session, ["a-0", "a-1"]).keys() == {"whole"}


def test_breaking_a_sub_group_uses_up_a_spare_one_and_the_rest_of_it_is_free() -> None:
    job = group("g", 4, policies=[parts(2, 2)], phase="Running")
    pods = [pod for part in "abc" for pod in members("g", 2, part=part, on=["n0", "n1"], gpu=1)]
    session = opened([job, *pods])
    found = split(session)
    # Six run, four and two sub-groups are needed: one sub-group can go, both its pods.
    assert len({name[:-2] for name in found["safe"]}) == 1
    assert (len(found["safe"]), len(found["whole"])) == (2, 4)


def test_a_pod_of_no_sub_group_is_not_spared() -> None:
    job = group("g", 2, policies=[parts(2, 1)], phase="Running")
    lone = pod("g-lone", group="g", node="n0", gpu=1)
    session = opened([job, *members("g", 2, part="a", on=["n0", "n1"], gpu=1), lone])
    assert set(split(session)) == {"whole"}


def test_inside_a_job_coverage_priority_waste_nearness_and_age_decide() -> None:
    def candidate(name: str, gpu: int, priority: int, created: float, place: str = "n0") -> KubeObject:
        return pod(name, group="a", node=place, gpu=gpu, priority=priority, created=created)

    session = opened(
        [
            pod_group("a", minimum=0, phase="Running"),
            candidate("half", 1, 0, 9.0),
            candidate("dear", 2, 5, 9.0),
            candidate("wasteful", 4, 0, 9.0),
            candidate("older", 2, 0, 1.0),
            candidate("younger", 2, 0, 2.0),
            candidate("nearer", 2, 0, 0.0, place="n1"),
        ]
    )
    tasks = rows(session, ["half", "dear", "wasteful", "older", "younger", "nearer"])
    rank = np.array([1, 0, 2, 3], np.intp)
    bundles = make_bundles(session.snapshot, tasks, gpus(session, 2), rank)
    names = [session.snapshot.tasks.ids[task].removeprefix("default/") for task in bundles.tasks.tolist()]
    assert names == ["nearer", "younger", "older", "wasteful", "dear", "half"]


def test_pods_of_a_rigid_gang_stand_in_order_whatever_the_order_of_rows() -> None:
    session = opened(running("a", ["n1", "n0", "n2"], gpu=4))
    for names in (["a-0", "a-1", "a-2"], ["a-2", "a-0", "a-1"]):
        assert split(session, names) == {"whole": ["a-0", "a-1", "a-2"]}


def test_a_gang_spares_the_pods_that_began_last_and_of_those_that_began_together_node_by_node() -> None:
    """Pods of a gang start within seconds of each other; one that came back after half an hour has little to lose."""
    begun = {"a-0": 1800.0, "a-1": 0.0, "a-2": 3.0, "a-3": 1.0}
    members = running("a", ["n3", "n2", "n1", "n1"], minimum=1, gpu=4)
    for one in members:
        if isinstance(one, Pod):
            one.status.start_time = moment(begun[one.metadata.name])
    session = opened(members)
    equally_near = np.zeros(4, np.intp)
    bundles = make_bundles(session.snapshot, rows(session, list(begun)), gpus(session, 4), equally_near)
    names = [session.snapshot.tasks.ids[task].removeprefix("default/") for task in bundles.tasks.tolist()]
    assert names == ["a-0", "a-3", "a-2", "a-1"]


def test_what_a_gang_has_outside_the_domain_can_join_its_whole_bundle() -> None:
    session = opened([*running("a", ["n0", "n1", "n2"], minimum=2, gpu=1), *running("b", ["n2"], gpu=1)])
    bundles = make_bundles(session.snapshot, rows(session, ["a-0", "a-1"]), gpus(session, 1))
    bundles = bundles.with_rest(session.snapshot, rows(session, ["a-2", "b-0"]))
    assert bundles.kind.tolist() == [BundleKind.SAFE, BundleKind.WHOLE]
    assert [len(bundles.tasks_of(k)) for k in range(2)] == [1, 2]
    column = session.snapshot.axis.index[GPU]
    assert bundles.local[:, column].tolist() == [1000, 1000]


# -- who may go --------------------------------------------------------------------------------------------------


def four_bundles() -> tuple[Session, Bundles]:
    session = opened([*running("a", ["n0"] * 4, minimum=2, gpu=1), *running("b", ["n1"] * 2, gpu=1)])
    names = ["a-0", "a-1", "a-2", "a-3", "b-0", "b-1"]
    bundles = make_bundles(session.snapshot, rows(session, names), gpus(session, 4))
    assert bundles.kind.tolist() == [BundleKind.SAFE, BundleKind.SAFE, BundleKind.WHOLE, BundleKind.WHOLE]
    return session, bundles


def test_a_whole_bundle_is_refused_whole_and_spare_pods_one_by_one() -> None:
    session, bundles = four_bundles()
    allowed = np.ones(6, np.bool_)
    allowed[[0, 4]] = False  # one of a's spare pods, one of b's
    kept = bundles.within(allowed)
    assert kept.kind.tolist() == [BundleKind.SAFE, BundleKind.WHOLE]
    assert [len(kept.tasks_of(k)) for k in range(2)] == [1, 2]
    assert kept.local[:, session.snapshot.axis.index[GPU]].tolist() == [1000, 2000]
    assert kept.cost[:, session.snapshot.axis.index[GPU]].tolist() == [0, 4000]


def test_nothing_is_left_when_nobody_may_go() -> None:
    _, bundles = four_bundles()
    assert len(bundles.within(np.zeros(6, np.bool_))) == 0
    assert bundles.within(np.ones(6, np.bool_)) is bundles


def test_what_a_broken_gang_could_spare_goes_with_it() -> None:
    session, bundles = four_bundles()
    going = bundles.going(np.array([False, True, True, False]))
    assert going.kind.tolist() == [BundleKind.WHOLE]
    assert len(going.tasks) == 4
    assert going.local[:, session.snapshot.axis.index[GPU]].tolist() == [4000]
    spared = bundles.going(np.array([False, True, False, True]))
    assert spared.kind.tolist() == [BundleKind.SAFE, BundleKind.WHOLE]
    assert len(spared.tasks) == 3


# -- order -------------------------------------------------------------------------------------------------------


def ordered(session: Session, bundles: Bundles, policy: Sequence[int], **options: float) -> list[str]:
    need, places = gpus(session, 4), np.array(policy, np.int64)
    worth = buckets(efficiency(bundles.local, bundles.cost, need), options.get("threshold", 0.05))
    levels = bundles.kind.astype(np.int64) * (int(places.max()) + 1) + places
    numbers = bundle_order(session.snapshot, replace(bundles, level=levels), worth, need)
    records = session.snapshot.jobs.records
    return [f"{BundleKind(int(bundles.kind[k])).name.lower()} {records[bundles.job[k]].name}" for k in numbers.tolist()]


def test_safe_comes_before_whole_whatever_the_policy_says() -> None:
    session, bundles = four_bundles()
    assert ordered(session, bundles, [9, 9, 1, 0]) == ["safe a", "safe a", "whole b", "whole a"]


def test_policy_comes_before_efficiency() -> None:
    session = opened([*running("here", ["n0"] * 4, gpu=1), *running("apart", ["n0", "n1", "n2", "n3"], gpu=1)])
    tasks = rows(session, ["here-0", "here-1", "here-2", "here-3", "apart-0"])
    bundles = make_bundles(session.snapshot, tasks, gpus(session, 4))
    jobs = [session.snapshot.jobs.records[job].name for job in bundles.job]
    assert efficiency(bundles.local, bundles.cost, gpus(session, 4))[jobs.index("apart")] == pytest.approx(0.25)
    first = [0 if name == "apart" else 1 for name in jobs]
    assert ordered(session, bundles, [0, 0]) == ["whole here", "whole apart"]
    assert ordered(session, bundles, first) == ["whole apart", "whole here"]


def test_equal_efficiency_leaves_it_to_youth_then_name() -> None:
    def job(name: str, priority: str, created: float) -> list[KubeObject]:
        made = pod_group(name, minimum=1, priority_class=priority, phase="Running", created=created)
        return [made, pod(f"{name}-0", group=name, node="n0", gpu=1)]

    session = opened([*job("b", "low", 1.0), *job("a", "low", 1.0), *job("c", "high", 3.0), *job("d", "low", 2.0)])
    bundles = make_bundles(session.snapshot, rows(session, ["a-0", "b-0", "c-0", "d-0"]), gpus(session, 4))
    assert ordered(session, bundles, [0] * 4) == ["whole c", "whole d", "whole a", "whole b"]


def test_efficiency_is_compared_in_buckets() -> None:
    values = np.array([0.50, 0.52, 0.56, np.inf])
    assert buckets(values, 0.05).tolist() == [10.0, 10.0, 11.0, np.inf]
    assert buckets(values, 0.0).tolist() == values.tolist()
