"""Whatever stands in a file, loading gives objects or a UserError, nothing else."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from muster.api import KINDS, UserError, load_text

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["1Gi", "-1", "2026-01-31T12:00:00Z", "In", "hard"]),
)
# Names of real fields, so that values land where types are checked.
fields = st.sampled_from(
    [
        "spec",
        "status",
        "metadata",
        "name",
        "labels",
        "minMember",
        "minResources",
        "cpu",
        "memory",
        "containers",
        "resources",
        "requests",
        "queue",
        "weight",
        "deserved",
        "affinity",
        "nodeAffinity",
        "tier",
        "members",
        "subGroupPolicy",
        "networkTopology",
        "mode",
        "items",
        "allocatable",
        "taints",
        "value",
        "selector",
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(fields, inner, max_size=4)),
    max_leaves=20,
)


def load_anything(text: str, file: str) -> None:
    with contextlib.suppress(UserError):
        load_text(text, file)


@given(st.text(max_size=200), st.sampled_from(["a.yaml", "a.json"]))
def test_any_text(text: str, file: str) -> None:
    load_anything(text, file)


@given(st.text("{}[]:,-&*!|>'\"%@` \n\tab1#?", max_size=60))
def test_any_punctuation(text: str) -> None:
    load_anything(text, "a.yaml")


@given(st.sampled_from(sorted(KINDS)), st.dictionaries(fields, values, max_size=5))
def test_any_fields_of_a_known_kind(kind: tuple[str, str], body: dict[str, object]) -> None:
    document = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x"}, **body}
    load_anything(json.dumps(document), "a.json")
    load_anything(json.dumps(document), "a.yaml")


@given(st.sampled_from(sorted(KINDS)), st.dictionaries(fields, values, max_size=5))
def test_errors_never_speak_of_python(kind: tuple[str, str], spec: dict[str, object]) -> None:
    document = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x"}, "spec": spec}
    try:
        load_text(json.dumps(document), "a.json")
    except UserError as error:
        message = str(error)
        assert message.startswith("a.json: document 1 (")
        assert "`" not in message or "`" in json.dumps(spec)
        assert "[...]" not in message
