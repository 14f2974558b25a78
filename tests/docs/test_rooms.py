"""The house keeps its rules: rooms of a readable size that say what they are for, and a picture that shows them all."""

import ast
import re
from pathlib import Path

import pytest

from muster.docs.pictures import _reduced, rooms_page

SOURCE = Path(__file__).parents[2] / "src/muster"
MOST_MODULES = 15
ROOMS = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
NAMES = [room.relative_to(SOURCE).as_posix() for room in ROOMS]


def test_every_room_is_in_the_picture_and_in_the_list() -> None:
    page = rooms_page()
    listed = set(re.findall(r"^\| `muster\.([a-z_.]+)` \|", page, re.MULTILINE))
    assert listed == {name.replace("/", ".") for name in NAMES}
    picture = page.partition("```mermaid")[2].partition("```")[0]
    assert set(re.findall(r'\["([a-z_]+)"\]', picture)) == {name for name in NAMES if "/" not in name}
    assert "    snapshot --> api\n" in picture
    assert "    scheduler --> api\n" not in picture, "that follows from other arrows"


def test_an_arrow_is_left_out_only_where_another_way_leads() -> None:
    graph = {"a": {"b", "c"}, "b": {"c", "a"}, "c": set(), "d": {"c"}}
    assert _reduced(graph) == {"a": {"b"}, "b": {"a", "c"}, "c": set(), "d": {"c"}}


@pytest.mark.parametrize("room", ROOMS, ids=NAMES)
def test_a_room_says_what_it_is_for(room: Path) -> None:
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    assert len(said.splitlines()) >= 3, "say what the room is for, what enters and what leaves"


def test_a_room_can_be_taken_in_at_a_glance() -> None:
    sizes = {name: len(list(room.glob("[!_]*.py"))) for name, room in zip(NAMES, ROOMS, strict=True)}
    too_large = {name: size for name, size in sizes.items() if size > MOST_MODULES}
    assert too_large == {}, "make rooms of what belongs together"


def test_no_module_keeps_a_list_of_its_callers() -> None:
    keepers = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if "Callers:" in path.read_text()]
    assert keepers == [], "nobody keeps such lists true"
