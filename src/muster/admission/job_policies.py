"""Lifecycle policies of Jobs and of their tasks: what happens (events or an exit code), and what to do then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.api import Problem
from muster.api.errors import Problems, choices
from muster.api.objects.batch import LifecyclePolicy

_ANY: Final = "*"
EVENTS: Final = (
    _ANY,
    "JobUpdated",
    "PodEvicted",
    "PodFailed",
    "PodPending",
    "TaskCompleted",
    "TaskFailed",
    "Unknown",
)
ACTIONS: Final = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)


def policy_problems(field: str, policies: Iterable[LifecyclePolicy]) -> Problems:
    """Find what is wrong with the policies of one Job or task; together they leave no doubt what to do."""
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        here = f"{field}[{index}]"
        named = _events(policy)
        yield from _one_policy(here, policy, named)
        for event in sorted(events.intersection(named)):
            text = f'expected an event that no policy before has, got "{event}" again'
            yield Problem(here, text, known_as=f"duplicate event {event}")
        events.update(named)
        if policy.exit_code is not None and policy.exit_code in codes:
            text = f"expected a code that no policy before has, got {policy.exit_code} again"
            yield Problem(f"{here}.exitCode", text, known_as=f"duplicate exitCode {policy.exit_code}")
        if policy.exit_code is not None:
            codes.add(policy.exit_code)
    if _ANY in events and len(events) > 1:
        others = ", ".join(sorted(events - {_ANY}))
        text = f'expected no other event beside "{_ANY}", which stands for all of them, got {others}'
        yield Problem(field, text, known_as=f"if there's {_ANY} here, no other policy should be here")


def _events(policy: LifecyclePolicy) -> list[str]:
    return list(dict.fromkeys(event for event in (policy.event, *policy.events) if event))


def _one_policy(field: str, policy: LifecyclePolicy, events: list[str]) -> Problems:
    if events and policy.exit_code is not None:
        text = "expected events or an exitCode, got both; drop one"
        yield Problem(field, text, known_as="must not specify event and exitCode simultaneously")
    elif not events and policy.exit_code is None:
        text = "expected an event, events or an exitCode, got none of them"
        yield Problem(field, text, known_as="either event and exitCode should be specified")
    if policy.exit_code == 0:
        text = "expected the exit code of a failure, got 0"
        yield Problem(f"{field}.exitCode", text, known_as="0 is not a valid error code")
    for event in events:
        if event not in EVENTS:
            yield Problem(f"{field}.event", f'expected {choices(EVENTS)}, got "{event}"', "invalid policy event")
    if policy.action not in ACTIONS and (policy.action or events):
        got = f'"{policy.action}"' if policy.action else "nothing"
        yield Problem(f"{field}.action", f"expected {choices(ACTIONS)}, got {got}", "invalid policy action")
