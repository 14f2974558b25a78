"""HyperNodes: selectors and patterns are refused when wrong, faults of the tree only warned about."""

from __future__ import annotations

from random import Random

import pytest

from muster.api import HyperNode
from muster.api.kinds import decode_as
from muster.snapshot.hypernodes import build_forest
from tests.admission.requests import Json, create, document, update


def hyper_node(name: str, *members: Json, tier: int = 1, **spec: object) -> Json:
    return document("HyperNode", name, {"tier": tier, "members": list(members), **spec})


def member(kind: str = "Node", **selector: object) -> Json:
    return {"type": kind, "selector": selector}


def inside(name: str) -> Json:
    return member("HyperNode", exactMatch={"name": name})


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (member(), "spec.members[0].selector: expected exactly one of"),
        (member(exactMatch={"name": "a"}, regexMatch={"pattern": "a"}), "expected exactly one of"),
        (member(exactMatch={"name": ""}), "spec.members[0].selector.exactMatch.name: expected the name"),
        (member(regexMatch={"pattern": "node-(?=1)"}), "regexMatch.pattern: expected a regular expression in Go's"),
        (member("Rack", exactMatch={"name": "a"}), 'spec.members[0].type: expected "Node" or "HyperNode"'),
        (member("HyperNode", labelMatch={"matchLabels": {"a": "b"}}), "labels select nodes only"),
    ],
)
def test_members_that_select_nothing_sensible_are_refused(given: Json, field: str) -> None:
    verdict = create(hyper_node("rack-1", given))
    assert not verdict.is_allowed
    assert field in verdict.message


def test_a_hyper_node_without_members_is_refused_in_words_that_scripts_look_for() -> None:
    verdict = create(hyper_node("rack-1"))
    assert (
        verdict.message == "spec.members: expected at least one member, got none (member must have at least one member)"
    )
    gone = update(hyper_node("rack-1", member(exactMatch={"name": "a"})), hyper_node("rack-1"))
    assert not gone.is_allowed


def test_every_way_to_select_is_admitted_without_a_warning() -> None:
    ways: list[Json] = [{"exactMatch": {"name": "a"}}, {"regexMatch": {"pattern": "^a"}}]
    ways.append({"labelMatch": {"matchLabels": {"rack": "1"}}})
    verdict = create(hyper_node("rack-1", *(member(**way) for way in ways)))
    assert (verdict.is_allowed, verdict.warnings) == (True, [])


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (hyper_node("zone", inside("rack-9"), tier=2), "member HyperNode 'rack-9' does not exist"),
        (hyper_node("zone", inside("rack-1"), tier=2), "HyperNode 'rack-1' is a member of 'pod' already"),
        (hyper_node("rack-1", inside("pod")), "inside itself"),
    ],
)
def test_a_tree_that_is_not_whole_is_admitted_with_a_warning(given: Json, warning: str) -> None:
    there = (hyper_node("rack-1", member(exactMatch={"name": "a"})), hyper_node("pod", inside("rack-1"), tier=2))
    verdict = create(given, *there)
    assert verdict.is_allowed
    assert any(warning in each for each in verdict.warnings)


def test_old_faults_are_not_told_again() -> None:
    broken = hyper_node("zone", inside("rack-9"), tier=2)
    assert create(hyper_node("rack-1", member(exactMatch={"name": "a"})), broken).warnings == []


def test_a_document_of_the_wrong_types_is_refused_by_its_field() -> None:
    verdict = create(document("HyperNode", "rack-1", {"tier": "one"}))
    assert verdict.message == 'spec.tier: expected an integer, got "one"'


def test_warnings_are_those_of_the_whole_tree() -> None:
    """Only the part of the tree that a HyperNode bears on is looked at; nothing is missed by that."""
    random = Random(7)
    names = [f"h{number}" for number in range(12)]
    n_faults = 0
    for _ in range(60):
        tree = {name: _any_hyper_node(name, names, random) for name in names}
        new, name = _any_hyper_node("h3", names, random), "h3"
        decoded = {each: decode_as(given, HyperNode) for each, given in tree.items()}
        before = set(build_forest(decoded, {}).all_faults)
        after = build_forest({**decoded, name: decode_as(new, HyperNode)}, {}).all_faults
        wanted = [text for owner, text in after if (owner, text) not in before]
        warnings = create(new, *tree.values()).warnings
        assert len(warnings) == len(wanted)
        assert all(text in warning for text, warning in zip(wanted, warnings, strict=True))
        n_faults += len(wanted)
    assert n_faults > 30


def _any_hyper_node(name: str, names: list[str], random: Random) -> Json:
    members = [member(exactMatch={"name": "a"})]
    if random.random() < 0.6:
        members.append(inside(random.choice(names)))
    if random.random() < 0.2:
        members.append(member("HyperNode", regexMatch={"pattern": f"^h[{random.randrange(9)}-9]$"}))
    tier = random.randint(1, 4)
    return hyper_node(name, *members, tier=tier, **({"tierName": f"t{tier // 2}"} if random.random() < 0.3 else {}))
