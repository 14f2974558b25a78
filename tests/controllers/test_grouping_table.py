"""The table as users extend it: what is wrong is refused by name."""

from __future__ import annotations

import pytest

from muster.api import UserError
from muster.controllers.grouping.table import at, number_at, own_table, table_with
from tests.controllers.grouping_world import POD, GroupingWorld

WRONG = {
    "no list": ({"kind": "X"}, "c: grouping: expected a list of rows"),
    "no mapping": (["X"], "c: grouping, row 1: expected a mapping with a kind"),
    "no kind": ([{"minimum": []}], "row 1: kind is missing"),
    "a misspelt field": ([{"kind": "X", "minimun": ["a"]}], "row 1: minimun: unknown field; did you mean minimum"),
    "a misspelt field of a role": (
        [{"kind": "X", "roles": [{"lable": "x"}]}],
        r"roles\[0\].lable: .*did you mean label",
    ),
    "a role without a label": ([{"kind": "X", "roles": [{"name": "x"}]}], "label is missing"),
    "an unknown share": ([{"kind": "X", "share": "all"}], "share: .*; one of owner, child, pod, each"),
    "like nothing": ([{"kind": "X", "like": "Y"}], "like: expected a kind that has a row before this one, got 'Y'"),
    "two rows": ([{"kind": "X"}, {"kind": "X"}], "row 2: X has a row already"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_by_name(name: str) -> None:
    rows, said = WRONG[name]
    with pytest.raises(UserError, match=said):
        table_with(rows, "c")


def test_a_row_takes_the_place_of_one_of_the_product() -> None:
    table = table_with([{"kind": "ReplicaSet.apps", "share": "pod"}], "c")
    text = f"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: t}}\nspec: {{replicas: 2, template: {{{POD}}}}}"
    assert [len(each.pods) for each in GroupingWorld(text, table=table).grouped()] == [1, 1]
    assert table.rules["Deployment.apps"] is own_table().rules["Deployment.apps"]


def test_like_takes_what_is_not_said() -> None:
    table = table_with([{"kind": "My.example.com", "like": "PyTorchJob.kubeflow.org", "priority": "build"}], "c")
    mine, theirs = table.rules["My.example.com"], table.rules["PyTorchJob.kubeflow.org"]
    assert (mine.roles, mine.minimum, mine.priority) == (theirs.roles, theirs.minimum, "build")


def test_paths_may_have_keys_with_dots() -> None:
    document = {"metadata": {"annotations": {"a.b/c": "4"}}, "spec": {"n": 0, "m": 2, "t": True}}
    assert at(document, "metadata.annotations[a.b/c]") == "4"
    assert number_at(document, ["spec.n", "spec.t", "spec.x.y", "metadata.annotations[a.b/c]"]) == 4
    assert number_at(document, ["spec.n"]) is None
