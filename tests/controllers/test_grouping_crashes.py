"""A grouping controller that dies at any request: the next one makes what is missing, and nothing twice."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from muster.controllers.contract import Action, Plan
from muster.controllers.embedded import EmbeddedControllers
from tests.controllers.grouping_world import GroupingWorld
from tests.controllers.test_grouping_kinds import CASES

KINDS = ("Deployment with a minimum", "PyTorchJob", "RayJob", "JobSet", "LeaderWorkerSet", "MPIJob")


class _Died(Exception):  # noqa: N818  # the process is gone
    pass


def _die_after(count: int, monkeypatch: pytest.MonkeyPatch) -> list[Action]:
    """Let so many requests through, over all processes, then end the one that asks."""
    done: list[Action] = []
    carry_out = EmbeddedControllers._do

    def do(self: EmbeddedControllers, action: Action) -> str:
        if len(done) == count:
            raise _Died
        done.append(action)
        return carry_out(self, action)

    monkeypatch.setattr(EmbeddedControllers, "_do", do)
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_comes_after_makes_what_is_missing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = GroupingWorld(CASES[kind][0])
    wanted = whole.grouped()
    for count in range(0, 40, 3):
        with monkeypatch.context() as patch:
            _die_after(count, patch)
            world = GroupingWorld.__new__(GroupingWorld)
            with suppress(_Died):
                world.__init__(CASES[kind][0])  # type: ignore[misc]  # it may die on the way
        world.restart()
        assert world.grouped() == wanted, count
        assert set(world.pods) == set(whole.pods)


def test_the_order_of_the_news_does_not_matter() -> None:
    chance = random.Random(7)  # shuffles documents
    texts = [CASES[kind][0].replace("name: t", f"name: t{n}") for n, kind in enumerate(KINDS)]
    wanted = GroupingWorld(*texts).grouped()
    for _ in range(3):
        chance.shuffle(texts)
        assert GroupingWorld(*texts).grouped() == wanted


def test_a_plan_that_has_nothing_to_do_is_empty() -> None:
    world = GroupingWorld(CASES["PyTorchJob"][0])
    plans: list[Plan] = []
    for controller in world.controllers._controllers:
        for pod in world.pods.values():
            controller.take("MODIFIED", pod, 1000.0)
        plans += [step.plan for step in controller.steps(1000.0)]
    assert all(plan.actions == () for plan in plans)
