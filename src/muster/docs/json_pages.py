"""The pages on the JSON that commands print: each field, and an example made by running the command."""

from __future__ import annotations

import json

from muster.api import load_text
from muster.docs.markdown import code, page, table
from muster.explain import explain_job, find_job, queue_overview
from muster.framework import profile
from muster.lab.compare.verdicts import KEYS as COMPARED
from muster.lab.report import KEYS
from muster.simulate import simulate
from muster.topology.check import CODES, check_topology
from muster.topology.drawings import VIEW_FIELDS, view_document
from muster.topology.view import Objects, make_view
from muster.whatif import AddNodes, what_if

SIMULATE_EXAMPLE = """\
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
        "`workloads`",
        "workloads by namespace and name: `kind`, `phase`, pods by state, `retries`, `message`, `podGroup`",
    ),
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
    ("`nodes.shortOf`", "on how many of the nodes that lack room each resource is short, most first"),
    ("`nodes.closest`", "the node that lacks least, of those that only lack room; or null"),
    ("`holders[]`", "who holds what it lacks, on nodes where it may run"),
    ("`heldByOthers`", "what pods of other schedulers hold of what it lacks, which queues do not share"),
    ("`noEvictions`", "why pods of other queues are not evicted for it, where that can be told; else empty"),
    ("`placements[]`", "its pods that have a node: `pod`, `node`, `status`, `runningSeconds` (or null)"),
    ("`protected[]`", "for how long its minimum is safe: from `ownQueue` or `queues`, `secondsLeft`"),
    ("`advice[]`", "what would let it start, for people; the command prints what was tried and works"),
    ("`untried[]`", "the command: what could help and was not tried"),
    (
        "`expectedStart.inSeconds`, `text`",
        "the command, if it waits: when it is expected to start (or null), and from what",
    ),
    ("`expectedStart.restsOn`, `factor`", "jobs that end before, by source of their run times; how wrong these may be"),
)


def json_page() -> str:
    """Return the page."""
    result = simulate(load_text(SIMULATE_EXAMPLE, "example.yaml"))
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
        code(SIMULATE_EXAMPLE, "yaml"),
        "it prints",
        code(json.dumps(result.to_json(), indent=2, ensure_ascii=False), "json"),
        "## muster explain --output json",
        table(("field", "meaning"), EXPLAIN_FIELDS),
        "For job `large` of the input above it prints",
        code(json.dumps(explanation.to_json(), indent=2, ensure_ascii=False), "json"),
    )


QUEUE_FIELDS = (
    ("`total`", "by resource: what the ready nodes have"),
    ("`heldByOthers`", "by resource: what of it pods of other schedulers hold, which queues do not share"),
    ("`behindTaints`", "by resource: what of it is on nodes whose taints no pod tolerates, which queues do not share"),
    ("`queues[]`", "every queue, parents before the queues below them, queues with a fault at the end"),
    ("`queues[].name`, `parent`, `priority`", "as in the object; `parent` is empty at the top"),
    ("`queues[].open`, `reclaimable`", "false: it takes no more jobs; nothing is taken back from it"),
    ("`queues[].preemptMinRuntime`, `reclaimMinRuntime`", "seconds; null where the queue itself sets none"),
    ("`queues[].fault`", "why its parents do not lead to the top; empty if they do"),
    ("`queues[].jobs`", "of the queue itself: `running` with their minimum, `waiting` for it; `pendingPods` of both"),
    ("`queues[].reasons[]`", "why pods wait: [`code`](reasons.md), `text`, how many `jobs`; the most frequent first"),
    ("`queues[].resources`", "by resource, with all queues below; amounts as quantities"),
    ("`….quota`", "what the queue was promised: a quantity, `unlimited`, or null where it has none"),
    ("`….limit`", "the most that it may hold; null: no limit"),
    ("`….weight`", "its part of what is left over"),
    ("`….fairShare`", "what it may have now; null where no plugin says"),
    ("`….held`", "what its pods hold or are promised"),
    ("`….asked`", "what it holds and what its pending pods ask for"),
    ("`loans[]`", "`borrower` holds `amount` of `resource` that `lender` was promised and does not use"),
    ("`missing[]`", "queues that do not exist, and how many `jobs` name them"),
)

QUEUES_EXAMPLE = """\
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
    session = simulate(load_text(QUEUES_EXAMPLE, "example.yaml"), profile("muster")).last_session
    assert session is not None
    return page(
        "JSON of queues",
        "Fields are added, never renamed or removed, within a major version.",
        "## muster queue show --output json",
        table(("field", "meaning"), QUEUE_FIELDS),
        "For this input, with `--config muster`,",
        code(QUEUES_EXAMPLE, "yaml"),
        "it prints",
        code(json.dumps(queue_overview(session).to_json(), indent=2, ensure_ascii=False), "json"),
    )


TOPOLOGY_EXAMPLE = """\
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
    loaded = load_text(TOPOLOGY_EXAMPLE, "example.yaml")
    shown = view_document(make_view(Objects.of(loaded.objects)))
    found = [finding.to_json() for finding in check_topology(loaded)]
    codes = [(f"`{name}`", level, meaning) for name, (level, meaning) in CODES.items()]
    return page(
        "JSON of topology",
        "Fields are added, never renamed or removed, within a major version.",
        "## muster topology show --output json",
        table(("field", "meaning"), VIEW_FIELDS),
        "For this input",
        code(TOPOLOGY_EXAMPLE, "yaml"),
        "it prints",
        code(json.dumps(shown, indent=2, ensure_ascii=False), "json"),
        "## muster topology check --output json",
        table(("field", "meaning"), CHECK_FIELDS),
        table(("code", "level", "meaning"), codes),
        "For the same input, `findings` is",
        code(json.dumps(found, indent=2, ensure_ascii=False), "json"),
    )


def report_json_page() -> str:
    """Return the page."""
    return page(
        "JSON of replays",
        "`muster replay JOBS --out DIR` writes it to `DIR/report.json`, and `--output json` prints it. "
        "Fields are added, never renamed or removed, within a major version. `*` stands for any name.",
        table(("field", "meaning"), [(f"`{key}`", meaning) for key, meaning in KEYS.items()]),
    )


WHAT_IF_FIELDS = (
    ("`changes[]`", "what is changed, in words, in the order in which it was done"),
    ("`notes[]`", "what is worth knowing about them"),
    ("`without`, `with`", "each run in numbers: as follows"),
    ("`….cycles`, `….seconds`", "cycles that were run, and how far the virtual clock went"),
    ("`….settled`", "true: nothing more would be decided; false: a limit was reached"),
    (
        "`….started`, `….waiting`, `….evicted`",
        "jobs that got their minimum, that wait at the end, that lost it for good",
    ),
    ("`….evictedPods`, `….movedPods`", "pods that had to leave, and those of them that are to go on elsewhere"),
    (
        "`….lostGpuSeconds`",
        "work that evictions undo: GPUs times the seconds that they had run, of gangs that break all of it",
    ),
    ("`….gpusHeld`, `….gpus`", "GPUs that pods hold at the end, and those of ready nodes"),
    ("`jobs[]`", "jobs that wait or about which something is decided in one of the runs; differences first"),
    ("`jobs[].job`", "`namespace/podgroup`; `namespace/pod/name` for a pod without a PodGroup"),
    (
        "`jobs[].difference`",
        "`evicted`, `waits`, `later`, `new`, `starts`, `earlier`, `spared`, `elsewhere`, `gone`, `other reason`,`same`",
    ),
    ("`jobs[].without`, `jobs[].with`", "what becomes of it; null: it is not there, or it runs and nothing is decided"),
    ("`….queue`", "its queue"),
    ("`….outcome`", "`runs`, `starts`, `waits`, `evicted`, `restarts` (evicted, and started again) or `deleted`"),
    ("`….startsInSeconds`", "until it has its minimum; null: it had it, or does not get it"),
    (
        "`….startRestsOn.jobs`",
        "jobs that end before it starts, by the source of their run times: `said`, `deadline`, `record`",
    ),
    (
        "`….startRestsOn.factor`",
        "by what factor the least sure of these times may be wrong; `startRestsOn` is null without any",
    ),
    ("`….placed`, `….pending`, `….minimum`", "pods that have a node at the end, that have none, and how many need one"),
    ("`….reason`", "why it waits: a [reason code](reasons.md), its text and numbers; empty if it does not"),
    ("`….nodes[]`", "where its pods are, or were until they ended"),
    ("`….evictions[]`", "pods that leave at one moment for the same sake: as follows"),
    (
        "`….evictions[].atSeconds`, `beneficiary`, `action`",
        "when, for which job (empty: for none), and which action decided it",
    ),
    ("`….evictions[].pods[]`, `moved`", "each `pod` with its `node`; how many are to go on elsewhere"),
    ("`….evictions[].lostGpuSeconds`, `lostPodSeconds`", "what is lost of the work that was done"),
    ("`….evictions[].breaksGang`", "whether it has less than its minimum afterwards"),
    ("`….lostGpuSeconds`", "of all its evictions together"),
)


def what_if_json_page() -> str:
    """Return the page."""
    found = what_if(load_text(SIMULATE_EXAMPLE, "example.yaml"), [AddNodes(2, "n1")])
    return page(
        "JSON of whatif",
        "Fields are added, never renamed or removed, within a major version. `--output yaml` prints the same as YAML. "
        "In Python it is `muster.whatif.what_if(objects, changes, options).as_document()`.",
        "## muster whatif --output json",
        table(("field", "meaning"), WHAT_IF_FIELDS),
        "For this input and `--add-nodes 2xn1`",
        code(SIMULATE_EXAMPLE, "yaml"),
        "it prints",
        code(json.dumps(found.as_document(), indent=2, ensure_ascii=False), "json"),
    )


def compare_json_page() -> str:
    """Return the page."""
    return page(
        "JSON of comparisons",
        "`muster compare JOBS… --out DIR` writes it to `DIR/compare.json`, and `--output json` prints it. "
        "Fields are added, never renamed or removed, within a major version. `*` stands for any name. "
        "`DIR/runs` has the [report](report-json.md) of every run.",
        table(("field", "meaning"), [(f"`{key}`", meaning) for key, meaning in COMPARED.items()]),
    )
