"""Pods: those of this scheduler, the PodGroups that they belong to, and the templates that Jobs make them of.

Pods of other schedulers are nobody's business here. A PodGroup that does not exist yet is fine: it may come next, and
what it makes of the pod's labels is then for the scheduler to say. Of a PodGroup that exists, only what a change
brings is refused: one with an old mistake, or in a queue that has been closed since, can still be changed elsewhere.

Of templates, that is checked for which a server would refuse the pods later, as far as scheduling and everyday
mistakes go. Not all rules of Kubernetes are here; what slips through is refused when the pods are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from muster.admission.hyper_nodes import tier_cautions
from muster.admission.queues import queue_reference
from muster.admission.request import CREATE, Findings, Json, Known, Request, Settings, checked, read, spec_of
from muster.api import (
    Container,
    Pod,
    PodGroup,
    Problem,
    ResourceRequirements,
    UserError,
    format_amount,
    group_of,
    pod_request,
    problems,
)
from muster.api.errors import Problems, one_of
from muster.api.kinds import decode_as
from muster.api.names import DEFAULT_QUEUE, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, QUEUE_GATE, QUEUE_NAME
from muster.api.objects.batch import JobTask
from muster.api.resources import CPU, MEMORY, PODS, to_base
from muster.api.validate import uncountable
from muster.snapshot.mirror.jobs import check_index, may_be_beyond_index
from muster.snapshot.records import check_family

_NUMBER: Final = re.compile(r"0*[1-9][0-9]*")
_PERCENT: Final = re.compile(r"0*[1-9][0-9]?%")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253


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


def fill_pod(document: Json, request: Request, known: Known, settings: Settings) -> None:
    """Hold a pod that asks for it back until its queue has let it in, so that nobody adds nodes for it before."""
    del request, known
    spec = spec_of(document)
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    if spec.get("schedulerName") not in settings.scheduler_names or annotations.get(QUEUE_GATE) != "true":
        return
    gates = spec.get("schedulingGates") or []
    if all(gate.get("name") != QUEUE_GATE for gate in gates):
        spec["schedulingGates"] = [*gates, {"name": QUEUE_GATE}]


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


# -- templates -------------------------------------------------------------------------------------------------


def template_pod(field: str, task: JobTask) -> Pod:
    """Return the pod that a task's template describes. Raises UserError."""
    metadata = task.template.get("metadata") or {}
    if isinstance(metadata, dict):
        metadata = {**metadata, "name": task.name or "pod"}
    try:
        return decode_as({"metadata": metadata, "spec": task.template.get("spec") or {}}, Pod)
    except UserError as error:
        raise UserError(error.text, field=f"{field}.{error.field}" if error.field else field) from None


def template_problems(field: str, pod: Pod, settings: Settings) -> Problems:
    """Find what is wrong with a template."""
    found = [*problems(pod), *_spec(pod)]
    if not found and settings.pod_level_resources and pod.spec.resources is not None:
        found = list(_pod_level(pod, pod.spec.resources))
    for each in found:
        yield each._replace(field=f"{field}.{each.field}")


def _spec(pod: Pod) -> Problems:
    spec = pod.spec
    if not spec.containers:
        yield Problem("spec.containers", "expected at least one container, got none")
    yield from one_of("spec.restartPolicy", spec.restart_policy, _RESTART_POLICIES)
    seen: set[str] = set()
    for name, containers in (("spec.containers", spec.containers), ("spec.initContainers", spec.init_containers)):
        yield from _containers(name, containers, seen)


def _containers(field: str, containers: Sequence[Container], seen: set[str]) -> Problems:
    for index, container in enumerate(containers):
        here = f"{field}[{index}]"
        yield from label(f"{here}.name", container.name)
        if container.name in seen:
            yield Problem(f"{here}.name", f'expected a name of its own, got "{container.name}" again')
        seen.add(container.name)
        if not container.image.strip():
            yield Problem(f"{here}.image", "expected the name of an image, got nothing")
        yield from _within_limits(f"{here}.resources", container.resources)


def _within_limits(field: str, resources: ResourceRequirements) -> Problems:
    for resource, request in sorted(resources.requests.items()):
        limit = resources.limits.get(resource)
        if limit is not None and request.value > limit.value:
            text = f'expected at most the limit of {resource}, "{limit}", got "{request}"'
            known_as = f"must be less than or equal to {resource} limit of {limit}"
            yield Problem(f"{field}.requests", text, known_as)


def _pod_level(pod: Pod, resources: ResourceRequirements) -> Problems:
    """What the pod as a whole asks for: within its limits, and enough for its containers."""
    yield from _within_limits("spec.resources", resources)
    for resource in _names(resources):
        if resource not in (CPU, MEMORY) and not resource.startswith("hugepages-"):
            yield Problem("spec.resources", f'expected cpu, memory or huge pages, got "{resource}"')
    needed = pod_request(replace(pod, spec=replace(pod.spec, resources=None, overhead={})))
    for resource, amount in sorted(needed.items()):
        request = resources.requests.get(resource)
        if resource != PODS and request is not None and to_base(resource, request) < amount:
            least = format_amount(resource, amount)
            text = f'expected at least what the containers ask for, {least}, got "{request}"'
            known_as = f"must be greater than or equal to aggregate container requests of {least}"
            yield Problem(f"spec.resources.requests.{resource}", text, known_as)


def _names(resources: ResourceRequirements) -> Iterable[str]:
    return sorted({*resources.requests, *resources.limits})


# -- names that objects are made of ----------------------------------------------------------------------------


def label(field: str, name: str) -> Problems:
    """The name of a container or of a task: part of other names."""
    if _LABEL.fullmatch(name) is None or len(name) > MAX_LABEL:
        wanted = f"at most {MAX_LABEL} lower-case letters, digits and dashes, with none at either end"
        yield Problem(field, f"expected {wanted}, got {_shown(name)}")


def subdomain(field: str, name: str) -> Problems:
    """The name of most objects."""
    if _SUBDOMAIN.fullmatch(name) is None or len(name) > _MAX_SUBDOMAIN:
        yield Problem(field, f"expected lower-case letters, digits, dashes and dots, got {_shown(name)}")


def label_value(field: str, name: str) -> Problems:
    """A name that pods carry as a label."""
    if _QUALIFIED.fullmatch(name) is None or len(name) > MAX_LABEL:
        wanted = f"at most {MAX_LABEL} letters, digits, dashes, dots and underscores"
        yield Problem(field, f"expected {wanted}, got {_shown(name)}")


def pod_name(field: str, name: str) -> Problems:
    """The longest name that a controller will make of others; pods carry theirs as a host name."""
    if len(name) > MAX_LABEL:
        text = f"expected a shorter name: names of pods have at most {MAX_LABEL} characters, got {_shown(name)}"
        yield Problem(field, text)


def _shown(name: str) -> str:
    return f'"{name}" ({len(name)} characters)' if len(name) > MAX_LABEL else f'"{name}"' if name else "nothing"
