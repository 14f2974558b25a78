"""Colours that can be read: WCAG asks for a contrast of 4.5 between text and what it stands on."""

import re
from pathlib import Path

import pytest

STYLE = (Path(__file__).parents[2] / "ui" / "src" / "style.css").read_text()


def _theme(opening: str) -> dict[str, str]:
    block = STYLE.partition(opening)[2].partition("}")[0]
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))


LIGHT = _theme(":root {")
DARK = _theme(':root[data-theme="dark"] {')
PAIRS = [
    *[(text, ground) for text in ("ink", "muted", "accent") for ground in ("page", "panel", "sunken")],
    *[(tone, ground) for tone in ("good", "warn", "bad", "promised") for ground in ("panel", f"{tone}-soft")],
    ("accent", "accent-soft"),
    ("panel", "ink"),  # tips
    ("panel", "accent"),  # the button that asks
]


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    bright, dim = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_the_measure_is_right() -> None:
    assert contrast("#000000", "#ffffff") == 21.0
    assert contrast("#777777", "#777777") == 1.0


@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_can_be_read_on_its_ground(text: str, ground: str) -> None:
    for theme in (LIGHT, DARK):
        assert contrast(theme[text], theme[ground]) >= 4.5


@pytest.mark.parametrize("hue", range(12))
def test_colours_of_names_stand_out(hue: int) -> None:
    """What is a shape and no text needs a contrast of 3."""
    for theme in (LIGHT, DARK):
        assert contrast(theme[f"hue-{hue}"], theme["panel"]) >= 3.0
