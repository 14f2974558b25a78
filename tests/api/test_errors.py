"""Errors say where they happened and what they mean for the caller."""

import pytest

from muster.api import BackendError, InternalError, MusterError, UserError


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "too few"),
        ({"place": "a.yaml: document 1"}, "a.yaml: document 1: too few"),
        ({"subject": "Pod a/b"}, "Pod a/b: too few"),
        ({"place": "a.yaml: document 1", "subject": "Pod a/b"}, "a.yaml: document 1 (Pod a/b): too few"),
        (
            {"place": "a.yaml", "subject": "Pod a/b", "field": "spec.x"},
            "a.yaml (Pod a/b): spec.x: too few",
        ),
    ],
)
def test_user_errors_put_their_parts_in_order(parts: dict[str, str], text: str) -> None:
    assert str(UserError("too few", **parts)) == text


def test_an_outer_layer_adds_only_what_was_unknown() -> None:
    inner = UserError("too few", subject="Pod a/b", field="spec.x")
    assert str(inner.located(place="a.yaml", subject="other")) == "a.yaml (Pod a/b): spec.x: too few"


def test_exit_codes_and_retries() -> None:
    assert UserError("x").exit_code == 2
    assert InternalError("x").exit_code == 1
    assert BackendError("x", retryable=True).retryable
    assert not BackendError("x", retryable=False).retryable
    for error in (UserError("x"), BackendError("x", retryable=False), InternalError("x")):
        assert isinstance(error, MusterError)
