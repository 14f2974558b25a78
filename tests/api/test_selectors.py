"""Label selectors, node selectors and tolerations match as Kubernetes says."""

import pytest

from muster.api import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
)

LABELS = {"app": "train", "tier": "2"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("app", "In", ["train", "serve"], True),
        ("app", "In", ["serve"], False),
        ("zone", "In", ["a"], False),
        ("app", "NotIn", ["serve"], True),
        ("app", "NotIn", ["train"], False),
        ("zone", "NotIn", ["a"], True),
        ("app", "Exists", [], True),
        ("zone", "Exists", [], False),
        ("app", "DoesNotExist", [], False),
        ("zone", "DoesNotExist", [], True),
        ("app", "Like", ["train"], False),
    ],
)
def test_label_requirement(key: str, operator: str, values: list[str], expected: bool) -> None:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=values)
    assert requirement.matches(LABELS) is expected
    assert LabelSelector(match_expressions=[requirement]).matches(LABELS) is expected
    assert NodeSelectorRequirement(key=key, operator=operator, values=values).matches(LABELS) is expected


def test_an_empty_label_selector_matches_everything() -> None:
    assert LabelSelector().matches({})
    assert LabelSelector().matches(LABELS)


def test_all_parts_of_a_label_selector_must_hold() -> None:
    exists = LabelSelectorRequirement(key="zone", operator="Exists")
    assert LabelSelector(match_labels={"app": "train"}).matches(LABELS)
    assert not LabelSelector(match_labels={"app": "serve"}).matches(LABELS)
    assert not LabelSelector(match_labels={"app": "train"}, match_expressions=[exists]).matches(LABELS)


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("Gt", ["1"], True),
        ("Gt", ["2"], False),
        ("Lt", ["3"], True),
        ("Lt", ["2"], False),
        ("Gt", ["one"], False),
        ("Gt", [], False),
        ("Gt", ["0", "1"], False),
    ],
)
def test_gt_and_lt_compare_integers(operator: str, values: list[str], expected: bool) -> None:
    assert NodeSelectorRequirement(key="tier", operator=operator, values=values).matches(LABELS) is expected


def test_gt_does_not_match_a_label_that_is_no_integer_or_absent() -> None:
    requirement = NodeSelectorRequirement(key="app", operator="Gt", values=["1"])
    assert not requirement.matches(LABELS)
    assert not requirement.matches({})


def test_terms_are_alternatives_and_conditions_are_not() -> None:
    app = NodeSelectorRequirement(key="app", operator="In", values=["train"])
    zone = NodeSelectorRequirement(key="zone", operator="Exists")
    both = NodeSelectorTerm(match_expressions=[app, zone])
    assert not NodeSelector(node_selector_terms=[both]).matches(LABELS, "n1")
    either = [both, NodeSelectorTerm(match_expressions=[app])]
    assert NodeSelector(node_selector_terms=either).matches(LABELS, "n1")


def test_match_fields_look_at_the_name_of_the_node() -> None:
    name = NodeSelectorRequirement(key="metadata.name", operator="In", values=["n1"])
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[name])])
    assert selector.matches({}, "n1")
    assert not selector.matches({}, "n2")


def test_an_empty_term_matches_no_node() -> None:
    assert not NodeSelector(node_selector_terms=[NodeSelectorTerm()]).matches(LABELS, "n1")
    assert not NodeSelector().matches(LABELS, "n1")


TAINT = Taint(key="gpu", value="a100", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", value="a100"), True),
        (Toleration(key="gpu", operator="Equal", value="a100", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="h100"), False),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="disk", operator="Exists"), False),
        (Toleration(value="a100"), False),
        (Toleration(key="gpu", operator="Like", value="a100"), False),
    ],
)
def test_tolerations(toleration: Toleration, expected: bool) -> None:
    assert toleration.tolerates(TAINT) is expected
