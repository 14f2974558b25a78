"""The page on the JSON that `muster simulate` and `muster explain` print, with an example made by running them."""

from __future__ import annotations

import json

from muster.api import load_text
from muster.docs.markdown import code, page, table
from muster.explain import explain_job, find_job
from muster.simulate import simulate

EXAMPLE = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "10", nvidia.com/gpu: "2"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train, namespace: team-a}
spec: {minMember: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: train-0, namespace: team-a, annotations: {scheduling.k8s.io/group-name: train}}
spec: {containers: [{name: main, resources: {requests: {cpu: "2", nvidia.com/gpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: team-a}
spec: {containers: [{name: main, resources: {requests: {nvidia.com/gpu: "4"}}}]}
"""

SIMULATE_FIELDS = (
    ("`decisions[]`", "in the order in which they were made"),
    ("`decisions[].cycle`", "number of the scheduling cycle, from 1"),
    ("`decisions[].time`", "seconds of the virtual clock since the start"),
    ("`decisions[].kind`", "`bind`, `evict`, `nominate` or `move`"),
    ("`decisions[].pod`", "`namespace/name`"),
    ("`decisions[].node`", "the node it is bound to, evicted from, or promised"),
    ("`decisions[].job`", "`namespace/podgroup`; `namespace/pod/name` for a pod without a PodGroup"),
    ("`decisions[].beneficiary`", "the job for whose sake a pod is evicted or moved; empty if there is none"),
    ("`decisions[].why`", "the action and its reason, for people"),
    ("`decisions[].record`", "evictions only: why this pod; fields below"),
    ("`….record` of gang strategies", "`beneficiary`, `domain`, `bundle`, `nextBundle`, `nextDomain`, `ratio`"),
    ("`….record.bundle`", "`kind` (safe or whole), `job`, `tasks`, what it `frees` and `costs`, its `roi`"),
    ("`….record` of task strategies", "`beneficiary`, `node`, `candidates`, `victims`, `nextVictim`"),
    ("`….record` of scenarios", "`beneficiary`, `movesTo`, `victims`, `moved`, `trials`, `offered`"),
    ("`….record.placeTakenBy`", "the job that got the room where the pod was to move to, in the same cycle"),
    ("`….record` of stale gangs", "`job`, `brokenSeconds`, `graceSeconds`, `pods`"),
    ("`jobs`", "by job: how each stands at the end"),
    ("`jobs.*.phase`", "`Pending`, `Inqueue`, `Running`, `Unknown` or `Completed`, as in a PodGroup's status"),
    ("`jobs.*.running`", "pods that have a node"),
    ("`jobs.*.pending`", "pods that have none"),
    ("`jobs.*.reason`", "why it waits: a [reason code](reasons.md), its text and numbers; empty if it does not"),
    ("`nodes`", "by node: `allocatable` and `used` amounts as quantities, and the `pods` on it"),
    ("`cycles`", "how many cycles were run"),
    (
        "`quarantined[]`",
        "live or saved clusters only: `kind`, `namespace`, `name`, `reason` of [bad objects](../how-to/bad-objects.md)",
    ),
)

EXPLAIN_FIELDS = (
    ("`evictions[]`", "pods of the job that were evicted during the run, as in `decisions[]` above"),
    ("`job`, `queue`", "their names"),
    ("`state`", "`waiting`, `growing` (it runs and more of it waits), `running` or `finished`"),
    ("`phase`, `minimum`", "of the PodGroup"),
    ("`tasks`", "pods by state, zeros left out"),
    ("`roles[]`", "roles with a minimum: `name`, `minimum`, `ready`"),
    ("`reason`", "the dominant one: [`code`](reasons.md), `text`, `detail`, `remedy`"),
    ("`stillNeeded`", "pods that must be placed before it starts (or that wait, once it runs)"),
    ("`placed`", "pods that found a place in the last attempt"),
    ("`task`, `request`, `nodeSelector`", "a pod that found no node, and what it asks for"),
    ("`needs[]`", "by resource: `needed`, `free` on nodes where it may run, `missing` in total"),
    ("`queues[]`", "its queue, then the parents: `allocated`, `limit`, `guarantee`, `weight`; and as follows"),
    ("`queues[].deserved`, `fairShare`", "the quota and what it could have now; without `fairshare`, what it may have"),
    ("`nodes.total`, `nodes.byReason`", "nodes counted by reason code; `fits` counts those that would take it"),
    ("`nodes.groups[]`", "nodes with the same reason and the same allocatable amounts"),
    ("`nodes.closest`", "the node that lacks least, of those that only lack room; or null"),
    ("`holders[]`", "who holds what it lacks, on nodes where it may run"),
    ("`heldByOthers`", "what pods of other schedulers hold of what it lacks, which queues do not share"),
    ("`noEvictions`", "why pods of other queues are not evicted for it, where that can be told; else empty"),
    ("`placements[]`", "its pods that have a node: `pod`, `node`, `status`, `runningSeconds` (or null)"),
    ("`protected[]`", "for how long its minimum is safe: from `ownQueue` or `queues`, `secondsLeft`"),
    ("`advice[]`", "what would let it start, for people"),
)


def json_page() -> str:
    """Return the page."""
    result = simulate(load_text(EXAMPLE, "example.yaml"))
    session = result.last_session
    assert session is not None
    explanation = explain_job(session, find_job(session.snapshot, "large"))
    return page(
        "JSON of simulate and explain",
        "Fields are added, never renamed or removed, within a major version. Equal input, configuration and seed "
        "give equal output, byte for byte. `--output yaml` prints the same document as YAML.",
        "## muster simulate --output json",
        table(("field", "meaning"), SIMULATE_FIELDS),
        "For this input",
        code(EXAMPLE, "yaml"),
        "it prints",
        code(json.dumps(result.to_json(), indent=2, ensure_ascii=False), "json"),
        "## muster explain --output json",
        table(("field", "meaning"), EXPLAIN_FIELDS),
        "For job `large` of the input above it prints",
        code(json.dumps(explanation.to_json(), indent=2, ensure_ascii=False), "json"),
    )
