"""Every hook: what it is asked about, under which path, the rule that answers, and how a server is told to ask.

Paths are Volcano's, so that a configuration written for its webhooks keeps its paths. Pods are asked about only where
they name our scheduler, and are made all the same when nobody answers: a cluster must be able to start its pods, ours
among them. PodGroups are asked about again only when somebody changes what they ask for: schedulers write their status
all the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster.admission.cron_jobs import validate_cron_job
from muster.admission.hyper_nodes import validate_hyper_node
from muster.admission.jobs import fill_job, validate_job, validate_job_flow
from muster.admission.pods import fill_pod, fill_pod_group, validate_pod, validate_pod_group
from muster.admission.queues import fill_queue, validate_queue
from muster.admission.request import CREATE, DELETE, UPDATE, Filler, Json, Rule
from muster.api import HyperNode, KubeObject, Pod, PodGroup, Queue
from muster.api.definitions import MANAGED_BY
from muster.api.names import QUEUE_GATE
from muster.api.objects.batch import CronJob, Job, JobFlow

#: The form of questions that we understand.
REVIEW_API: Final = "admission.k8s.io/v1"
_TIMEOUT_SECONDS: Final = 5
_DOMAIN: Final = "muster.sh"
#: Where a definition has no path for the status alone, writing it is an update of the whole. A spec may be missing.
_SPEC_CHANGES: Final = "request.operation != 'UPDATE' || object.?spec != oldObject.?spec"

#: Few pods do, and the others need not wait for an answer.
_ASKS_FOR_GATE: Final = f"object.metadata.?annotations['{QUEUE_GATE}'].orValue('') == 'true'"


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
    Hook(CronJob, "cronjobs", (CREATE, UPDATE), rule=validate_cron_job),
    Hook(HyperNode, "hypernodes", (CREATE, UPDATE), rule=validate_hyper_node),
    Hook(JobFlow, "jobflows", (CREATE, UPDATE), rule=validate_job_flow),
    Hook(Job, "jobs", (CREATE, UPDATE), rule=validate_job),
    Hook(Job, "jobs", (CREATE,), filler=fill_job),
    Hook(PodGroup, "podgroups", (CREATE, UPDATE), rule=validate_pod_group),
    Hook(PodGroup, "podgroups", (CREATE,), filler=fill_pod_group),
    Hook(Pod, "pods", (CREATE,), rule=validate_pod),
    Hook(Pod, "pods", (CREATE,), filler=fill_pod),
    Hook(Queue, "queues", (CREATE, UPDATE, DELETE), rule=validate_queue),
    Hook(Queue, "queues", (CREATE,), filler=fill_queue),
)
HOOKS: Final[Mapping[str, Hook]] = {hook.path: hook for hook in _ALL}


# -- how an API server is told to ask --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server finds us: a URL, or else a service."""

    url: str = ""
    namespace: str = "muster-system"
    service: str = "muster-webhooks"
    #: The certificates that ours is signed with, in base64; "" if somebody else fills them in.
    ca_bundle: str = ""

    def client_config(self, path: str) -> Json:
        where: Json = (
            {"url": self.url.rstrip("/") + path}
            if self.url
            else {"service": {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}}
        )
        return {**where, "caBundle": self.ca_bundle} if self.ca_bundle else where


def configurations(
    address: Address, *, name: str = "muster", failure_policy: str = "Fail", scheduler_names: tuple[str, ...]
) -> list[Json]:
    """Return both configurations as documents."""
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{family}WebhookConfiguration",
            "metadata": {"name": name, "labels": dict(MANAGED_BY)},
            "webhooks": [
                _webhook(hook, address, failure_policy, scheduler_names)
                for hook in HOOKS.values()
                if (hook.filler is None) == (family == "Validating")
            ],
        }
        for family in ("Mutating", "Validating")
    ]


def _webhook(hook: Hook, address: Address, failure_policy: str, scheduler_names: tuple[str, ...]) -> Json:
    verb = "validate" if hook.filler is None else "mutate"
    webhook: Json = {
        "name": f"{verb}-{hook.plural}.{_DOMAIN}",
        "clientConfig": address.client_config(hook.path),
        "rules": [
            {
                "apiGroups": [hook.group],
                "apiVersions": [hook.version],
                "operations": list(hook.operations),
                "resources": [hook.plural],
            }
        ],
        "admissionReviewVersions": [REVIEW_API.rpartition("/")[2]],
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "failurePolicy": "Ignore" if hook.kind is Pod else failure_policy,
    }
    conditions = _conditions(hook, scheduler_names)
    return {**webhook, "matchConditions": conditions} if conditions else webhook


def _conditions(hook: Hook, scheduler_names: tuple[str, ...]) -> list[Json]:
    """What has to be true of a request for us to be asked, as expressions that the API server evaluates."""
    if hook.kind is Pod:
        named = ", ".join(f"'{name}'" for name in scheduler_names)
        ours = {"name": "our-scheduler", "expression": f"object.spec.schedulerName in [{named}]"}
        return [ours] if hook.filler is None else [ours, {"name": "asks-for-the-gate", "expression": _ASKS_FOR_GATE}]
    if hook.kind is PodGroup and UPDATE in hook.operations:
        return [{"name": "spec-changes", "expression": _SPEC_CHANGES}]
    return []
