"""The pictures: a topology, and the rooms of the code.

The rooms are drawn from the imports: which package stands on which, and what each is for. An arrow goes from a room to
one that it imports. Arrows that follow from others are left out: who imports a room that imports another reaches that
one too.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from muster.cli.sources import ObjectSource
from muster.cli.topology_reports import ShowOptions, look_at
from muster.docs.markdown import code, page, table
from muster.topology.svg import svg_text

#: Beside the sources: pages are made in the repository.
EXAMPLE_FILES = Path(__file__).resolve().parents[3] / "examples" / "topology"


def topology_picture() -> str:
    """Return the picture of the example with its jobs placed."""
    return svg_text(look_at(ObjectSource([str(EXAMPLE_FILES)]), ShowOptions(run=True)))


_ROOT = Path(__file__).parent.parent
_Graph = Mapping[str, frozenset[str]]


def rooms_page() -> str:
    """Return the page: one picture of all rooms, one of each that is large enough to have parts, and a list."""
    imports = _imports()
    rooms = [module for module in imports if _is_package(module) and "." in module]
    top = [room for room in rooms if room.count(".") == 1]
    nested = [room for room in rooms if any(other.startswith(f"{room}.") for other in rooms)]
    return page(
        "Rooms",
        "Every package is a room of at most about fifteen modules. An arrow points to what a room imports; arrows that"
        " follow from others are left out. `make imports` holds the directions (`pyproject.toml`, `importlinter`).",
        _picture(_reduced(_between(imports, top))),
        *(_inside(room, imports) for room in nested),
        "## What each room is for",
        table(("room", "what it is for, what enters, what leaves"), ((f"`{room}`", _says(room)) for room in rooms)),
    )


def _inside(room: str, imports: _Graph) -> str:
    """The picture of one room: its modules, and the rooms in it; "" where they hardly know each other, as plugins."""
    depth = room.count(".") + 1
    parts = [module for module in imports if module.startswith(f"{room}.") and module.count(".") == depth]
    graph = _reduced(_between(imports, parts))
    is_worth_it = sum(map(len, graph.values())) >= len(parts) / 2
    return f"## Inside `{room}`\n\n{_picture(graph)}" if is_worth_it else ""


def _imports() -> dict[str, frozenset[str]]:
    """Every module, by name, with the modules of ours that it imports."""
    files = {_name(path): path for path in _ROOT.rglob("*.py")}
    return {name: frozenset(_imported(files[name], files.keys())) for name in sorted(files)}


def _name(path: Path) -> str:
    parts = path.relative_to(_ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, known: Container[str]) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in known:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in whole)


def _is_package(module: str) -> bool:
    return (_ROOT.parent / module.replace(".", "/") / "__init__.py").is_file()


def _between(imports: _Graph, parts: list[str]) -> dict[str, set[str]]:
    """What the parts import of each other, each with all that is inside it."""
    home = {module: part for module in imports for part in parts if f"{module}.".startswith(f"{part}.")}
    graph: dict[str, set[str]] = {part: set() for part in parts}
    for module, part in home.items():
        graph[part] |= {home[other] for other in imports[module] if other in home} - {part}
    return graph


def _reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without edges whose end can be reached another way."""
    for part in sorted(graph):
        for other in sorted(graph[part]):
            graph[part].remove(other)
            if not _reaches(graph, part, other):
                graph[part].add(other)
    return graph


def _reaches(graph: dict[str, set[str]], start: str, end: str) -> bool:
    seen, left = {start}, [start]
    while left:
        below = graph[left.pop()] - seen
        if end in below:
            return True
        seen |= below
        left += sorted(below)
    return False


def _picture(graph: dict[str, set[str]]) -> str:
    names = {part: part.rpartition(".")[2] for part in graph}
    # Rooms are square, modules are round.
    shapes = {part: f'["{name}"]' if _is_package(part) else f'("{name}")' for part, name in names.items()}
    lines = [f"    {names[part]}{shapes[part]}" for part in sorted(graph)]
    lines += [f"    {names[part]} --> {names[other]}" for part in sorted(graph) for other in sorted(graph[part])]
    return code("\n".join(["flowchart TD", *lines]), "mermaid")


def _says(room: str) -> str:
    path = _ROOT.parent / room.replace(".", "/") / "__init__.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
