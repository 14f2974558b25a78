"""PodGroups: fields that mean something, and a queue that takes gangs; the queue of the namespace by default.

Of a PodGroup that exists, only what a change brings is refused: one with an old mistake, or in a queue that has been
closed since, can still be changed elsewhere.
"""

from __future__ import annotations

from muster.admission.model import CREATE, Findings, Json, Known, Request, Settings
from muster.admission.queue_references import queue_reference
from muster.admission.reading import checked, read, spec_of
from muster.admission.tiers import tier_cautions
from muster.api import PodGroup, problems
from muster.api.names import DEFAULT_QUEUE, QUEUE_NAME
from muster.snapshot.records import check_family


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
