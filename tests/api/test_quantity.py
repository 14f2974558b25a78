"""Quantities follow the Kubernetes grammar and lose nothing."""

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import Quantity, format_quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}

digits = st.text("0123456789", min_size=1, max_size=20)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, digits),
    st.builds("{}.".format, digits),
    st.builds(".{}".format, digits),
)
signs = st.sampled_from(["", "+", "-"])


def decimal(number: str) -> Fraction:
    """Read a decimal by hand: the independent half of the comparison."""
    whole, _, part = number.partition(".")
    return Fraction(int(whole or "0")) + Fraction(int(part or "0"), 10 ** len(part))


@given(signs, numbers, st.sampled_from(sorted(SUFFIXES)))
def test_value_is_number_times_suffix(sign: str, number: str, suffix: str) -> None:
    expected = decimal(number) * SUFFIXES[suffix] * (-1 if sign == "-" else 1)
    assert Quantity(f"{sign}{number}{suffix}").value == expected


@given(numbers, st.sampled_from("eE"), st.integers(-30, 30), st.booleans())
def test_exponents_are_powers_of_ten(number: str, letter: str, power: int, plus: bool) -> None:
    text = f"{number}{letter}{'+' if plus and power >= 0 else ''}{power}"
    assert Quantity(text).value == decimal(number) * Fraction(10) ** power


@given(signs, numbers, st.sampled_from(sorted(SUFFIXES)))
def test_canonical_text_means_the_same(sign: str, number: str, suffix: str) -> None:
    quantity = Quantity(f"{sign}{number}{suffix}")
    assert Quantity(format_quantity(quantity)) == quantity


@given(numbers, st.sampled_from(["n", "u", "m", "", "k", "Ki"]))
def test_amounts_are_the_least_integers_that_are_enough(number: str, suffix: str) -> None:
    quantity = Quantity(number + suffix)
    if quantity.value < 2**53:
        assert quantity.units() == math.ceil(quantity.value)
        assert quantity.milli() == math.ceil(quantity.value * 1000)


@given(st.integers(0, 2**63 - 1))
def test_integers_are_kept_to_the_last_digit(number: int) -> None:
    assert Quantity.of(number).units() == number
    assert Quantity.of(str(number)).units() == number


@given(st.floats(0, 1e12, allow_nan=False))
def test_a_float_means_the_decimal_that_was_typed(number: float) -> None:
    assert Quantity.of(number).value == Fraction(repr(number))


@pytest.mark.parametrize(
    ("text", "milli", "units"),
    [
        ("0.1", 100, 1),
        ("100m", 100, 1),
        ("1", 1000, 1),
        ("1500m", 1500, 2),
        ("1n", 1, 1),
        ("0.0001", 1, 1),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("1E", 10**21, 10**18),
        ("12e-1", 1200, 2),
        ("0", 0, 0),
        (".5Gi", 2**29 * 1000, 2**29),
        ("1.", 1000, 1),
        ("-1500m", -1500, -2),
    ],
)
def test_amounts_round_up(text: str, milli: int, units: int) -> None:
    if milli < 2**63:
        assert Quantity(text).milli() == milli
    assert Quantity(text).units() == units


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "eight",
        "8GPU",
        "1K",
        "1ki",
        "1e",
        "1e3.5",
        "--1",
        "1 Gi",
        "Gi",
        ".",
        "+",
        "1mi",
        "0x10",
        "١",
        "1e999",
    ],
)
def test_what_is_not_a_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="expected a quantity such as") as caught:
        Quantity(text)
    assert str(caught.value).endswith(f'got "{text}"')


@pytest.mark.parametrize(
    ("given_value", "shown"),
    [
        (True, "true"),
        (None, "nothing"),
        ([], "a list"),
        ({}, "a mapping"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_what_cannot_be_a_quantity_is_named(given_value: object, shown: str) -> None:
    with pytest.raises(ValueError, match="expected a quantity") as caught:
        Quantity.of(given_value)
    assert shown in str(caught.value)


def test_a_very_long_number_is_refused_and_not_repeated_in_full() -> None:
    with pytest.raises(ValueError, match="expected a quantity") as caught:
        Quantity("9" * 5000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["8Ei", "9.3E", "1e19"])
def test_units_beyond_64_bits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="fits 64 bits"):
        Quantity(text).units()


def test_milli_beyond_64_bits_is_refused_though_the_units_fit() -> None:
    quantity = Quantity("1E")
    assert quantity.units() == 10**18
    with pytest.raises(ValueError, match='got "1E"'):
        quantity.milli()


def test_equal_values_are_equal_and_hash_alike_however_written() -> None:
    assert Quantity("1") == Quantity("1000m")
    assert len({Quantity("1"), Quantity("1000m"), Quantity("1k")}) == 2
    assert Quantity("1") != Quantity("2")
    assert Quantity("1") != 1


def test_the_text_is_kept_as_written() -> None:
    assert str(Quantity("1024Mi")) == "1024Mi"
    assert repr(Quantity("1024Mi")) == "Quantity('1024Mi')"


def test_a_quantity_cannot_be_changed_and_survives_pickling() -> None:
    quantity = Quantity("4")
    with pytest.raises(AttributeError, match="immutable"):
        quantity.text = "5"
    assert pickle.loads(pickle.dumps(quantity)) == quantity


def test_equal_texts_share_one_object() -> None:
    assert Quantity.of("77Gi") is Quantity.of("77Gi")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5", "500m"),
        ("1k", "1000"),
        ("1u", "1u"),
        ("0.1Ki", "102400m"),
        ("1e-12", "1e-12"),
        ("-2.5", "-2500m"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert format_quantity(Quantity(text)) == canonical
