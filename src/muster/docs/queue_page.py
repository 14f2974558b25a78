"""The page on the JSON of `muster queues show`, with an example made by running it."""

from __future__ import annotations

import json

from muster.api import load_text
from muster.docs.markdown import code, page, table
from muster.explain import queue_tree, tree_document
from muster.explain.queue_document import FIELDS
from muster.framework import profile
from muster.simulate import simulate

EXAMPLE = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "10", nvidia.com/gpu: "4"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: blue}
spec: {deserved: {nvidia.com/gpu: "2"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: green, annotations: {muster.sh/reclaim-min-runtime: 10m}}
spec: {deserved: {nvidia.com/gpu: "2"}, capability: {nvidia.com/gpu: "3"}}
---
apiVersion: v1
kind: Pod
metadata: {name: work, annotations: {scheduling.volcano.sh/queue-name: green}}
spec: {containers: [{name: main, resources: {requests: {nvidia.com/gpu: "3"}}}]}
"""


def queues_json_page() -> str:
    """Return the page."""
    session = simulate(load_text(EXAMPLE, "example.yaml"), profile("muster")).last_session
    assert session is not None
    return page(
        "JSON of queues",
        "Fields are added, never renamed or removed, within a major version.",
        "## muster queues show --output json",
        table(("field", "meaning"), FIELDS),
        "For this input, with `--config muster`,",
        code(EXAMPLE, "yaml"),
        "it prints",
        code(json.dumps(tree_document(queue_tree(session)), indent=2, ensure_ascii=False), "json"),
    )
