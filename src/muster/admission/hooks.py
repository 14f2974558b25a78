"""Every hook: what it is asked about, under which path, and the rule that answers.

Paths are Volcano's, so that a configuration written for its webhooks keeps its paths. Read by the server, by
`configuration`, and by recorded cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster.admission.hyper_nodes import validate_hyper_node
from muster.admission.job_defaults import fill_job
from muster.admission.job_dependencies import validate_job_flow
from muster.admission.jobs import validate_job
from muster.admission.model import CREATE, DELETE, UPDATE, Filler, Rule
from muster.admission.pod_groups import fill_pod_group, validate_pod_group
from muster.admission.pods import validate_pod
from muster.admission.queues import fill_queue, validate_queue
from muster.api import HyperNode, KubeObject, Pod, PodGroup, Queue
from muster.api.objects.batch import Job, JobFlow


@dataclass(frozen=True, slots=True)
class Hook:
    """Something that the API server asks about; it has a rule or a filler."""

    kind: type[KubeObject]
    plural: str
    operations: tuple[str, ...]
    rule: Rule | None = None
    filler: Filler | None = None

    @property
    def path(self) -> str:
        return f"/{self.plural}/{'validate' if self.filler is None else 'mutate'}"

    @property
    def group(self) -> str:
        return self.kind.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.kind.api_version.rpartition("/")[2]


_ALL: Final = (
    Hook(HyperNode, "hypernodes", (CREATE, UPDATE), rule=validate_hyper_node),
    Hook(JobFlow, "jobflows", (CREATE, UPDATE), rule=validate_job_flow),
    Hook(Job, "jobs", (CREATE, UPDATE), rule=validate_job),
    Hook(Job, "jobs", (CREATE,), filler=fill_job),
    Hook(PodGroup, "podgroups", (CREATE, UPDATE), rule=validate_pod_group),
    Hook(PodGroup, "podgroups", (CREATE,), filler=fill_pod_group),
    Hook(Pod, "pods", (CREATE,), rule=validate_pod),
    Hook(Queue, "queues", (CREATE, UPDATE, DELETE), rule=validate_queue),
    Hook(Queue, "queues", (CREATE,), filler=fill_queue),
)
HOOKS: Final[Mapping[str, Hook]] = {hook.path: hook for hook in _ALL}
