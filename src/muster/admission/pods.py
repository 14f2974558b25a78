"""Pods and PodGroups of this scheduler: what can be counted and read, and a queue that takes them.

Pods of other schedulers are nobody's business here. A PodGroup that does not exist yet is fine: it may come next, and
what it makes of the pod's labels is then for the scheduler to say. Of a PodGroup that exists, only what a change brings
is refused: one with an old mistake, or in a queue that has been closed since, can still be changed elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from muster.admission.hyper_nodes import tier_cautions
from muster.admission.queues import queue_reference
from muster.admission.request import CREATE, Findings, Json, Known, Request, Settings, checked, read, spec_of
from muster.api import Pod, PodGroup, Problem, group_of, problems
from muster.api.errors import Problems
from muster.api.names import DEFAULT_QUEUE, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, QUEUE_NAME
from muster.api.validate import uncountable
from muster.snapshot.mirror.jobs import check_index, may_be_beyond_index
from muster.snapshot.records import check_family

_NUMBER: Final = re.compile(r"0*[1-9][0-9]*")
_PERCENT: Final = re.compile(r"0*[1-9][0-9]?%")


def validate_pod(request: Request, known: Known, settings: Settings) -> Findings:
    """Find what is wrong with a new pod, as far as scheduling goes."""
    spec = request.document.get("spec")
    if not isinstance(spec, dict) or spec.get("schedulerName") not in settings.scheduler_names:
        return
    pod = read(request.document, Pod)
    yield from uncountable(pod)
    yield from _budget(pod.metadata.annotations)
    queue = pod.metadata.annotations.get(QUEUE_NAME)
    name = group_of(pod)
    if name is None:
        if queue:
            yield from queue_reference(_annotation(QUEUE_NAME), queue, known)
    elif may_be_beyond_index(pod):  # only then is it worth a look at the PodGroup
        group = known.pod_group(f"{request.namespace or pod.namespace}/{name}")
        yield from () if group is None else checked(check_index, pod, group.spec.sub_group_policy)


def _annotation(key: str) -> str:
    return f'metadata.annotations["{key}"]'


def _budget(annotations: dict[str, str]) -> Problems:
    """How much of a gang may be disrupted at once: a number of pods, or a part of them."""
    given = [key for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE) if key in annotations]
    for key in given:
        value = annotations[key]
        if _NUMBER.fullmatch(value) is None and _PERCENT.fullmatch(value) is None:
            text = f'expected a number of pods above 0, or a percentage from 1% to 99%, got "{value}"'
            known_as = "must be a positive integer, or percentage which between 1% ~ 99%"
            yield Problem(_annotation(key), text, known_as)
    if len(given) > 1:
        text = f"expected {given[0]} or {given[1]}, got both; drop one"
        yield Problem("metadata.annotations", text, known_as="not allow configure multiple annotations")


# -- PodGroups -------------------------------------------------------------------------------------------------


def validate_pod_group(request: Request, known: Known, settings: Settings) -> Findings:
    """Find what is wrong with a PodGroup that is made or changed."""
    del settings
    group = read(request.document, PodGroup)
    known_problems = set() if request.operation == CREATE else set(problems(read(request.old, PodGroup)))
    yield from (problem for problem in problems(group) if problem not in known_problems)
    if request.operation == CREATE:
        key = f"{request.namespace or group.namespace}/{group.name}"
        yield from checked(check_family, known.kai_pod_group(key), group)
    # As written: what names no queue will be in one that is always there.
    queue = _written_queue(request.document)
    if queue and (request.operation == CREATE or queue != _written_queue(request.old)):
        yield from queue_reference("spec.queue", group.spec.queue, known)
    yield from tier_cautions("spec.networkTopology", group.spec.network_topology, known)
    for index, policy in enumerate(group.spec.sub_group_policy):
        yield from tier_cautions(f"spec.subGroupPolicy[{index}].networkTopology", policy.network_topology, known)


def _written_queue(document: Json) -> object:
    spec = document.get("spec")
    return spec.get("queue") if isinstance(spec, dict) else None


def fill_pod_group(document: Json, request: Request, known: Known, settings: Settings) -> None:
    """Put a gang that chose no queue into the one of its namespace.

    The default queue counts as no choice: a server that has Volcano's definitions fills it in before anybody is asked.
    """
    del settings
    spec = spec_of(document)
    if spec.get("queue") in (None, "", DEFAULT_QUEUE):
        namespace = known.namespace(request.namespace)
        own = namespace.metadata.annotations.get(QUEUE_NAME) if namespace is not None else None
        spec["queue"] = own or DEFAULT_QUEUE
