"""Service accounts with the rights of the manifests, or with fewer, for tests."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from muster.testing.control_plane import ControlPlane
from tests.deploy.manifests import DEPLOY
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_NAME = "limited"


def scheduler_rules() -> list[Json]:
    """What the ClusterRole of the manifests allows."""
    documents = yaml.safe_load_all((DEPLOY / "manifests" / "muster.yaml").read_text())
    rules: list[Json] = next(each["rules"] for each in documents if each and each["kind"] == "ClusterRole")
    return rules


def without(rules: list[Json], verb: str, resource: str) -> list[Json]:
    """The same rights, less one verb on one resource."""
    left = []
    for rule in copy.deepcopy(rules):
        if resource not in rule["resources"] or verb not in rule["verbs"]:
            left.append(rule)
            continue
        others = [each for each in rule["resources"] if each != resource]
        left += [{**rule, "resources": others}] if others else []
        verbs = [each for each in rule["verbs"] if each != verb]
        left += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
    return left


class Account:
    """One account, whose rights can be changed while somebody uses it."""

    def __init__(self, kubectl: Kubectl, kubeconfig: Path) -> None:
        self._kubectl = kubectl
        self.kubeconfig = kubeconfig

    def allow(self, rules: list[Json]) -> None:
        role = f"{_RBAC}/clusterroles/{_NAME}"
        self._kubectl.request("PATCH", role, {"rules": rules}, "application/merge-patch+json")


@contextmanager
def account(plane: ControlPlane, kubectl: Kubectl, work: Path, rules: list[Json]) -> Iterator[Account]:
    """Make an account with a role of its own; both are gone afterwards."""
    head = {"metadata": {"name": _NAME}}
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _NAME}
    made: dict[str, Json] = {
        f"{_RBAC}/clusterroles": {**head, "rules": rules},
        f"{_RBAC}/clusterrolebindings": {**head, "roleRef": role, "subjects": [subject]},
        _ACCOUNTS: head,
    }
    try:
        for place, document in made.items():
            kubectl.request("POST", place, document)
        token = kubectl.request("POST", f"{_ACCOUNTS}/{_NAME}/token", {"spec": {"expirationSeconds": 3600}})
        config = yaml.safe_load(plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        path = work / "limited-kubeconfig"
        path.write_text(json.dumps(config))
        yield Account(kubectl, path)
    finally:
        for place in made:
            with contextlib.suppress(RefusedError):
                kubectl.request("DELETE", f"{place}/{_NAME}")
