"""The objects that tell an API server to ask: Validating- and MutatingWebhookConfiguration, made from the hooks.

Printed by `muster webhooks print`, and written into the chart. Pods are asked about only where they name our scheduler,
and are made all the same when nobody answers: a cluster must be able to start its pods, ours among them. PodGroups are
asked about again only when somebody changes what they ask for: schedulers write their status all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.admission.hooks import HOOKS, Hook
from muster.admission.model import UPDATE, Json
from muster.admission.review import API_VERSION
from muster.api import Pod, PodGroup
from muster.api.definitions import MANAGED_BY

_TIMEOUT_SECONDS: Final = 5
_DOMAIN: Final = "muster.sh"
#: Where a definition has no path for the status alone, writing it is an update of the whole. A spec may be missing.
_SPEC_CHANGES: Final = "request.operation != 'UPDATE' || object.?spec != oldObject.?spec"


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
        "admissionReviewVersions": [API_VERSION.rpartition("/")[2]],
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
        return [{"name": "our-scheduler", "expression": f"object.spec.schedulerName in [{named}]"}]
    if hook.kind is PodGroup and UPDATE in hook.operations:
        return [{"name": "spec-changes", "expression": _SPEC_CHANGES}]
    return []
