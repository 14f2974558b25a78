"""The page on the JSON of `muster topology`, and the picture on the page about topology, made by the same code."""

from __future__ import annotations

import json
from pathlib import Path

from muster.api import load_text
from muster.cli.sources import ObjectSource
from muster.cli.topology_reports import ShowOptions, look_at
from muster.docs.markdown import code, page, table
from muster.topology.check import CODES, check_topology
from muster.topology.drawings import FIELDS, view_document
from muster.topology.svg import svg_text
from muster.topology.view import Objects, make_view

#: Beside the sources: pages are made in the repository.
EXAMPLE_FILES = Path(__file__).resolve().parents[3] / "examples" / "topology"

EXAMPLE = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", nvidia.com/gpu: "2"}}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: rack-1}
spec:
  tier: 1
  tierName: rack
  members:
  - {type: Node, selector: {exactMatch: {name: n1}}}
  - {type: HyperNode, selector: {exactMatch: {name: shelf-1}}}
"""

CHECK_FIELDS = (
    ("`findings[]`", "errors first, then warnings, then notes"),
    ("`findings[].level`", "`error`, `warning` or `note`"),
    ("`findings[].code`", "see below"),
    ("`findings[].subject`", "kind and name of the object; empty for what concerns no single one"),
    ("`findings[].text`", "what is wrong, for people"),
    ("`findings[].place`", "file and line of the object"),
    ("`errors`, `warnings`, `notes`", "how many there are of each"),
)


def topology_json_page() -> str:
    """Return the page."""
    loaded = load_text(EXAMPLE, "example.yaml")
    shown = view_document(make_view(Objects.of(loaded.objects)))
    found = [finding.to_json() for finding in check_topology(loaded)]
    codes = [(f"`{name}`", level, meaning) for name, (level, meaning) in CODES.items()]
    return page(
        "JSON of topology",
        "Fields are added, never renamed or removed, within a major version.",
        "## muster topology show --output json",
        table(("field", "meaning"), FIELDS),
        "For this input",
        code(EXAMPLE, "yaml"),
        "it prints",
        code(json.dumps(shown, indent=2, ensure_ascii=False), "json"),
        "## muster topology check --output json",
        table(("field", "meaning"), CHECK_FIELDS),
        table(("code", "level", "meaning"), codes),
        "For the same input, `findings` is",
        code(json.dumps(found, indent=2, ensure_ascii=False), "json"),
    )


def topology_picture() -> str:
    """Return the picture of the example with its jobs placed."""
    return svg_text(look_at(ObjectSource([str(EXAMPLE_FILES)]), ShowOptions(run=True)))
