"""`python -m muster.docs [--check]`: write the generated pages below `docs/`, or check that they are current.

Run in the root of the repository. With --check nothing is written; stale pages are named and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from muster.docs.pages import stale, write


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m muster.docs", description="Make the reference pages.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    parser.add_argument("--root", type=Path, default=Path("docs"), help="the folder of the pages")
    arguments = parser.parse_args()
    if not arguments.root.is_dir():
        parser.error(f"there is no folder {arguments.root}; run this in the root of the repository")
    if not arguments.check:
        for path in write(arguments.root):
            sys.stdout.write(f"wrote {path}\n")
        return 0
    old = stale(arguments.root)
    for path in old:
        sys.stderr.write(f"{path} is stale: run `python -m muster.docs`\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
