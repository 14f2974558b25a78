"""Volcano's webhook cases: the request of a case through the hook of Muster that answers it.

Whether an object is admitted is compared exactly. Messages are Muster's own words; `admission_reasons` says which of
them stands for which of Volcano's, so that an object refused for a wrong reason is a failure, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.admission_reasons import missing_reasons
from conformance.cases import Body, Case
from conformance.results import Mismatch
from muster.admission import CREATE, HOOKS, Facts, Request, Settings, Verdict, judge
from muster.admission.job_tasks import topology_policy_problems
from muster.admission.jobs import start_order
from muster.admission.pods import template_pod
from muster.api import Problem, Queue
from muster.api.kinds import decode_as
from muster.api.objects.batch import Job, JobTask

_MESSAGES = ("message", "messageContains", "observedMessage")


def is_admission(case: Case) -> bool:
    """Whether the case is about admission."""
    return str(case.body["function"]) in ADMISSION_ADAPTERS


def compare_admission(case: Case) -> Iterator[Mismatch]:
    """Yield what differs: the verdict, or a reason that is not given."""
    expect = case.body["expect"]
    found = ADMISSION_ADAPTERS[str(case.body["function"])](case.body["input"])
    if isinstance(found, dict):
        yield from (Mismatch(key, wanted, found.get(key)) for key, wanted in expect.items() if found.get(key) != wanted)
        return
    # Some functions only return what is wrong.
    allowed = expect.get("allowed", not expect.get("observedMessage"))
    if found.is_allowed != allowed:
        yield Mismatch("allowed", allowed, found.message or found.is_allowed)
    elif not allowed:
        theirs = [text for key in _MESSAGES for text in _texts(expect.get(key))]
        yield from (Mismatch("reason", reason, found.message) for reason in missing_reasons(theirs, found.message))


def _texts(value: Any) -> list[str]:  # noqa: ANN401  # text, a list of texts or nothing
    return [value] if isinstance(value, str) else list(value or ())


# -- requests ------------------------------------------------------------------------------------------------


def _asking(path: str) -> Callable[[Body], Verdict]:
    """An adapter for cases that are requests."""

    def ask(given: Body) -> Verdict:
        document = given.get("object") or {}
        metadata = document.get("metadata") or {}
        request = Request(
            given.get("operation", CREATE),
            document,
            given.get("oldObject") or {},
            given.get("name") or metadata.get("name", ""),
            metadata.get("namespace", ""),
        )
        return judge(HOOKS[path], request, _facts(given), _settings(given))

    return ask


def _facts(given: Body) -> Facts:
    queues = [item for item in given.get("existingQueues") or () if item.get("metadata")]
    return Facts.of(decode_as(item, Queue) for item in queues)


def _settings(given: Body) -> Settings:
    config, gates = given.get("config") or {}, given.get("featureGates") or {}
    return Settings(
        max_queue_depth=config.get("maxQueueDepth", 5),
        guard_busy_queues=config.get("enableQueueAllocatedPodsCheck", False),
        pod_level_resources=gates.get("PodLevelResources", False),
    )


def _children(given: Body) -> Verdict:
    """A parent with the children that the case names, whatever other children it has."""
    name = given["object"]["metadata"]["name"]
    others = [item for item in given["existingQueues"] if item["spec"].get("parent") != name]
    return _asking("/queues/validate")({**given, "existingQueues": [*others, *given["children"]]})


# -- parts of rules ------------------------------------------------------------------------------------------


def _tasks(listed: list[Body]) -> list[JobTask]:
    return list(decode_as({"spec": {"tasks": listed}}, Job).spec.tasks)


def _task_topology(given: Body) -> Verdict:
    task = _tasks([given["taskSpec"]])[0]
    pod = template_pod("template", task)
    problems: tuple[Problem, ...] = tuple(topology_policy_problems("spec.tasks[0]", task.topology_policy, pod))
    return Verdict(problems)


def _order(given: Body) -> Body:
    order = start_order(_tasks(given["tasks"]))
    return {"isDAG": order is not None, "sortedTasks": order}


ADMISSION_ADAPTERS: dict[str, Callable[[Body], Verdict | Body]] = {
    "validateHyperNode": _asking("/hypernodes/validate"),
    "validatePodGroup": _asking("/podgroups/validate"),
    "validatePod": _asking("/pods/validate"),
    "validateJobCreate": _asking("/jobs/validate"),
    "validateJobUpdate": _asking("/jobs/validate"),
    "admitQueues": _asking("/queues/validate"),
    "validateQueueDepth": _asking("/queues/validate"),
    "validateChildAgainstAncestor": _asking("/queues/validate"),
    "validateChildrenConstraints": _children,
    "validateTaskTopoPolicy": _task_topology,
    "topoSort": _order,
}
