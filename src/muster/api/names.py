"""Annotation, label and taint keys, and the fixed words of the APIs that Muster reads.

Each is spelled once, here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# From a pod to its PodGroup, in the order of precedence that `links.group_of` uses.
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
KAI_GROUP_NAME: Final = "pod-group-name"

QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
#: A scheduling gate that the scheduler takes off when the queue has room; as an annotation ("true"): the pod had it.
QUEUE_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
KAI_QUEUE: Final = "kai.scheduler/queue"
#: The same before KAI 0.6; read where the other is absent.
KAI_OLD_QUEUE: Final = "runai/queue"
#: Of pods and PodGroups: preemptible, non-preemptible or semi-preemptible.
KAI_PREEMPTIBILITY: Final = "kai.scheduler/preemptibility"
#: Of pods and their owners: the priority class of the gang.
KAI_PRIORITY_LABEL: Final = "priorityClassName"
KAI_SCHEDULER: Final = "kai-scheduler"
KAI_SUBGROUP: Final = "kai.scheduler/subgroup-name"
# On nodes, queues and PodGroups: the shard of KAI that they are in.
KAI_NODE_POOL: Final = "kai.scheduler/node-pool"

# On pods.
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
PARTITION_ID: Final = "volcano.sh/partition-id"
PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
STRATEGY_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
STRATEGY_WEIGHT: Final = "volcano.sh/resource-strategy-weight"

# On pods that a controller made of a Job, as Volcano's does; the first two on others too.
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_QUEUE: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
#: The controller has asked the pod to leave: its end is no news to the policies of its Job.
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"

# On pods, for KAI: a part of one GPU, as a number below 1 or as MiB of its memory.
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"

# The condition of a pod that says whether it has a node.
POD_SCHEDULED: Final = "PodScheduled"

# On PodGroups.
ALLOCATED_HYPERNODE: Final = "volcano.sh/job-allocated-hypernode"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
SLA_WAITING_TIME: Final = "sla-waiting-time"

# On PodGroups, by Muster: when the gang last became complete, and since when it is broken (RFC 3339); how long it
# may stay so. The KAI keys are read where Muster's own are absent.
START_STAMP: Final = "muster.sh/started"
STALE_STAMP: Final = "muster.sh/stale-since"
STALE_GRACE: Final = "muster.sh/staleness-grace-period"
#: On PodGroups: "PodGroup" says that its pods are taken away together or not at all, those beyond the minimum included.
DISRUPTION_MODE: Final = "muster.sh/disruption-mode"
WHOLE_GROUP: Final = "PodGroup"
KAI_START_STAMP: Final = "kai.scheduler/last-start-timestamp"
KAI_STALE_STAMP: Final = "kai.scheduler/stale-podgroup-timestamp"
KAI_STALE_GRACE: Final = "kai.scheduler/staleness-grace-period"
#: On PodGroups and on what they are made for: for how long pods wait before anybody is evicted for them.
KAI_PREEMPTION_DELAY: Final = "kai.scheduler/preemption-delay"

# On queues: for how long a gang that runs is left alone.
PREEMPT_MIN_RUNTIME: Final = "muster.sh/preempt-min-runtime"
RECLAIM_MIN_RUNTIME: Final = "muster.sh/reclaim-min-runtime"

# On queues: how much of each node group they may hold, as JSON.
NODE_GROUP_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"

# On queues.
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"

# On nodes.
NODE_GROUP: Final = "volcano.sh/nodegroup-name"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

# On persistent volume claims.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
# By Muster, in its own picture of a claim only: nodes, with commas between, that are not tried for it for a while.
VOLUME_REFUSED_ON: Final = "muster.sh/volume-refused-on"

# On persistent volumes: whose claim was chosen by a controller, so that the choice may be undone by one.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

# On pods of the embedded cluster: how long they run, and how they end ("succeeded" or "failed").
#: In saved snapshots, on what is left of an object that could not be read: what is wrong with it.
UNREADABLE: Final = "muster.sh/unreadable"
RUN_SECONDS: Final = "muster.sh/run-seconds"
EXIT: Final = "muster.sh/exit"
EXIT_CODE: Final = "muster.sh/exit-code"
#: Said of a workload, these are said of all its pods.
LIFE: Final = (RUN_SECONDS, EXIT, EXIT_CODE)

# On PodGroups and pods: how long they are expected to run, in seconds; and who stands behind them, where neither their
# owner nor their queue says so.
EXPECTED_SECONDS: Final = "muster.sh/expected-seconds"
OWNER: Final = "muster.sh/owner"

#: What KAI's installation makes; they hold even where the PriorityClass objects are missing.
KAI_PRIORITY_CLASSES: Final[Mapping[str, int]] = {
    "train": 50,
    "interactive-preemptible": 75,
    "build-preemptible": 75,
    "build": 100,
    "inference": 125,
}

#: The queues that KAI's installation makes.
KAI_PARENT_QUEUE: Final = "default-parent-queue"
KAI_DEFAULT_QUEUE: Final = "default-queue"

DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"

# On pods: their order inside a job of KAI.
KAI_TASK_PRIORITY: Final = "kai.scheduler/task-priority"
