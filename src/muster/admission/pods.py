"""Pods of this scheduler: amounts that can be counted, annotations that can be read, and a queue that takes pods.

Pods of other schedulers are nobody's business here. A PodGroup that does not exist yet is fine: it may come next, and
what it makes of the pod's labels is then for the scheduler to say.
"""

from __future__ import annotations

import re
from typing import Final

from muster.admission.model import Findings, Known, Request, Settings
from muster.admission.queue_references import queue_reference
from muster.admission.reading import checked, read
from muster.api import Pod, Problem, group_of
from muster.api.errors import Problems
from muster.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, QUEUE_NAME
from muster.api.validate import uncountable
from muster.snapshot.mirror.jobs import check_index, may_be_beyond_index

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
