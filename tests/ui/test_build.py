"""The committed front end is the one that its sources make: whoever changes them runs `make ui`."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES, BUILT = ROOT / "ui", ROOT / "src" / "muster" / "ui" / "static"


def digest(folder: Path) -> str:
    """What `build.mjs` writes into its first line."""
    paths = [folder / "build.mjs", folder / "package-lock.json"]
    paths += [path for inner in ("public", "src") for path in (folder / inner).rglob("*") if path.is_file()]
    made = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in paths):
        made.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return made.hexdigest()


def test_the_committed_build_is_of_these_sources() -> None:
    said = re.search(r"Sources: ([0-9a-f]{64})", (BUILT / "app.js").read_text(encoding="utf-8"))
    assert said is not None
    assert said[1] == digest(SOURCES), "the sources were changed: run `make ui` and commit what it builds"


def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (SOURCES / "node_modules" / "esbuild").exists():
        pytest.skip("what builds the front end is not here: `make ui` installs it")
    subprocess.run([node, SOURCES / "build.mjs", tmp_path / "static"], check=True, timeout=60)
    built = {path.name: path.read_bytes() for path in (tmp_path / "static").iterdir()}
    assert {path.name: path.read_bytes() for path in BUILT.iterdir()} == built
