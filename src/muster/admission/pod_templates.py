"""Pod templates, and names: what a server would refuse pods for later, as far as scheduling and everyday mistakes go.

Not all rules of Kubernetes are here; what slips through is refused when the pods are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from muster.admission.request import Settings
from muster.api import Container, Pod, Problem, ResourceRequirements, UserError, format_amount, pod_request, problems
from muster.api.errors import Problems, one_of
from muster.api.kinds import decode_as
from muster.api.objects.batch import JobTask
from muster.api.resources import CPU, MEMORY, PODS, to_base

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253


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
