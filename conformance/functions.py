"""Volcano's function cases: each adapter builds the input and calls the function of Muster that answers it.

An adapter never computes an answer itself. A function without an adapter is skipped by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from conformance.cases import Body, Case
from conformance.eviction_functions import EVICTION_ADAPTERS
from conformance.pictures import decode_as, document, job_session, objects_session, status_columns
from conformance.results import Mismatch
from conformance.scheduling import NOW
from conformance.strategy_functions import STRATEGY_ADAPTERS
from conformance.topology_functions import TOPOLOGY_ADAPTERS
from muster.api import (
    Pod,
    PodDisruptionBudget,
    PodGroup,
    Queue,
    SubGroupPolicy,
    decode,
    decode_hook,
    encode_hook,
    names,
)
from muster.engine.waiting import placeable_jobs, schedulable_tasks
from muster.framework import Eviction, Evictor, Session
from muster.plugins.protection.cdp import Cdp, cooldown_time
from muster.plugins.protection.pdb import victims
from muster.plugins.queues.capacity.standing import queue_share
from muster.plugins.queues.queue_books import QueueBooks
from muster.scheduler.job_statuses import is_only_leaving, leaving_count, scheduled_count
from muster.snapshot import BEST_EFFORT_PENDING, Mirror
from muster.snapshot.mirror.jobs import match_index, match_values, minimum_of, subgroup_id
from muster.snapshot.records import stamp_text

#: Input of the case -> its output, with the keys of `expect`.
Adapter = Callable[[Body], Body]

_VICTIMS = "victims (preemptable, reclaimable and victimTasks alike)"


def compare_function(case: Case) -> Iterator[Mismatch]:
    """Yield the parts of the output that differ."""
    got = ADAPTERS[case.body["function"]](case.body["input"])
    for key, wanted in case.body["expect"].items():
        if got.get(key) != wanted:
            yield Mismatch(key, wanted, got.get(key))


# -- jobs ----------------------------------------------------------------------------------------------------


def _job_readiness(given: Body) -> Body:
    session = job_session(given["minAvailable"], given["tasks"])
    return {
        "ready": session.job_deficit(0) == 0,
        "pipelined": session.job_pipelined_deficit(0) == 0,
        "starving": session.job_starving(0),
        "pendingBestEffortTaskNum": int(session.snapshot.jobs.counts[0, BEST_EFFORT_PENDING]),
    }


def _min_task_member(given: Body) -> Body:
    """The PodGroup changes from one set of role minimums to another."""
    mirror = Mirror()
    for key in ("minTaskMemberBefore", "minTaskMember"):
        mirror.upsert(decode(document(PodGroup, "job", {"minTaskMember": given.get(key) or {}})))
    jobs = mirror.snapshot().jobs
    return {
        "taskMinAvailable": dict(jobs.records[0].min_roles),
        "taskMinAvailableTotal": int(jobs.min_roles_total[0]),
    }


def _elastic_resources(given: Body) -> Body:
    """What a job holds beyond its minimum, in Volcano's words."""
    session = objects_session(
        {
            "queues": [document(Queue, "default", {})],
            "podGroups": [document(PodGroup, "job", {"minResources": given["minResources"]}, "ns1")],
            "pods": [_member(pod) for pod in given["pods"]],
        }
    )
    beyond = QueueBooks(session).elastic()[session.snapshot.jobs.index["ns1/job"]]
    amounts = session.snapshot.axis.amounts(beyond)
    scalars = {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return {
        "elastic": {
            "MilliCPU": amounts.get("cpu", 0),
            "Memory": amounts.get("memory", 0),
            "ScalarResources": scalars or None,
            "MaxTaskNum": amounts.get("pods", 0),
        }
    }


def _member(pod: Body) -> Body:
    """The pod as a member of the job; the case says so by listing it."""
    return {**pod, "metadata": {**pod["metadata"], "annotations": {names.GROUP_NAME: "job"}}}


def _scheduled_tasks(given: Body) -> Body:
    tasks = [{"status": status} for status in given["taskStatuses"]]
    return {"num": scheduled_count(job_session(1, tasks).snapshot.jobs.counts[0])}


def _leaving_tasks(given: Body) -> Body:
    return {"num": leaving_count(*status_columns(given["tasks"]))}


def _only_leaving(given: Body) -> Body:
    return {"skip": is_only_leaving(given["minAvailable"], *status_columns(given["tasks"]))}


# -- sub-groups ----------------------------------------------------------------------------------------------


def _policy(document: Body | None) -> SubGroupPolicy | None:
    return None if document is None else msgspec.convert(document, SubGroupPolicy, dec_hook=decode_hook)


def _new_subgroup(given: Body) -> Body:
    policy = _policy(given.get("policy"))
    topology = policy.network_topology if policy else None
    return {
        "matchIndex": match_index(given["matchValues"]),
        "minAvailable": minimum_of(policy),
        "networkTopology": None if topology is None else msgspec.to_builtins(topology, enc_hook=encode_hook),
    }


def _match_values(given: Body) -> Body:
    policy = _policy(given["policy"])
    assert policy is not None
    values = match_values(policy, decode(given["pod"]).metadata.labels)
    return {"values": None if values is None else list(values)}


def _subgroup_id(given: Body) -> Body:
    return {"id": subgroup_id(given["job"], given["policy"], given["matchValues"])}


def _subgroup_session(given: Body) -> Session:
    """A job with one sub-group that holds all its tasks."""
    tasks = [{**task, "status": status} for status, group in given["tasksByStatus"].items() for task in group]
    return job_session(0, tasks, {"name": "all", "subGroupSize": given["minAvailable"]})


def _subgroup_is_ready(given: Body) -> Body:
    session = _subgroup_session(given)
    return {"ready": session.subgroup_deficit(session.snapshot.jobs.subgroups[0][0]) == 0}


def _subgroup_is_pipelined(given: Body) -> Body:
    session = _subgroup_session(given)
    return {"pipelined": session.subgroup_pipelined_deficit(session.snapshot.jobs.subgroups[0][0]) == 0}


# -- actions and plugins -------------------------------------------------------------------------------------


def _pick_up_pending(given: Body) -> Body:
    session = objects_session(given)
    waiting = placeable_jobs(session, schedulable_tasks(session, best_effort=True))
    ids = session.snapshot.tasks.ids
    ordered = [task for job in sorted(waiting, key=session.job_key) for task in waiting[job].tolist()]
    return {"orderedPodNames": [ids[task].rpartition("/")[2] for task in ordered]}


def _queue_share(given: Body) -> Body:
    deserved, allocated = (
        [given[key]["MilliCPU"], given[key]["Memory"], *(given[key].get("ScalarResources") or {}).values()]
        for key in ("deserved", "allocated")
    )
    return {"share": queue_share(deserved, allocated)}


def _budget_victims(given: Body) -> Body:
    budgets = [decode_as(PodDisruptionBudget, item) for item in given["podDisruptionBudgets"]]
    pods = [decode_as(Pod, item) for item in given["preemptees"]]
    return {_VICTIMS: [pods[position].key for position in victims(budgets, pods)]}


def _cooldown_time(given: Body) -> Body:
    seconds = cooldown_time(given["podLabels"], given["podAnnotations"], "pod")
    return {"enabled": seconds is not None, "seconds": seconds or 0}


def _cooled_down(given: Body) -> Body:
    """The pods that cdp lets go; all were scheduled when they began to run."""
    pods = [
        _running_pod(given["samplePod"], item["task"], item["annotations"], item["labels"], item["runningForSeconds"])
        for item in given["preemptees"]
    ]
    session = objects_session({"pods": pods}, Cdp.name)
    tasks = session.snapshot.tasks
    candidates = np.array([tasks.ids.index(f"default/{item['task']}") for item in given["preemptees"]], np.intp)
    evictor = Evictor(int(tasks.job[candidates[0]]), candidates[:1])
    victims = session.evictable(Eviction.PREEMPT, evictor, candidates)
    return {"victims": [tasks.ids[task].rpartition("/")[2] for task in victims.tolist()]}


def _running_pod(sample: Body, name: str, annotations: Body, labels: Body, seconds: float) -> Body:
    """The sample under another name, with other marks, scheduled so many seconds ago."""
    metadata = {**sample["metadata"], "name": name, "annotations": annotations, "labels": labels}
    conditions = [
        {**condition, "lastTransitionTime": stamp_text(NOW - seconds)} for condition in sample["status"]["conditions"]
    ]
    status = {**sample["status"], "conditions": conditions}
    return {**sample, "metadata": metadata, "spec": {**sample["spec"], "nodeName": "node1"}, "status": status}


ADAPTERS: dict[str, Adapter] = {
    "jobReadiness": _job_readiness,
    "parseMinTaskMember": _min_task_member,
    "scheduledTaskNum": _scheduled_tasks,
    "releasingScheduledTaskNum": _leaving_tasks,
    "gang.skipUnschedulableConditionWhileReleasing": _only_leaving,
    "newSubJob": _new_subgroup,
    "subGroupMatchValues": _match_values,
    "subJobID": _subgroup_id,
    "subJobIsReady": _subgroup_is_ready,
    "subJobIsPipelined": _subgroup_is_pipelined,
    "elasticResources": _elastic_resources,
    "capacity.queueShare": _queue_share,
    "pdb.victims": _budget_victims,
    "podCooldownTime": _cooldown_time,
    "cdp.preemptable": _cooled_down,
    "backfill.pickUpPendingTasks": _pick_up_pending,
    **TOPOLOGY_ADAPTERS,
    **EVICTION_ADAPTERS,
    **STRATEGY_ADAPTERS,
}
