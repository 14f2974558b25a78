"""JobFlows: every flow waits for flows that are there, and they leave an order."""

from __future__ import annotations

from random import Random

import pytest

from muster.admission.jobs import in_order
from tests.admission.requests import Json, create, document, update


def flows(**needs: list[str] | None) -> Json:
    listed = [{"name": name} | ({"dependsOn": {"targets": each}} if each else {}) for name, each in needs.items()]
    return document("JobFlow", "pipeline", {"flows": listed, "jobRetainPolicy": "retain"})


@pytest.mark.parametrize(
    "given",
    [
        flows(),
        flows(a=None),
        flows(a=None, b=["a"], c=["a", "b"]),
        flows(last=["first"], first=None),
        document("JobFlow", "twice", {"flows": [{"name": "a"}, {"name": "a"}]}),
        document("JobFlow", "empty", {}),
    ],
)
def test_flows_in_an_order_are_admitted(given: Json) -> None:
    assert create(given).is_allowed


def test_a_flow_that_waits_for_one_that_is_not_there_is_refused() -> None:
    message = create(flows(b=["a"], c=["b"])).message
    assert message == (
        'spec.flows[0].dependsOn.targets: expected the name of a flow of this JobFlow, got "a" '
        "(jobflow Flow is not DAG: vertex is not defined: a)"
    )


@pytest.mark.parametrize("given", [flows(a=["a"]), flows(a=["b"], b=["a"]), flows(a=["c"], b=["a"], c=["b"], d=None)])
def test_flows_that_wait_for_each_other_are_refused(given: Json) -> None:
    for verdict in (create(given), update(flows(a=None), given)):
        assert [problem.field for problem in verdict.problems] == ["spec.flows"]
        assert "(jobflow Flow is not DAG)" in verdict.message


def test_an_order_is_found_where_there_is_one() -> None:
    random = Random(3)
    for _ in range(200):
        names = [f"n{number}" for number in range(random.randint(1, 8))]
        ranks = random.sample(names, len(names))
        needs = {name: [each for each in ranks[: ranks.index(name)] if random.random() < 0.4] for name in names}
        order = in_order(needs)
        assert order is not None
        assert all(order.index(each) < order.index(name) for name in names for each in needs[name])
        if any(needs.values()):
            name = next(name for name in names if needs[name])
            assert in_order({**needs, needs[name][0]: [*needs[needs[name][0]], name]}) is None


def test_a_long_chain_is_judged_at_once() -> None:
    """What fits into one object of an API server: one step per flow, not one per pair."""
    chain = {f"n{number}": [f"n{number + 1}"] if number < 29_999 else [] for number in range(30_000)}
    order = in_order(chain)
    assert order is not None
    assert order[0] == "n29999"
